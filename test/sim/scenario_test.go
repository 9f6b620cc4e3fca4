package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
)

// scenario is a stretch of life: births with and without media and key, retries,
// passes. It takes all errors that a store may give; the record knows what was
// acknowledged.
type scenario struct {
	engine *engine
	record *record
	rng    *rand.Rand
	now    atomic.Int64
	owners []mayfly.UserID
}

func newScenario(h *engine, b *record, rng *rand.Rand, now mayfly.Instant) *scenario {
	s := &scenario{engine: h, record: b, rng: rng}
	s.now.Store(int64(now))
	for range 3 {
		s.owners = append(s.owners, randomUser(rng))
	}
	return s
}

func (s *scenario) at() mayfly.Instant { return mayfly.Instant(s.now.Load()) }

func (s *scenario) advance(d time.Duration) { s.now.Add(d.Milliseconds()) }

// newWish is a wish at random.
func (s *scenario) newWish() *wish {
	lifetimes := []int64{1_000, 2_000, 5_000, 30_000, 60_000, 24 * 3600_000, 0}
	w := wish{
		owner: s.owners[s.rng.IntN(len(s.owners))], lifetime: lifetimes[s.rng.IntN(len(lifetimes))],
		fate: mayfly.Archive + mayfly.Fate(s.rng.IntN(2)), audience: mayfly.Everyone + mayfly.Audience(s.rng.IntN(3)),
	}
	if s.rng.IntN(2) == 0 {
		w.key = fmt.Sprintf("key-%d", s.rng.Uint64())
	}
	for range s.rng.IntN(3) {
		size := 10 + s.rng.IntN(300)
		if s.rng.IntN(3) == 0 {
			size = 1_100 + s.rng.IntN(2_000) // a file of its own
		}
		w.media = append(w.media, randomBytes(s.rng, size))
	}
	return s.record.wishFor(w, 200+s.rng.IntN(1500))
}

// step does one thing, and lets some time pass.
func (s *scenario) step(ctx context.Context) error {
	var err error
	switch n := s.rng.IntN(10); {
	case n < 1:
		s.burst(ctx, func(_ *wish, e error) { err = errors.Join(err, e) })
	case n < 6:
		_, err = s.record.publish(ctx, s.engine.uploads, s.engine.intake, s.newWish(), s.at())
	case n < 8:
		err = s.retry(ctx)
	default:
		err = s.engine.pass(ctx, s.at())
	}
	s.advance(time.Duration(s.rng.IntN(1500)) * time.Millisecond)
	return err
}

// retry tries a wish with a key again.
func (s *scenario) retry(ctx context.Context) error {
	if len(s.record.wishes) == 0 {
		return nil
	}
	w := s.record.wishes[s.rng.IntN(len(s.record.wishes))]
	if w.key == "" || len(s.record.tries[w.number]) == 0 {
		return nil
	}
	_, err := s.record.publish(ctx, s.engine.uploads, s.engine.intake, w, s.at())
	if errors.Is(err, mayfly.Gone) {
		return s.goneWrongly(w)
	}
	return err
}

// burst tries several wishes at once, and each of them twice at once.
func (s *scenario) burst(ctx context.Context, judge func(*wish, error)) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range 3 {
		w := s.newWish()
		w.key = fmt.Sprintf("burst-%d", s.rng.Uint64())
		for range 2 {
			wg.Go(func() {
				_, err := s.record.publish(ctx, s.engine.uploads, s.engine.intake, w, s.at())
				mu.Lock()
				defer mu.Unlock()
				judge(w, err)
			})
		}
	}
	wg.Wait()
}

// goneWrongly says whether a birth that was acknowledged is now said to have
// been abandoned.
func (s *scenario) goneWrongly(w *wish) error {
	if id, ok := s.record.granted(w); ok {
		return fmt.Errorf("%w: %s was acknowledged and is said to be abandoned", errWrong, id)
	}
	return nil
}

// finish retries the first wishes, those with a key: all that were not
// acknowledged and some that were. Then it passes until all deadlines of the
// short lifetimes are behind every watermark.
func (s *scenario) finish(ctx context.Context, wishes int) error {
	for _, w := range s.record.wishes[:wishes] {
		_, granted := s.record.granted(w)
		if w.key == "" || len(s.record.tries[w.number]) == 0 || granted && s.rng.IntN(3) != 0 {
			continue
		}
		if _, err := s.record.publish(ctx, s.engine.uploads, s.engine.intake, w, s.at()); errors.Is(err, mayfly.Gone) {
			if err := s.goneWrongly(w); err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
	}
	s.advance(61*time.Second + settle)
	for range 2 {
		if err := s.engine.pass(ctx, s.at()); err != nil {
			return err
		}
		s.advance(settle + 6*time.Second)
	}
	return s.engine.pass(ctx, s.at())
}
