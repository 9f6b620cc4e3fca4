package media_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/media"
)

// Bytes and lengths are changed at random: whatever comes of it has a kind that a
// caller can act on, and what passes is clean.
func TestNoChangeOfAMediumPassesUnclean(t *testing.T) {
	seed := rand.Uint64()
	if text := os.Getenv("MAYFLY_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		must(t, err)
	}
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	all := samples(t)
	passed, refused := 0, 0
	for range 10_000 {
		s := all[random.IntN(len(all))]
		changed := mutate(random, s.bytes)
		once, c, err := clean(changed, media.Limits{})
		if err != nil {
			if refused++; !errors.Is(err, mayfly.Invalid) && !errors.Is(err, mayfly.TooLarge) && !errors.Is(err, mayfly.Unsupported) {
				t.Fatalf("%s: %x: %v", s.name, changed, err)
			}
			continue
		}
		passed++
		twice, again, err := clean(once, media.Limits{})
		if err != nil || !bytes.Equal(once, twice) || c.Type() != again.Type() {
			t.Fatalf("%s: %x: cleaned again it is another: %v", s.name, changed, err)
		}
		if width, height := c.Dimensions(); int64(width)*int64(height) > 50_000_000 || width == 0 || height == 0 {
			t.Fatalf("%s: %x: %d × %d", s.name, changed, width, height)
		}
	}
	if passed < 500 || refused < 500 {
		t.Errorf("%d passed, %d were refused", passed, refused)
	}
}

// mutate changes, removes, repeats and swaps some bytes.
func mutate(random *rand.Rand, b []byte) []byte {
	changed := bytes.Clone(b)
	for range 1 + random.IntN(3) {
		at := random.IntN(len(changed))
		switch random.IntN(5) {
		case 0:
			changed[at] = byte(random.Uint32())
		case 1:
			changed[at] ^= 1 << random.IntN(8)
		case 2:
			to := min(len(changed), at+random.IntN(9))
			if to-at < len(changed) {
				changed = append(changed[:at:at], changed[to:]...)
			}
		case 3:
			to := min(len(changed), at+random.IntN(40))
			changed = append(changed[:to:to], changed[at:]...)
		default:
			for i := at; i < min(len(changed), at+4); i++ {
				changed[i] = []byte{0, 0xff}[random.IntN(2)]
			}
		}
	}
	return changed
}
