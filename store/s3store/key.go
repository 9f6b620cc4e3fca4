package s3store

import (
	"crypto/rand"
	"strings"

	"github.com/mayflyhq/mayfly"
)

// maxKey is how many bytes a key may have; those of L11 have about thirty, and a
// name on S3 may have 1,024 with the tier's prefix.
const maxKey = 512

// checkKey says Invalid of what L11 cannot have made.
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

// afterKeys is a byte that no key has and that is greater than all that keys
// have. Names that begin with it are ours, lie behind every key in a listing,
// and can be no key.
const afterKeys = "~"

const (
	stagedNames = afterKeys + "staged/" // objects put in parts, until their hash is known
	probeNames  = afterKeys + "probe/"
)

// freshName is a name that nobody else has.
func (s *Store) freshName(below string) string { return s.root + below + rand.Text() }
