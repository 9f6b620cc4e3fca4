package store

import (
	"strings"

	"github.com/mayflyhq/mayfly"
)

// maxBlobKey is how many bytes a key may have; those of L11 have about thirty,
// and a name on S3 may have 1,024 with the tier's prefix.
const maxBlobKey = 512

// CheckBlobKey says Invalid of what L11 cannot have made: what every driver of
// Blobs asks first. Where keys become paths nothing else may be in them.
func CheckBlobKey(key mayfly.BlobKey) error {
	if len(key) > maxBlobKey {
		return mayfly.Errorf(mayfly.Invalid, "key of %d bytes is longer than %d", len(key), maxBlobKey)
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
