package erase_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// brief makes tombstones leave after minutes, so that few minutes are walked.
func brief() erase.Options { return erase.Options{Tombstone: 10 * time.Minute, Slack: 5 * time.Minute} }

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

func prepare(h *house) *life {
	l := &life{acked: map[mayfly.ID]bool{}}
	l.cold, l.survivor, l.held = h.story(2), h.story(1), h.story(1)
	l.eternal = h.publish(intake.Draft{Owner: ana(), Fate: mayfly.Archive, Lifetime: eternal}, 1)
	h.archive(l.cold, l.survivor)
	l.active = h.story(1)
	h.hold(l.held.ID)
	return l
}

// live deletes, erases and tidies, as far as it comes. ack is called behind
// every deletion that was acknowledged.
func (l *life) live(h *house, ack func(mayfly.ID)) error {
	ctx, e := context.Background(), h.eraserWith(brief())
	for _, item := range []mayfly.Item{l.cold, l.held, l.active, l.eternal} {
		if _, err := e.Delete(ctx, item.ID, mayfly.ByUser, h.now); err == nil {
			ack(item.ID)
		} else if errors.Is(err, mayfly.Unavailable) || errors.Is(err, mayfly.Unknown) {
			return err
		} else {
			h.Fatal(err)
		}
	}
	b := walk.Batch{Items: l.all(), Now: h.now, Repeat: true}
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
func (l *life) recover(h *house, late func()) {
	h.Helper()
	e := h.eraserWith(brief())
	h.must(h.reminders(e, h.now.Add(soon)))
	l.check(h, false)
	late()
	end := l.active.ID.Deadline().Add(40 * time.Minute)
	h.acted(e.TidyAct(context.Background(), walk.Batch{Items: l.all(), Now: end}))
	h.must(h.reminders(e, end))
	h.acted(e.TidyAct(context.Background(), walk.Batch{Items: l.all(), Now: end}))
	l.check(h, true)
}

// check counts what must never be: 0 ORPHAN, 0 RESURRECTED, 0 LOST, and what is
// held still has its bytes.
func (l *life) check(h *house, final bool) {
	h.Helper()
	objects := 0
	for _, item := range l.ended() {
		f, left := h.found(item.ID), h.traces(item)
		switch {
		case f.Found && f.Item.State != mayfly.Deleted: // the deletion did not happen
			if l.acked[item.ID] {
				h.Fatalf("RESURRECTED: %s is %s", item.ID, f.Item.State)
			}
			if len(left) != 3+int(item.Media) {
				h.Fatalf("LOST: %s is %s, and only %v is there", item.ID, f.Item.State, left)
			}
			objects += int(item.Media)
		case len(left) > 0:
			if final || l.acked[item.ID] {
				h.Fatalf("ORPHAN: %s is gone, and %v is left", item.ID, left)
			}
			objects += len(left)
		case h.told(mayfly.WasDeleted)[item.ID] == 0:
			h.Fatalf("nobody was told of the deletion of %s", item.ID)
		case f.Found && final, !f.Found && !final && !l.tidied:
			h.Fatalf("tombstone of %s: found is %v", item.ID, f.Found)
		}
	}
	if row := h.row(l.held.ID); !row.Held || l.acked[row.ID] != (row.State == mayfly.Deleted) && l.acked[row.ID] {
		h.Fatalf("%+v", row)
	}
	for _, item := range []mayfly.Item{l.held, l.survivor} {
		if left := h.traces(item); len(left) != 3+int(item.Media) {
			h.Fatalf("LOST: of %s only %v is there", item.ID, left)
		}
		objects += int(item.Media)
	}
	if there := len(h.keys(h.real.Hot)) + len(h.keys(h.real.Cold)); final && there != objects {
		h.Fatalf("ORPHAN: %d objects are there, %d belong to something", there, objects)
	}
}

// digest tells states apart, whatever their ids are.
func (l *life) digest(h *house) [32]byte {
	h.Helper()
	sum := sha256.New()
	for _, item := range l.all() {
		f := h.found(item.ID)
		fmt.Fprintln(sum, f.Found, f.Item.State, f.Item.Generation, f.Item.Held, len(h.traces(item)), h.hasBody(item.ID), h.told(mayfly.WasDeleted)[item.ID])
	}
	fmt.Fprintln(sum, len(h.keys(h.real.Hot)), len(h.keys(h.real.Cold)))
	return [32]byte(sum.Sum(nil))
}

func TestADeletionStoppedAnywhereIsFinishedByItsReminders(t *testing.T) {
	random := seeded(t)
	var calls []storetest.Call
	onHouse(t, func(h *house) {
		l := prepare(h)
		set, landing := storetest.Prefix(h.real, storetest.Pass)
		h.set = set
		h.must(l.live(h, func(id mayfly.ID) { l.acked[id] = true }))
		calls = landing.Calls()
	})
	points, states := 0, map[[32]byte]bool{}
	for _, call := range calls {
		for _, fault := range some(storetest.Faults(call), random) {
			fault.Halts = true
			points++
			onHouse(t, func(h *house) {
				l := prepare(h)
				set, landing := storetest.Prefix(h.real, storetest.FailNth(call.N, fault))
				h.set = set
				_ = l.live(h, func(id mayfly.ID) { l.acked[id] = true })
				if landing.Failed() != 1 {
					t.Fatalf("call %d was not reached", call.N)
				}
				h.set = h.real
				_, err := landing.Land(t.Context(), random)
				h.must(err)
				states[l.digest(h)] = true
				l.recover(h, func() {
					_, err := landing.LandAll(t.Context(), random)
					h.must(err)
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

// some are a part of the faults, chosen anew with every seed; all of them in a
// long run.
func some(faults []storetest.Fault, random *rand.Rand) []storetest.Fault {
	if long() {
		return faults
	}
	random.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	return faults[:(len(faults)+1)/2]
}

func long() bool { return os.Getenv("MAYFLY_LONG") != "" }

// onHouse is open for the length of f.
func onHouse(t *testing.T, f func(h *house)) {
	t.Helper()
	h := openOn(t, vfs.NewMem())
	f(h)
	h.must(h.close())
}

// stopper stops the process at its n-th erasing call: before it, after it, or
// with half of a bulk delete done.
type stopper struct {
	mu    sync.Mutex
	calls int
	at    int
	how   storetest.BlobFault
	dead  bool
}

func errStopped() error { return mayfly.Errorf(mayfly.Unavailable, "stopped by plan") }

func (s *stopper) asked() storetest.BlobFault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return storetest.Before
	}
	s.calls++
	if s.calls != s.at {
		return storetest.NoFault
	}
	s.dead = true
	return s.how
}

func (s *stopper) tier(b store.Blobs) store.Blobs {
	return storetest.FaultyBlobs(b, func(storetest.BlobCall) storetest.BlobFault { return s.asked() })
}

type stoppingLedger struct {
	store.Ledger
	s *stopper
}

func (l stoppingLedger) stop(do func() error) error {
	fault := l.s.asked()
	if fault == storetest.Before {
		return errStopped()
	}
	err := do()
	if fault != storetest.NoFault {
		return errStopped()
	}
	return err
}

func (l stoppingLedger) EraseBody(ctx context.Context, ids ...mayfly.ID) error {
	return l.stop(func() error { return l.Ledger.EraseBody(ctx, ids...) })
}

func (l stoppingLedger) Remove(ctx context.Context, ids ...mayfly.ID) error {
	return l.stop(func() error { return l.Ledger.Remove(ctx, ids...) })
}

func (s *stopper) wrap(set store.Set) store.Set {
	set.Hot, set.Cold, set.Ledger = s.tier(set.Hot), s.tier(set.Cold), stoppingLedger{set.Ledger, s}
	return set
}

func TestAnErasingStoppedAtAnyCallIsFinishedByItsReminders(t *testing.T) {
	points, states := 0, map[[32]byte]bool{}
	for at := 1; ; at++ {
		reached := false
		for _, how := range []storetest.BlobFault{storetest.Before, storetest.After, storetest.Short} {
			onHouse(t, func(h *house) {
				l, s := prepare(h), &stopper{at: at, how: how}
				h.set = s.wrap(h.real)
				err := l.live(h, func(id mayfly.ID) { l.acked[id] = true })
				if reached = s.dead; !reached {
					h.must(err)
					return
				}
				points++
				h.set = h.real
				states[l.digest(h)] = true
				l.recover(h, func() {})
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
type picture = storetest.Photo[map[mayfly.ID]bool]

func TestPowerLossWhileErasingLeavesNoOrphanAndBringsNothingBack(t *testing.T) {
	rng := seeded(t)
	points, states := 0, map[[32]byte]bool{}
	lives := 2
	if long() {
		lives = 20
	}
	for range lives {
		l, now, taken := photograph(t, rng)
		for _, p := range taken {
			h := openOn(t, p.FS)
			h.now, h.TB = now, named{t, p.String()}
			l.acked = p.Known
			states[l.digest(h)] = true
			l.recover(h, func() {})
			h.must(h.close())
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
func photograph(t *testing.T, rng *rand.Rand) (*life, mayfly.Instant, []picture) {
	t.Helper()
	cam := &storetest.Camera[map[mayfly.ID]bool]{Disk: vfs.NewCrashableMem(), RNG: rng, First: rng.IntN(5)}
	h := openOn(t, cam.FS())
	l := prepare(h)
	var mu sync.Mutex
	acked := map[mayfly.ID]bool{}
	cam.On(func() map[mayfly.ID]bool {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(acked)
	})
	h.must(l.live(h, func(id mayfly.ID) {
		mu.Lock()
		defer mu.Unlock()
		acked[id] = true
	}))
	taken, _ := cam.Off()
	h.must(h.close())
	return l, h.now, taken
}

// named says behind every failure where the crash was.
type named struct {
	testing.TB
	where string
}

func (n named) Fatalf(format string, args ...any) {
	n.Helper()
	n.TB.Fatalf("crash, %s: "+format, append([]any{n.where}, args...)...)
}
