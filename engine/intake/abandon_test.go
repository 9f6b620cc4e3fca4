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
	"github.com/mayflyhq/mayfly/test/fixture"
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
				e := fixture.Open(t)
				e.Hooks.Commit = func(ctx context.Context, _ *store.Batch, _ func() error) error {
					<-ctx.Done()
					return ctx.Err()
				}
				e.Hooks.Swap = func(ctx context.Context, _ store.Table, _ store.Key, do fixture.Swap) (bool, []byte, error) {
					select {
					case <-time.After(tc.claim):
						return do()
					case <-ctx.Done():
						return false, nil, mayfly.Wrap(mayfly.Unavailable, ctx.Err(), "")
					}
				}
				d := e.Draft()
				d.Key, d.Lifetime = "k", mayfly.Never
				if tc.lifetime > 0 {
					d.Lifetime = fixture.Lifetime(t, tc.lifetime)
				}
				began := time.Now()
				_, err := e.Intake(intake.Options{}).Publish(t.Context(), d, start)
				if took := time.Since(began); took != tc.want || !errors.Is(err, mayfly.Unavailable) {
					t.Errorf("after %s: %v; want it abandoned after %s", took, err, tc.want)
				}
			})
		})
	}
}

// A store that commits too late and says that all is well is not believed.
func TestABirthThatCommittedTooLateIsNotAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := fixture.Open(t)
		e.Hooks.Commit = func(ctx context.Context, b *store.Batch, _ func() error) error {
			time.Sleep(3*time.Second + time.Millisecond)
			return e.Real.Writer.Commit(context.WithoutCancel(ctx), b)
		}
		in := e.Intake(intake.Options{})
		d := e.Draft()
		d.Lifetime = fixture.Lifetime(t, 3*time.Second)
		if _, err := in.Publish(t.Context(), d, start); !errors.Is(err, mayfly.Unavailable) {
			t.Errorf("three seconds: %v", err)
		}
		d.Lifetime = fixture.Lifetime(t, 4*time.Second)
		publish(t, in, d, start)
	})
}

// A timer does not count what the machine slept, or a correction of the clock.
// The node's clock does, and by it the walks may have passed the deadline.
func TestABirthWhoseDeadlinePassedByTheClockIsNotAcknowledged(t *testing.T) {
	e := fixture.Open(t)
	now := start
	in := e.Intake(intake.Options{Now: func() mayfly.Instant { return now }})
	e.Hooks.Commit = func(_ context.Context, _ *store.Batch, do func() error) error {
		now = now.Add(5 * time.Second) // the machine was suspended
		return do()
	}
	d := e.Draft()
	d.Key, d.Lifetime = "k", fixture.Lifetime(t, 5*time.Second)
	if p, err := in.Publish(t.Context(), d, start); !errors.Is(err, mayfly.Unavailable) {
		t.Errorf("%+v, %v", p, err)
	}
	now = start
	d.Key, d.Lifetime = "l", fixture.Lifetime(t, 6*time.Second)
	publish(t, in, d, start)
}

func TestACallerThatIsGoneEndsItsBirth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := fixture.Open(t)
		e.Hooks.Commit = func(ctx context.Context, _ *store.Batch, _ func() error) error {
			<-ctx.Done()
			return ctx.Err()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := e.Intake(intake.Options{}).Publish(ctx, e.Draft(), start); !errors.Is(err, mayfly.Unavailable) || time.Since(began) != time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}
