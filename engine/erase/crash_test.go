package erase_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/erasure"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/pace"
)

// brief makes tombstones leave after minutes, so that few minutes are walked.
func brief() erase.Options {
	return erase.Options{Tombstones: remind.Tombstones{Kept: 10 * time.Minute, Slack: 5 * time.Minute}}
}

// life is a scenario: what it deletes, what it holds and what it leaves alone.
type life struct {
	cold, active, eternal mayfly.Item // deleted
	held                  mayfly.Item // deleted by its author, and held
	survivor              mayfly.Item
	acked                 map[mayfly.ID]bool
	tidied                bool // it came so far that tombstones may be gone
}

func (l *life) all() []mayfly.Item {
	return []mayfly.Item{l.cold, l.active, l.eternal, l.held, l.survivor}
}

func (l *life) ended() []mayfly.Item { return []mayfly.Item{l.cold, l.active, l.eternal} }

func prepare(fx *erasure.Fixture) *life {
	l := &life{acked: map[mayfly.ID]bool{}}
	l.cold, l.survivor, l.held = fx.Story(2), fx.Story(1), fx.Story(1)
	l.eternal = fx.Forever(fixture.Ana(), 1)
	fx.MoveToCold(l.cold, l.survivor)
	l.active = fx.Story(1)
	fx.Hold(l.held.ID)
	return l
}

// live deletes, erases and tidies, as far as it comes. ack is called behind
// every deletion that was acknowledged.
func (l *life) live(fx *erasure.Fixture, ack func(mayfly.ID)) error {
	ctx, e := context.Background(), fx.EraserWith(brief())
	for _, item := range []mayfly.Item{l.cold, l.held, l.active, l.eternal} {
		if _, err := e.Delete(ctx, item.ID, mayfly.ByUser, fx.Now); err == nil {
			ack(item.ID)
		} else if errors.Is(err, mayfly.Unavailable) || errors.Is(err, mayfly.Unknown) {
			return err
		} else {
			fx.Fatal(err)
		}
	}
	b := walk.Batch{Items: l.all(), Now: fx.Now, Repeat: true}
	if _, err := e.Act(ctx, b); err != nil {
		return err
	}
	b.Now = l.active.ID.Deadline().Add(15 * time.Minute)
	l.tidied = true
	_, err := e.TidyAct(ctx, b)
	return err
}

// recover replays the reminders on the store as it is, and holds it against what
// was acknowledged; finally lets the tombstones' time pass and does so again.
func (l *life) recover(fx *erasure.Fixture, late func()) {
	fx.Helper()
	e := fx.EraserWith(brief())
	fx.Remind(e, fx.Now.Add(erasure.Soon))
	l.check(fx, false)
	late()
	end := l.active.ID.Deadline().Add(40 * time.Minute)
	fx.WantActed(e.TidyAct(context.Background(), walk.Batch{Items: l.all(), Now: end}))
	fx.Remind(e, end)
	fx.WantActed(e.TidyAct(context.Background(), walk.Batch{Items: l.all(), Now: end}))
	l.check(fx, true)
}

// check counts what must never be: 0 ORPHAN, 0 RESURRECTED, 0 LOST, and what is
// held still has its bytes.
func (l *life) check(fx *erasure.Fixture, final bool) {
	fx.Helper()
	objects := 0
	for _, item := range l.ended() {
		row, found := fx.Find(item.ID)
		left := fx.Traces(item)
		switch {
		case found && row.State != mayfly.Deleted: // the deletion did not happen
			if l.acked[item.ID] {
				fx.Fatalf("RESURRECTED: %s is %s", item.ID, row.State)
			}
			if len(left) != 3+int(item.Media) {
				fx.Fatalf("LOST: %s is %s, and only %v is there", item.ID, row.State, left)
			}
			objects += int(item.Media)
		case len(left) > 0:
			if final || l.acked[item.ID] {
				fx.Fatalf("ORPHAN: %s is gone, and %v is left", item.ID, left)
			}
			objects += len(left)
		case fx.Appended(mayfly.WasDeleted)[item.ID] == 0:
			fx.Fatalf("no event was appended for the deletion of %s", item.ID)
		case found && final, !found && !final && !l.tidied:
			fx.Fatalf("tombstone of %s: found is %v", item.ID, found)
		}
	}
	if row := fx.Row(l.held.ID); !row.Held || l.acked[row.ID] != (row.State == mayfly.Deleted) && l.acked[row.ID] {
		fx.Fatalf("%+v", row)
	}
	for _, item := range []mayfly.Item{l.held, l.survivor} {
		if left := fx.Traces(item); len(left) != 3+int(item.Media) {
			fx.Fatalf("LOST: of %s only %v is there", item.ID, left)
		}
		objects += int(item.Media)
	}
	if there := len(fx.Objects(fx.Real.Hot)) + len(fx.Objects(fx.Real.Cold)); final && there != objects {
		fx.Fatalf("ORPHAN: %d objects are there, %d belong to something", there, objects)
	}
}

