package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/pace"
)

// When the writes of a failed call land, if ever.
type landing int

const (
	never landing = iota
	beforeRetry
	afterRetry
	afterSweep
	afterRestart
	landings
)

func (l landing) String() string {
	return [...]string{"never", "before the retry", "after the retry", "after the sweep", "after a restart"}[l]
}

// stop is one way to stop the play: a fault of one call, and when it lands.
type stop struct {
	n       int
	fault   storetest.Fault
	lands   landing
	twice   bool // the call after it fails too
	patient bool // no retry before the sweep
}

// plan is the plan that stops a play there.
func (s stop) plan(c storetest.Call) storetest.Fault {
	switch {
	case c.N == s.n:
		return s.fault
	case s.twice && c.N == s.n+1:
		return storetest.Fault{Fails: true, Kind: mayfly.Unavailable}
	default:
		return storetest.Fault{}
	}
}

func (s stop) String() string {
	return fmt.Sprintf("call %d: stage %d, written %b, silent %t, halts %t, %s; lands %s; twice %t, patient %t",
		s.n, s.fault.Stage, s.fault.Written, s.fault.Silent, s.fault.Halts, s.fault.Kind, s.lands, s.twice, s.patient)
}

func TestEveryStageOfBirthAndExpiryCanBeTheLast(t *testing.T) {
	pace.Heavy(t, "thousands of stops")
	n := seed(t)
	stops := allStops(t, n)
	if !pace.Long() { // another third each time
		rng := seeded(n)
		rng.Shuffle(len(stops), func(i, j int) { stops[i], stops[j] = stops[j], stops[i] })
		stops = stops[:len(stops)/3]
	}
	total, states := newTally(), map[[32]byte]bool{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan stop)
	for range 2 {
		wg.Go(func() {
			for s := range next {
				p, err := perform(t.Context(), n, s)
				mu.Lock()
				if err != nil {
					t.Errorf("%s: %v", s, err)
				} else {
					total.merge(p.tally, s.String())
					for digest := range p.digests {
						states[digest] = true
					}
				}
				mu.Unlock()
			}
		})
	}
	for _, s := range stops {
		next <- s
	}
	close(next)
	wg.Wait()
	storetest.Proof(t, "prefix", "stops tried", len(stops))
	storetest.Proof(t, "prefix", "distinct states audited", len(states))
	total.zero(t, "prefix")
	if len(stops) < 500 || len(states) < 200 {
		t.Errorf("%d stops and %d states are too few", len(stops), len(states))
	}
}

func perform(ctx context.Context, n uint64, s stop) (*play, error) {
	p, err := newPlay(ctx, n, s.plan)
	if err != nil {
		return nil, err
	}
	return p, errors.Join(p.run(ctx, s), p.engine.close())
}

// allStops lists every fault of every call of the play, and when it may land.
func allStops(t *testing.T, n uint64) (stops []stop) {
	t.Helper()
	var calls []storetest.Call
	p, err := newPlay(t.Context(), n, func(c storetest.Call) storetest.Fault {
		calls = append(calls, c)
		return storetest.Fault{}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.run(t.Context(), stop{}), p.engine.close()); err != nil {
		t.Fatal(err)
	}
	p.tally.zero(t, "prefix, nothing stopped")
	for _, call := range calls {
		for _, fault := range storetest.Faults(call) {
			for lands := range landings {
				fault.Halts = !fault.Halts
				stops = append(stops, stop{n: call.N, fault: fault, lands: lands})
				stops = append(stops, stop{n: call.N, fault: fault, lands: lands, patient: true, twice: len(stops)%4 == 1 && !fault.Halts})
			}
		}
	}
	return stops
}
