package intake_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/store"
)

// A birth that has not committed within min(lifetime, 10 s) of being minted is
// abandoned (L4): otherwise it could slip behind a walk.
func TestABirthThatHangsIsAbandonedInTime(t *testing.T) {
	for name, tc := range map[string]struct {
		lifetime time.Duration // 0: never
		claim    time.Duration // how long the claim of its key takes
		want     time.Duration
	}{
		"a day":                            {lifetime: 24 * time.Hour, want: 10 * time.Second},
		"for ever":                         {want: 10 * time.Second},
		"three seconds":                    {lifetime: 3 * time.Second, want: 3 * time.Second},
		"ten seconds":                      {lifetime: 10 * time.Second, want: 10 * time.Second},
		"a day, and a slow key":            {lifetime: 24 * time.Hour, claim: 4 * time.Second, want: 10 * time.Second},
		"three seconds, and a slow key":    {lifetime: 3 * time.Second, claim: 2 * time.Second, want: 3 * time.Second},
		"three seconds, and a slower key":  {lifetime: 3 * time.Second, claim: 7 * time.Second, want: 7 * time.Second},
		"a day, and a key that never ends": {lifetime: 24 * time.Hour, claim: time.Hour, want: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t)
				h.commit = func(ctx context.Context, _ *store.Batch) error {
					<-ctx.Done()
					return ctx.Err()
				}
				h.set.Rows = slow{h.set.Rows, tc.claim}
				d := h.draft()
				d.Key, d.Lifetime = "k", mayfly.Never
				if tc.lifetime > 0 {
					d.Lifetime = lifetime(t, tc.lifetime)
				}
				began := time.Now()
				_, err := h.intake(intake.Options{}).Publish(t.Context(), d, start)
				if took := time.Since(began); took != tc.want || !errors.Is(err, mayfly.Unavailable) {
					t.Errorf("after %s: %v; want it abandoned after %s", took, err, tc.want)
				}
			})
		})
	}
}

// slow is rows whose swaps take a while.
type slow struct {
	store.Rows
	takes time.Duration
}

func (s slow) Swap(ctx context.Context, t store.Table, key store.Key, old, new []byte, at mayfly.Instant) (bool, []byte, error) {
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return false, nil, mayfly.Wrap(mayfly.Unavailable, ctx.Err(), "")
	}
	return s.Rows.Swap(ctx, t, key, old, new, at)
}

// A store that commits too late and says that all is well is not believed.
func TestABirthThatCommittedTooLateIsNotAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.commit = func(ctx context.Context, b *store.Batch) error {
			time.Sleep(3*time.Second + time.Millisecond)
			return h.real.Writer.Commit(context.WithoutCancel(ctx), b)
		}
		in := h.intake(intake.Options{})
		d := h.draft()
		d.Lifetime = lifetime(t, 3*time.Second)
		if _, err := in.Publish(t.Context(), d, start); !errors.Is(err, mayfly.Unavailable) {
			t.Errorf("three seconds: %v", err)
		}
		d.Lifetime = lifetime(t, 4*time.Second)
		h.publish(in, d, start)
	})
}

// A timer does not count what the machine slept, or a correction of the clock.
// The node's clock does, and by it the walks may have passed the deadline.
func TestABirthWhoseDeadlinePassedByTheClockIsNotAcknowledged(t *testing.T) {
	h := open(t)
	now := start
	in := h.intake(intake.Options{Now: func() mayfly.Instant { return now }})
	h.commit = func(ctx context.Context, b *store.Batch) error {
		now = now.Add(5 * time.Second) // the lid was closed
		return h.real.Writer.Commit(ctx, b)
	}
	d := h.draft()
	d.Key, d.Lifetime = "k", lifetime(t, 5*time.Second)
	if p, err := in.Publish(t.Context(), d, start); !errors.Is(err, mayfly.Unavailable) {
		t.Errorf("%+v, %v", p, err)
	}
	now = start
	d.Key, d.Lifetime = "l", lifetime(t, 6*time.Second)
	h.publish(in, d, start)
}

func TestACallerThatIsGoneEndsItsBirth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.commit = func(ctx context.Context, _ *store.Batch) error {
			<-ctx.Done()
			return ctx.Err()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := h.intake(intake.Options{}).Publish(ctx, h.draft(), start); !errors.Is(err, mayfly.Unavailable) || time.Since(began) != time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}
