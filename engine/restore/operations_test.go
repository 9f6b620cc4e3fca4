package restore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/pace"
)

// operation is an operation of support on an item, with its setup.
type operation struct {
	name  string
	setup func(h *env) mayfly.Item
	do    func(h *env, r *restore.Restore, item mayfly.Item) error
}

// operations returns all operations, at all stages.
func operations() (all []operation) {
	ctx := context.Background()
	bring := func(h *env, r *restore.Restore, item mayfly.Item) error {
		_, err := r.Item(ctx, h.request(item.ID), h.Now)
		return err
	}
	hold := func(h *env, r *restore.Restore, item mayfly.Item) error {
		return r.Hold(ctx, item.ID, audit.Actor{Subject: "ben"}, "case 9", h.Now)
	}
	release := func(h *env, r *restore.Restore, item mayfly.Item) error {
		return r.Release(ctx, item.ID, audit.Actor{Subject: "ben"}, "closed", h.Now)
	}
	undo := func(h *env, r *restore.Restore, item mayfly.Item) error {
		_, err := r.Undo(ctx, item.Run, restore.UndoRequest{By: audit.Actor{Subject: "ben"}, Reason: "clock"}, h.Now)
		return err
	}
	for s := range stages {
		at := func(h *env) mayfly.Item { return h.at(s, 2) }
		all = append(
			all, operation{"restore " + s.String(), at, bring}, operation{"hold " + s.String(), at, hold},
			operation{"release " + s.String(), heldAt(s, false), release}, operation{"release deleted " + s.String(), heldAt(s, true), release},
		)
	}
	return append(all, operation{"undo", wrongSweep, undo})
}

// heldAt sets up an item that was held two hours ago, and optionally deleted.
func heldAt(s stage, deleted bool) func(h *env) mayfly.Item {
	return func(h *env) mayfly.Item {
		item := h.at(s, 2)
		h.Hold(item.ID)
		if deleted {
			h.delete(item.ID)
		}
		h.live(item.ID, 2*time.Hour, 10*time.Minute)
		return h.Row(item.ID)
	}
}

// wrongSweep sets up an item that a walk with a clock three hours ahead has expired.
func wrongSweep(h *env) mayfly.Item {
	h.Helper()
	item := h.Story(2)
	holder := fmt.Sprintf("wrong-%d", h.Now)
	shard := walk.NewShard(h.Real.Rows, item.ID.Shard(), holder, time.Second, h.origin)
	w, err := walk.New(h.Real, h.sweep(sweep.Options{}).Walk(), shard, walk.Options{Holder: holder, Unpaced: true})
	h.Must(err)
	delete(h.walkers, item.ID.Shard()) // it belongs to a process that has lost its shard
	h.pass(w, h.Now.Add(3*time.Hour))
	h.remind(item.ID, remind.Archive, item.ID.Deadline().Add(window))
	h.Must(shard.Release(context.Background()))
	row := h.Row(item.ID)
	if row.State != mayfly.ExpiredHot {
		h.Fatalf("not swept: %+v", row)
	}
	return row
}

// wantIntact checks what must be true at any moment: an item that is held or not
// deleted has all its media (I2, I21), and a deleted item stays deleted (I7).
func (h *env) wantIntact(before mayfly.Item) {
	h.Helper()
	row := h.Row(before.ID)
	if before.State == mayfly.Deleted && row.State != mayfly.Deleted {
		h.Fatalf("RESURRECTED: %+v", row)
	}
	if row.State == mayfly.Deleted && !row.Held {
		return
	}
	if row.State == mayfly.Deleted {
		row.State = mayfly.ExpiredHot // hydrate does not open deleted items
	}
	h.Readable(row)
}

