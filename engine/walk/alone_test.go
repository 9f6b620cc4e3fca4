package walk_test

import (
	"errors"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
)

// passes passes n times, a second apart, and returns the last error.
func passes(t *testing.T, w *walk.Walker, now mayfly.Instant, n int) (err error) {
	t.Helper()
	for range n {
		if _, err = w.Pass(t.Context(), now); err != nil && !errors.Is(err, mayfly.Unavailable) {
			t.Fatal(err)
		}
		now = now.Add(time.Second)
	}
	return err
}

func TestAnItemThatAloneStaysUnavailableIsParkedAndTheWalkGoesOn(t *testing.T) {
	away := mayfly.Errorf(mayfly.Unavailable, "operation not permitted")
	for name, c := range map[string]struct {
		step  time.Duration // between the items
		stuck []int
	}{
		"others in its minute":                 {time.Second, []int{2}},
		"others in later minutes":              {10 * time.Minute, []int{0}},
		"two beside each other":                {time.Second, []int{1, 2}},
		"two beside each other, minutes apart": {10 * time.Minute, []int{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			set, k := open(t), &recorder{}
			ids := due(t, set, spread(start, c.step, 5)...)
			var stuck []mayfly.ID
			for _, n := range c.stuck {
				stuck = append(stuck, ids[n])
			}
			k.then = poison(away, stuck...)
			w := walker(t, set, k.walk(), walk.Options{Unpaced: true})
			if err := passes(t, w, start.Add(time.Hour), 20); err != nil {
				t.Fatal(err)
			}
			if got := w.Progress().Parked; got != uint64(len(stuck)) {
				t.Errorf("%d items are parked, want %d", got, len(stuck))
			}
			if got := stored(t, set); got < ids[4].Deadline() {
				t.Errorf("the watermark is at %s: an item that fails alone stops the walk", got)
			}
			if done := len(distinct(k.done)); done != len(ids)-len(stuck) {
				t.Errorf("%d items are done", done)
			}
		})
	}
}

func TestAStoreThatIsUnavailableForAllParksNothingHoweverLong(t *testing.T) {
	away := mayfly.Errorf(mayfly.Unavailable, "the bucket is away")
	for name, step := range map[string]time.Duration{"a full minute": time.Second, "one item a minute": time.Minute} {
		t.Run(name, func(t *testing.T) {
			set, k := open(t), &recorder{}
			ids := due(t, set, spread(start, step, 12)...)
			k.then = poison(away, ids...)
			w := walker(t, set, k.walk(), walk.Options{Unpaced: true})
			now := start.Add(time.Hour)
			if err := passes(t, w, now, 70); err == nil || w.Progress().Parked > 0 {
				t.Fatalf("%d items are parked, %v", w.Progress().Parked, err)
			}
			if got := stored(t, set); got >= ids[0].Deadline() {
				t.Errorf("the watermark has passed an item that is neither done nor parked")
			}
			k.then = nil
			pass(t, w, now.Add(2*time.Minute))
			if done := len(distinct(k.done)); done != len(ids) {
				t.Errorf("%d items are done", done)
			}
		})
	}
}

func TestAnItemThatFailsWithNothingBehindItWaitsForProof(t *testing.T) {
	away := mayfly.Errorf(mayfly.Unavailable, "?")
	set, k := open(t), &recorder{}
	first := due(t, set, start)
	k.then = poison(away, first...)
	w := walker(t, set, k.walk(), walk.Options{Unpaced: true})
	now := start.Add(time.Minute)
	if err := passes(t, w, now, 20); err == nil || w.Progress().Parked > 0 {
		t.Fatalf("%d items are parked though no other was tried, %v", w.Progress().Parked, err)
	}
	due(t, set, start.Add(30*time.Second))
	if err := passes(t, w, now.Add(30*time.Second), 20); err != nil || w.Progress().Parked != 1 {
		t.Errorf("%d items are parked, %v", w.Progress().Parked, err)
	}
}
