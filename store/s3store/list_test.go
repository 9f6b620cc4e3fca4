package s3store

import (
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
)

// A server lists names after the given one: no key may lie between that name and
// the beginning of the listing.
func TestNoKeyLiesBetweenJustBeforeAndItsArgument(t *testing.T) {
	rng := seeded(t)
	const alphabet = "-/09AZ_az"
	word := func() mayfly.BlobKey {
		b := make([]byte, 1+rng.IntN(4))
		for i := range b {
			b[i] = alphabet[rng.IntN(len(alphabet))]
		}
		return mayfly.BlobKey(b)
	}
	between := 0
	for range 200_000 {
		from, key := word(), word()
		if rng.IntN(4) == 0 {
			from += []mayfly.BlobKey{"!", "\x00", "\x7f", "~", "\xff"}[rng.IntN(5)]
		}
		before := justBefore(from)
		if before >= string(from) {
			t.Fatalf("%q is not before %q", before, from)
		}
		if string(key) > before && key < from {
			t.Fatalf("%q lies behind %q and before %q", key, before, from)
		}
		if strings.HasPrefix(string(key), string(from[:len(from)-1])) {
			between++
		}
	}
	if between < 1000 {
		t.Errorf("only %d keys were near", between)
	}
}