// wantSettled checks what must be true after all reminders: the item is held or in its
// final state, no other objects are left, and its events are in the log. The store
// reclaims an entry of the restored set that lands after all reminders.
func (h *env) wantSettled(before mayfly.Item, lands landing) {
	h.Helper()
	h.wantIntact(before)
	row, events, verbs := h.Row(before.ID), h.events(before.ID), h.verbs(before.ID)
	if restored := verbs[mayfly.WasRestored]; max(verbs[mayfly.WasExpired], verbs[mayfly.WasArchived]) > 1+restored || verbs[mayfly.WasExpired] < restored {
		h.Fatalf("DOUBLE, or LOST: %v", events)
	}
	if row.Held {
		if verbs[mayfly.WasHeld] == 0 && before.Generation != row.Generation {
			h.Fatalf("held without an event: %v", events)
		}
		return
	}
	if row.ServesUntil != 0 && verbs[mayfly.WasRestored] == 0 {
		h.Fatalf("restored without an event: %v", events)
	}
	left, there := h.unnamed(row), h.restored(before.ID)
	if row.State != mayfly.Cold && row.State != mayfly.Deleted || len(left) > 0 || there && lands != atLast {
		h.Fatalf("ORPHAN: %s, left %v, in the restored set: %t", row.State, left, there)
	}
}

// picture describes a state: the row and which objects exist.
func (h *env) picture(id mayfly.ID) string {
	h.Helper()
	row, objects := h.Row(id), ""
	for g := mayfly.Born; g <= row.Generation+2; g++ {
		for n := range int(row.Media) {
			for _, tier := range []store.Blobs{h.Real.Hot, h.Real.Cold} {
				objects += map[bool]string{true: "1", false: "0"}[h.Has(tier, row.MediaKey(g, n))]
			}
		}
	}
	return fmt.Sprint(row.State, row.Generation, row.Held, row.Keys, row.ServesUntil > 0, objects, h.restored(id), len(h.events(id)))
}

// landing is when the writes of a failed call land.
type landing int

const (
	never landing = iota
	atOnce
	between // after the first reminder
	atLast  // after all reminders
	landings
)

// withEnv calls do with a store whose ids are all in one shard and with a place that
// every failure names, then verifies the audit log.
func withEnv(t *testing.T, do func(h *env, where *string)) {
	t.Helper()
	var where string
	fixture.With(fixture.Located{TB: t, Where: func() string { return where }}, vfs.NewMem(), func(e *fixture.Engine) {
		e.Random = firstShard{}
		do(newEnv(e), &where)
		report, err := audit.Verify(context.Background(), e.Real.Rows, nil)
		if err != nil || !report.Sound() {
			t.Errorf("audit: %v %v", report.Findings, err)
		}
	})
}

