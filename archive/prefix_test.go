package archive_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/hydrate"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// stopped is a house with an item for every way through the archive, on a store
// that stops by plan.
func stopped(t *testing.T, plan storetest.Plan) (*house, []mayfly.Item, *storetest.Landing) {
	t.Helper()
	h := open(t)
	items := h.expire(h.storyOf("ana", 2), h.storyOf("ben", 1), h.storyOf("ana", 1), h.storyOf("ana", 0))
	h.eraseAccount("ben")
	set, landing := storetest.Prefix(h.real, plan)
	h.set = set
	return h, items, landing
}

// check says that the archive, and years later the retirement, has come to its
// end, and left nothing behind.
func (h *house) check(items []mayfly.Item) {
	h.Helper()
	for i, item := range h.rows(items) {
		switch {
		case i == 1 && (item.State != mayfly.Deleted || item.Cause != mayfly.ByAccount):
			h.Errorf("of an erased account: %+v", item)
		case i != 1 && item.State != mayfly.Cold:
			h.Errorf("%+v", item)
		case i != 1:
			h.readable(item.ID, hydrate.Cold)
		}
	}
	h.exact(items...)
	if n := len(h.events(mayfly.WasArchived)); n != 3 {
		h.Errorf("%d were told to be archived", n)
	}
}

// The process dies at every writing call of the archive, after every subset of
// its writes; what it did not write lands before, during or after the next look.
// Whoever looks next brings everything to its end.
func TestTheArchiveStoppedAnywhereIsBroughtToItsEnd(t *testing.T) {
	h, items, landing := stopped(t, storetest.Pass)
	if failures, err := h.archive(7, items...); err != nil || len(failures) > 0 {
		t.Fatal(failures, err)
	}
	h.check(items)
	points, states := 0, map[string]bool{}
	for _, call := range landing.Calls() {
		for _, fault := range storetest.Faults(call) {
			for _, lands := range []string{"never", "before", "during", "after"} {
				for _, dies := range []bool{true, false} {
					fault.Halts = dies
					at := fmt.Sprintf("call %d (%s), %+v, landing %s", call.N, call.Op, fault, lands)
					h, items, landing := stopped(t, storetest.FailNth(call.N, fault))
					r := rand.New(rand.NewPCG(7, uint64(points)))
					_, _ = h.archive(7, items...)
					if landing.Failed() != 1 {
						t.Fatalf("%s: it was not stopped", at)
					}
					states[h.shown(items)] = true
					for i, item := range h.rows(items) {
						if i != 1 {
							h.readable(item.ID, 0)
						}
					}
					land := func() {
						if _, err := landing.LandAll(t.Context(), r); err != nil {
							t.Fatal(err)
						}
					}
					h.set = h.real
					rows := h.rows(items)
					switch lands {
					case "before":
						land()
						rows = h.rows(items)
					case "during": // between the read of the rows and the change
						land()
					}
					if failures, err := h.archive(8, rows...); err != nil || len(failures) > 0 {
						t.Fatalf("%s: %v, %v", at, failures, err)
					}
					if lands == "after" {
						land()
					}
					if h.check(items); t.Failed() {
						t.Fatal(at)
					}
					h.must(h.close())
					h.close = func() error { return nil }
					points++
				}
			}
		}
	}
	storetest.Proof(t, "archive stopped at every write", "crash points", points)
	storetest.Proof(t, "archive stopped at every write", "distinct states", len(states))
	if points < 200 || len(states) < 15 {
		t.Errorf("%d points and %d states are too few to prove anything", points, len(states))
	}
}

// shown is the state of the rows and of the tiers in a line.
func (h *house) shown(items []mayfly.Item) string {
	text := fmt.Sprint(h.objects(h.real.Hot), h.objects(h.real.Cold))
	for _, item := range h.rows(items) {
		text += fmt.Sprint(" ", item.State, item.Generation, item.Keys)
	}
	return text
}