// digest tells states apart, whatever their ids are.
func (l *life) digest(fx *erasure.Fixture) [32]byte {
	fx.Helper()
	sum := sha256.New()
	for _, item := range l.all() {
		row, found := fx.Find(item.ID)
		fmt.Fprintln(sum, found, row.State, row.Generation, row.Held, len(fx.Traces(item)), fx.HasBody(item.ID), fx.Appended(mayfly.WasDeleted)[item.ID])
	}
	fmt.Fprintln(sum, len(fx.Objects(fx.Real.Hot)), len(fx.Objects(fx.Real.Cold)))
	return [32]byte(sum.Sum(nil))
}

func TestADeletionStoppedAnywhereIsFinishedByItsReminders(t *testing.T) {
	random := fixture.Seeded(t)
	var calls []storetest.Call
	erasure.With(t, func(fx *erasure.Fixture) {
		l := prepare(fx)
		set, landing := storetest.Prefix(fx.Real, storetest.Pass)
		fx.Set = set
		fx.Must(l.live(fx, func(id mayfly.ID) { l.acked[id] = true }))
		calls = landing.Calls()
	})
	points, states := 0, map[[32]byte]bool{}
	for _, call := range calls {
		for _, fault := range erasure.Some(storetest.Faults(call), random) {
			fault.Halts = true
			points++
			erasure.With(t, func(fx *erasure.Fixture) {
				l := prepare(fx)
				set, landing := storetest.Prefix(fx.Real, storetest.FailNth(call.N, fault))
				fx.Set = set
				_ = l.live(fx, func(id mayfly.ID) { l.acked[id] = true })
				if landing.Failed() != 1 {
					t.Fatalf("call %d was not reached", call.N)
				}
				fx.Set = fx.Real
				_, err := landing.Land(t.Context(), random)
				fx.Must(err)
				states[l.digest(fx)] = true
				l.recover(fx, func() {
					_, err := landing.LandAll(t.Context(), random)
					fx.Must(err)
				})
			})
		}
	}
	storetest.Proof(t, "erase stopped at every stage", "stops", points)
	storetest.Proof(t, "erase stopped at every stage", "distinct states", len(states))
	if points < 40 || len(states) < 8 {
		t.Fatalf("%d stops and %d states prove little", points, len(states))
	}
}

func TestAnErasingStoppedAtAnyCallIsFinishedByItsReminders(t *testing.T) {
	points, states := 0, map[[32]byte]bool{}
	for at := 1; ; at++ {
		reached := false
		for _, how := range []storetest.BlobFault{storetest.Before, storetest.After, storetest.Short} {
			erasure.With(t, func(fx *erasure.Fixture) {
				l, s := prepare(fx), &erasure.Stopper{At: at, How: how}
				fx.Set = s.Wrap(fx.Real)
				err := l.live(fx, func(id mayfly.ID) { l.acked[id] = true })
				if reached = s.Stopped; !reached {
					fx.Must(err)
					return
				}
				points++
				fx.Set = fx.Real
				states[l.digest(fx)] = true
				l.recover(fx, func() {})
			})
		}
		if !reached {
			break
		}
	}
	storetest.Proof(t, "erase stopped at every erasing call", "stops", points)
	storetest.Proof(t, "erase stopped at every erasing call", "distinct states", len(states))
	if points < 12 || len(states) < 6 {
		t.Fatalf("%d stops and %d states prove little", points, len(states))
	}
}

// picture knows which deletions had been acknowledged.
type picture = storetest.Crash[map[mayfly.ID]bool]

func TestPowerLossWhileErasingLeavesNoOrphanAndBringsNothingBack(t *testing.T) {
	rng := fixture.Seeded(t)
	points, states := 0, map[[32]byte]bool{}
	lives := 2
	if pace.Long() {
		lives = 20
	}
	for range lives {
		l, now, taken := photograph(t, rng)
		for _, p := range taken {
			erasure.WithOn(fixture.Located{TB: t, Where: p.String}, p.FS, func(fx *erasure.Fixture) {
				fx.Now, l.acked = now, p.Known
				states[l.digest(fx)] = true
				l.recover(fx, func() {})
			})
		}
		points += len(taken)
	}
	storetest.Proof(t, "power loss while erasing", "crash points", points)
	storetest.Proof(t, "power loss while erasing", "distinct states", len(states))
	if points < 40 || len(states) < 8 {
		t.Fatalf("%d crash points and %d states prove little", points, len(states))
	}
}

// photograph lives through a scenario and takes crashes of its disk.
func photograph(t *testing.T, rng *rand.Rand) (l *life, now mayfly.Instant, taken []picture) {
	t.Helper()
	cam := &storetest.Crashes[map[mayfly.ID]bool]{Disk: vfs.NewCrashableMem(), RNG: rng, First: rng.IntN(5)}
	erasure.WithOn(t, cam.FS(), func(fx *erasure.Fixture) {
		l = prepare(fx)
		var mu sync.Mutex
		acked := map[mayfly.ID]bool{}
		cam.On(func() map[mayfly.ID]bool {
			mu.Lock()
			defer mu.Unlock()
			return maps.Clone(acked)
		})
		fx.Must(l.live(fx, func(id mayfly.ID) {
			mu.Lock()
			defer mu.Unlock()
			acked[id] = true
		}))
		taken, _ = cam.Off()
		now = fx.Now
	})
	return l, now, taken
}
