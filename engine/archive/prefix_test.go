package archive_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/pace"
)

// stopping is a step that is stopped at every write.
type stopping struct {
	name    string
	prepare func(h *env) []mayfly.Item
	act     func(h *env, run mayfly.Run, items ...mayfly.Item) ([]walk.Failure, error)
	between func(h *env, items []mayfly.Item) // holds wherever it was stopped
	check   func(h *env, items []mayfly.Item) // holds when it has come to its end
}

func (s stopping) open(t *testing.T, plan storetest.Plan) (*env, []mayfly.Item, *storetest.LateWrites) {
	t.Helper()
	h := open(t)
	items := s.prepare(h)
	set, landing := storetest.Prefix(h.Real, plan)
	h.Set = set
	return h, items, landing
}

// checkArchived says that the archive has come to its end, and left nothing behind.
func (h *env) checkArchived(items []mayfly.Item) {
	h.Helper()
	for i, item := range h.rows(items) {
		switch {
		case i == 1 && (item.State != mayfly.Deleted || item.Cause != mayfly.ByAccount):
			h.Errorf("of an erased account: %+v", item)
		case i != 1 && item.State != mayfly.Cold:
			h.Errorf("%+v", item)
		case i != 1:
			h.readable(hydrate.Cold, item)
		}
	}
	h.WantNamed(items...)
	if n := len(h.CountEvents(mayfly.Ends, mayfly.WasArchived)); n != 3 {
		h.Errorf("%d were announced as archived", n)
	}
}

func TestTheArchiveStoppedAnywhereIsBroughtToItsEnd(t *testing.T) {
	pace.Heavy(t, "stops at every write")
	stopping{
		name: "archive stopped at every write",
		prepare: func(h *env) []mayfly.Item { // an item for every way through the archive
			items := h.expire(h.StoryOf(fixture.User("ana"), 2), h.StoryOf(fixture.User("ben"), 1), h.StoryOf(fixture.User("ana"), 1), h.StoryOf(fixture.User("ana"), 0))
			h.eraseAccount("ben")
			return items
		},
		act: (*env).archive,
		between: func(h *env, items []mayfly.Item) {
			for i, item := range h.rows(items) {
				if i != 1 {
					h.readable(0, item)
				}
			}
		},
		check: (*env).checkArchived,
	}.everywhere(t, 200, 15)
}

func TestARetirementStoppedAnywhereIsBroughtToItsEnd(t *testing.T) {
	pace.Heavy(t, "stops at every write")
	stopping{
		name: "retirement stopped at every write",
		prepare: func(h *env) []mayfly.Item {
			items := h.archivedStories(2, 1, 0)
			h.Now = items[0].ID.Deadline().Add(years + 2*24*time.Hour) // late: with reminders for the tombstones
			return items
		},
		act: func(h *env, run mayfly.Run, items ...mayfly.Item) ([]walk.Failure, error) {
			return h.retirement(years).Act(context.Background(), h.batch(run, items...))
		},
		between: func(*env, []mayfly.Item) {},
		check: func(h *env, items []mayfly.Item) {
			for _, item := range h.rows(items) {
				if item.State != mayfly.Deleted || item.Cause != mayfly.ByRetention {
					h.Errorf("%+v", item)
				}
			}
			h.WantNamed(items...)
			tidied := map[mayfly.ID]bool{}
			for _, r := range h.Reminders(h.Now.Add(31*24*time.Hour), h.Now.Add(31*24*time.Hour)) {
				tidied[r.ID] = tidied[r.ID] || r.Step == remind.Tidy
			}
			if n := len(h.CountEvents(mayfly.Ends, mayfly.WasDeleted)); n != 3 || len(tidied) != 3 {
				h.Errorf("%d were announced as deleted, %d have reminders", n, len(tidied))
			}
		},
	}.everywhere(t, 100, 5)
}

// everywhere lets the process die, or only the call fail, at every writing call,
// after every subset of its writes; what was not written lands before, during or
// after the next look, or never. The next pass finishes everything.
func (s stopping) everywhere(t *testing.T, leastPoints, leastStates int) {
	t.Helper()
	h, items, landing := s.open(t, storetest.Pass)
	h.WantActed(s.act(h, 7, items...))
	s.check(h, items)
	points, states := 0, map[string]bool{}
	for _, call := range landing.Calls() {
		for _, fault := range storetest.Faults(call) {
			for _, lands := range []string{"never", "before", "during", "after"} {
				fault.Halts = (points/4+points)%2 == 0
				states[s.once(t, call, fault, lands)] = true
				points++
			}
		}
	}
	storetest.Proof(t, s.name, "crash points", points)
	storetest.Proof(t, s.name, "distinct states", len(states))
	if points < leastPoints || len(states) < leastStates {
		t.Errorf("%d points and %d states are too few to prove anything", points, len(states))
	}
}

// once stops one call in one way, and answers with what it left.
func (s stopping) once(t *testing.T, call storetest.Call, fault storetest.Fault, lands string) (left string) {
	t.Helper()
	at := fmt.Sprintf("call %d (%s), %+v, landing %s", call.N, call.Op, fault, lands)
	h, items, landing := s.open(t, storetest.FailNth(call.N, fault))
	_, _ = s.act(h, 7, items...) // it fails, or parks what failed
	if landing.Failed() != 1 {
		t.Fatalf("%s: it was not stopped", at)
	}
	left = h.shown(items)
	s.between(h, items)
	r := rand.New(rand.NewPCG(7, uint64(call.N)))
	land := func(when string) {
		if lands == when {
			_, err := landing.LandAll(t.Context(), r)
			h.Must(err)
		}
	}
	h.Set = h.Real
	land("before")
	rows := h.rows(items)
	land("during") // between the read of the rows and their change
	if failures, err := s.act(h, 8, rows...); err != nil || len(failures) > 0 {
		// A row that moved in between may be parked: its reminder reads it again.
		if failures, err = s.act(h, 9, h.rows(items)...); err != nil || len(failures) > 0 {
			t.Fatalf("%s: %v, %v", at, failures, err)
		}
	}
	land("after")
	if s.check(h, items); t.Failed() {
		t.Fatal(at)
	}
	h.Close()
	return left
}

// shown is the state of the rows and of the tiers in a line.
func (h *env) shown(items []mayfly.Item) string {
	text := fmt.Sprint(len(h.Objects(h.Real.Hot)), len(h.Objects(h.Real.Cold)))
	for _, item := range h.rows(items) {
		text += fmt.Sprint(" ", item.State, item.Generation, item.Keys)
	}
	return text
}
