package restore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/pace"
)

// seeded returns a random source and logs its seed; MAYFLY_SEED sets the seed.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("MAYFLY_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("MAYFLY_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// long reports whether every stop is tried, not one in six.
func long() bool { return os.Getenv("MAYFLY_LONG") != "" }

// landing is when the writes of a failed call land.
type landing int

const (
	never landing = iota
	atOnce
	between // after the first reminder
	atLast  // after all reminders
	landings
)

// withFixture calls do with a fixture whose ids are all in one shard, then verifies the
// audit log.
func withFixture(t *testing.T, do func(h *fixture)) {
	t.Helper()
	h, err := openFixture(vfs.NewMem(), genesis)
	if err != nil {
		t.Fatal(err)
	}
	h.random = firstShard{}
	do(h)
	report, err := audit.Verify(context.Background(), h.real.Rows, nil)
	if err != nil || !report.Sound() {
		t.Errorf("audit: %v %v", report.Findings, err)
	}
	if err := h.close(); err != nil {
		t.Error(err)
	}
}

func TestAnOperationCanStopAtEveryCall(t *testing.T) {
	pace.Heavy(t, "thousands of stops")
	r := seeded(t)
	stops, landed, states := 0, 0, map[string]bool{}
	for _, d := range operations() {
		withFixture(t, func(h *fixture) {
			calls, err := stop{operation: d, plan: storetest.Pass}.run(h, r, states, &landed)
			if err != nil {
				t.Fatalf("%s, not stopped: %v", d.name, err)
			}
			for _, s := range stopsOf(d, calls) {
				if !long() && r.IntN(6) > 0 {
					continue
				}
				stops++
				if _, err := s.run(h, r, states, &landed); err != nil {
					t.Errorf("%s: %s: %v", d.name, s.what, err)
				}
			}
		})
	}
	storetest.Proof(t, "restore, prefix", "stops tried", stops)
	storetest.Proof(t, "restore, prefix", "late writes landed", landed)
	storetest.Proof(t, "restore, prefix", "distinct states", len(states))
	if stops < 600 || landed < 400 || len(states) < 60 {
		t.Error("too little was tried")
	}
}

// stop is one way to stop an operation.
type stop struct {
	operation
	plan  storetest.Plan
	lands landing
	what  string
}

// stopsOf returns all faults of all calls of an operation, with each time at which
// the failed writes may land. Swaps belong to the audit log and the watermarks, which
// have their own tests: for them it is enough that the process dies.
func stopsOf(d operation, calls []storetest.Call) (all []stop) {
	for _, call := range calls {
		for _, fault := range storetest.Faults(call) {
			for lands := range landings {
				for _, fault.Halts = range []bool{true, false} {
					if call.Op == storetest.Swap && (!fault.Halts || fault.Silent || lands > atOnce) {
						continue
					}
					what := fmt.Sprintf("call %d (%s), %+v, lands %d", call.N, call.Op, fault, lands)
					all = append(all, stop{operation: d, plan: storetest.FailNth(call.N, fault), lands: lands, what: what})
				}
			}
		}
	}
	return all
}

// run runs an operation that is stopped, then the reminders, and checks the item after
// each step.
func (s stop) run(h *fixture, r *rand.Rand, states map[string]bool, landed *int) ([]storetest.Call, error) {
	h.now = h.now.Add(time.Hour)
	before, err := s.setup(h)
	if err != nil {
		return nil, fmt.Errorf("setup: %w", err)
	}
	set, late := storetest.Prefix(h.real, s.plan)
	h.set = set
	support, err := h.restorer()
	if err != nil {
		return nil, err
	}
	if err := s.do(h, support, before); err != nil && late.Failed() == 0 {
		return nil, err
	}
	look := func() error {
		picture, err := h.picture(before.ID)
		states[strings.SplitN(s.name, " ", 2)[0]+picture] = true
		return errors.Join(err, h.intact(before))
	}
	land := func(when landing) error {
		if s.lands != when {
			return look()
		}
		n, err := late.LandAll(context.Background(), r)
		*landed += n
		return errors.Join(err, look())
	}
	for _, step := range []func() error{
		look,
		func() error { return land(atOnce) },
		func() error { return h.live(before.ID, 6*time.Minute, time.Minute) },
		func() error { return land(between) },
		func() error { return h.live(before.ID, 4*time.Hour, 10*time.Minute) },
		func() error { return land(atLast) },
		func() error { return h.lastDay(before.ID, s.lands >= between) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return late.Calls(), h.settled(before, s.lands)
}

// lastDay lets the time of the last reminder pass, which is for late changes.
func (h *fixture) lastDay(id mayfly.ID, wanted bool) error {
	if !wanted {
		return nil
	}
	return h.live(id, 28*time.Hour, time.Hour)
}

func TestEveryFaultOfATierLeavesTheItemIntact(t *testing.T) {
	pace.Heavy(t, "hundreds of faults")
	r := seeded(t)
	tried, states := 0, map[string]bool{}
	for _, d := range operations() {
		if !strings.HasPrefix(d.name, "restore") && d.name != "undo" {
			continue
		}
		withFixture(t, func(h *fixture) {
			for _, tier := range []string{"hot", "cold"} {
				for n := 1; ; n++ {
					hit := false
					for _, fault := range []storetest.BlobFault{storetest.Before, storetest.After, storetest.Short} {
						plan := func(c storetest.BlobCall) storetest.BlobFault {
							if c.N != n {
								return storetest.NoFault
							}
							hit = true
							return fault
						}
						if err := faulty(h, d, tier, plan, r, states); err != nil {
							t.Errorf("%s: call %d of %s, fault %d: %v", d.name, n, tier, fault, err)
						}
						tried++
					}
					if !hit {
						break
					}
				}
			}
		})
	}
	storetest.Proof(t, "restore, tiers", "faults tried", tried)
	storetest.Proof(t, "restore, tiers", "distinct states", len(states))
	if tried < 90 || len(states) < 10 {
		t.Error("too little was tried")
	}
}

func faulty(h *fixture, d operation, tier string, plan func(storetest.BlobCall) storetest.BlobFault, r *rand.Rand, states map[string]bool) error {
	s := operation{d.name, d.setup, func(h *fixture, _ *restore.Restore, item mayfly.Item) error {
		h.set = h.real
		if tier == "hot" {
			h.set.Hot = storetest.FaultyBlobs(h.real.Hot, plan)
		} else {
			h.set.Cold = storetest.FaultyBlobs(h.real.Cold, plan)
		}
		support, err := h.restorer()
		if err != nil {
			return err
		}
		_ = d.do(h, support, item) // it may fail, but must not lose anything
		return nil
	}}
	landed := 0
	_, err := stop{operation: s, plan: storetest.Pass}.run(h, r, states, &landed)
	return err
}
