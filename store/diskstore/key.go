package diskstore

import (
	"strings"

	"github.com/mayflyhq/mayfly"
)

// maxKey is how many bytes a key may have; those of L11 have about thirty.
const maxKey = 512

// checkKey says Invalid of what L11 cannot have made. Keys are not paths here,
// but another driver may make them part of one.
func checkKey(key mayfly.BlobKey) error {
	if len(key) > maxKey {
		return mayfly.Errorf(mayfly.Invalid, "key of %d bytes is longer than %d", len(key), maxKey)
	}
	for part := range strings.SplitSeq(string(key), "/") {
		if part == "" || strings.IndexFunc(part, notInKey) >= 0 {
			return mayfly.Errorf(mayfly.Invalid, "key %q is not made of 0-9 A-Z a-z _ - between single slashes", key)
		}
	}
	return nil
}

func notInKey(r rune) bool {
	switch {
	case r >= '0' && r <= '9', r >= 'A' && r <= 'Z', r >= 'a' && r <= 'z', r == '_', r == '-':
		return false
	}
	return true
}