func TestAnOperationCanStopAtEveryCall(t *testing.T) {
	pace.Heavy(t, "thousands of stops")
	r := fixture.Seeded(t)
	stops, landed, states := 0, 0, map[string]bool{}
	for _, d := range operations() {
		withEnv(t, func(h *env, where *string) {
			*where = d.name + ", not stopped"
			item, calls := stop{operation: d, plan: storetest.Pass}.run(h, r, states, &landed)
			h.wantSettled(item, never)
			late := map[mayfly.Item]stop{}
			for _, s := range stopsOf(d, calls) {
				if !pace.Long() && r.IntN(6) > 0 {
					continue
				}
				stops++
				*where = d.name + ": " + s.what
				item, _ := s.run(h, r, states, &landed)
				if s.lands >= between {
					late[item] = s
				} else {
					h.wantSettled(item, s.lands)
				}
			}
			h.live(item.ID, 28*time.Hour, time.Hour) // the last reminder is for late changes
			for item, s := range late {
				*where = d.name + ": " + s.what
				h.wantSettled(item, s.lands)
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

// run runs an operation that is stopped, then the reminders of four hours, and checks
// the item after each step. It returns the item as it was before.
func (s stop) run(h *env, r *rand.Rand, states map[string]bool, landed *int) (mayfly.Item, []storetest.Call) {
	h.Helper()
	h.Now = h.Now.Add(time.Hour)
	before := s.setup(h)
	set, late := storetest.Prefix(h.Real, s.plan)
	h.Set = set
	log, err := audit.Open(context.Background(), h.Set.Rows, "test", h.Now)
	if err == nil {
		var support *restore.Restore
		support, err = restore.New(h.Set, log, h.options)
		h.Must(err)
		err = s.do(h, support, before)
	}
	if err != nil && late.Failed() == 0 {
		h.Fatal(err)
	}
	land := func(when landing) {
		if s.lands == when && when != never {
			n, err := late.LandAll(context.Background(), r)
			h.Must(err)
			*landed += n
		}
		states[strings.SplitN(s.name, " ", 2)[0]+h.picture(before.ID)] = true
		h.wantIntact(before)
	}
	land(never)
	land(atOnce)
	h.live(before.ID, 6*time.Minute, time.Minute)
	land(between)
	h.live(before.ID, 4*time.Hour, 10*time.Minute)
	land(atLast)
	return before, late.Calls()
}

func TestEveryFaultOfATierLeavesTheItemIntact(t *testing.T) {
	pace.Heavy(t, "hundreds of faults")
	r := fixture.Seeded(t)
	tried, landed, states := 0, 0, map[string]bool{}
	for _, d := range operations() {
		if !strings.HasPrefix(d.name, "restore") && d.name != "undo" {
			continue
		}
		withEnv(t, func(h *env, where *string) {
			for _, tier := range []string{"hot", "cold"} {
				for n, hit := 1, true; hit; n++ {
					hit = false
					for _, fault := range []storetest.BlobFault{storetest.Before, storetest.After, storetest.Short} {
						plan := func(c storetest.BlobCall) storetest.BlobFault {
							if c.N != n {
								return storetest.NoFault
							}
							hit = true
							return fault
						}
						*where = fmt.Sprintf("%s: call %d of %s, fault %d", d.name, n, tier, fault)
						item, _ := stop{operation: faulty(d, tier, plan), plan: storetest.Pass}.run(h, r, states, &landed)
						h.wantSettled(item, never)
						tried++
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

// faulty returns an operation that runs with faults of a tier. It may fail, but must
// not lose anything.
func faulty(d operation, tier string, plan func(storetest.BlobCall) storetest.BlobFault) operation {
	return operation{d.name, d.setup, func(h *env, _ *restore.Restore, item mayfly.Item) error {
		h.Set = h.Real
		if tier == "hot" {
			h.Set.Hot = storetest.FaultyBlobs(h.Real.Hot, plan)
		} else {
			h.Set.Cold = storetest.FaultyBlobs(h.Real.Cold, plan)
		}
		_ = d.do(h, h.support(), item)
		return nil
	}}
}

type crash = storetest.Crash[struct{}]

func TestPowerLossAtEveryWriteLeavesTheItemIntact(t *testing.T) {
	pace.Heavy(t, "hundreds of crashes")
	r := fixture.Seeded(t)
	points, states := 0, map[string]bool{}
	for _, d := range operations() {
		crashes, before, now := photograph(t, d, r)
		for i, c := range crashes {
			points++
			at := fixture.Located{TB: t, Where: func() string { return fmt.Sprintf("%s: crash %d of %d, %s", d.name, i, len(crashes), c) }}
			fixture.With(at, c.FS, func(e *fixture.Engine) {
				e.Now, e.Random = now.Add(10*time.Second), firstShard{} // leases have expired
				newEnv(e).recover(d, before, i%2 == 1, states)
			})
		}
	}
	storetest.Proof(t, "restore, power loss", "crash points", points)
	storetest.Proof(t, "restore, power loss", "distinct states recovered", len(states))
	if points < 300 || len(states) < 30 {
		t.Error("too little was tried")
	}
}

// photograph runs an operation and copies its disk as power losses would leave it.
func photograph(t *testing.T, d operation, r *rand.Rand) (crashes []crash, before mayfly.Item, now mayfly.Instant) {
	t.Helper()
	cam := &storetest.Crashes[struct{}]{Disk: vfs.NewCrashableMem(), RNG: r}
	fixture.With(t, cam.FS(), func(e *fixture.Engine) {
		e.Random = firstShard{}
		h := newEnv(e)
		before = d.setup(h)
		support := h.support()
		cam.On(func() struct{} { return struct{}{} })
		err := d.do(h, support, before)
		crashes, _ = cam.Off()
		h.Must(err)
		now = h.Now
	})
	return crashes, before, now
}

// recover checks the item after a crash and lets time pass; with again, the operation
// is repeated first.
func (h *env) recover(d operation, before mayfly.Item, again bool, states map[string]bool) {
	h.Helper()
	states[d.name+h.picture(before.ID)] = true
	h.wantIntact(before)
	if again {
		if err := d.do(h, h.support(), before); err != nil && !errors.Is(err, mayfly.Conflict) { // it is restored already
			h.Fatalf("tried again: %v", err)
		}
		h.wantIntact(before)
	}
	h.live(before.ID, 5*time.Hour, 10*time.Minute)
	h.wantSettled(before, never)
}
