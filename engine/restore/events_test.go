package restore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
)

// again runs every step that appends events once more, as after a crash or a take-over.
func (h *env) again(id mayfly.ID) {
	h.Helper()
	acts := h.acts()
	for _, step := range []walk.Act{acts[remind.Expire], acts[remind.Archive], acts[remind.Erase]} {
		h.WantActed(step(context.Background(), walk.Batch{Items: h.Rows(id), Now: h.Now, Run: 77, Repeat: true}))
	}
}

// wantEachOnce checks that the log has each of these events under one key (L8, I13).
func (h *env) wantEachOnce(id mayfly.ID, want map[mayfly.Verb]int) {
	h.Helper()
	got := h.verbs(id)
	for verb := mayfly.WasExpired; verb <= mayfly.WasHeld; verb++ {
		if got[verb] != want[verb] {
			h.Errorf("%d events %s, want %d: %v", got[verb], verb, want[verb], h.events(id))
		}
	}
}

func TestAnEventKeepsItsKeyThroughHoldsAndRestores(t *testing.T) {
	const serving = stages // before its deadline
	operations := map[string]func(h *env, r *restore.Restore, id mayfly.ID) error{
		"hold": func(h *env, r *restore.Restore, id mayfly.ID) error {
			return r.Hold(context.Background(), id, audit.Actor{Subject: "ben"}, "case 9", h.Now)
		},
		"release": func(h *env, r *restore.Restore, id mayfly.ID) error {
			return r.Release(context.Background(), id, audit.Actor{Subject: "ben"}, "closed", h.Now)
		},
		"restore": func(h *env, r *restore.Restore, id mayfly.ID) error {
			_, err := r.Item(context.Background(), h.request(id), h.Now)
			return err
		},
		"delete": func(h *env, _ *restore.Restore, id mayfly.ID) error {
			h.delete(id)
			return nil
		},
	}
	for _, names := range []string{"hold", "hold release", "restore hold release", "hold delete release", "restore hold delete release"} {
		did := func(name string) int { return strings.Count(names, name) }
		for s := range serving + 1 {
			if s == serving && did("restore") > 0 {
				continue // an item that serves is not restored
			}
			for _, media := range []int{0, 1} {
				t.Run(fmt.Sprintf("%s, %d media, %s", [...]string{"sweep_pending", "expired_hot", "archiving", "named", "cold", "active"}[s], media, names), func(t *testing.T) {
					h := open(t)
					var item mayfly.Item
					if s == serving {
						item = h.Story(media)
						h.remind(item.ID, remind.Expire, item.ID.Deadline().Add(time.Minute))
					} else {
						item = h.at(s, media)
					}
					support := h.support()
					for _, name := range strings.Fields(names) {
						h.Must(operations[name](h, support, item.ID))
						h.live(item.ID, 5*time.Minute, time.Minute) // the first reminders
						h.again(item.ID)
					}
					h.live(item.ID, 26*time.Hour, 10*time.Minute) // all others
					h.again(item.ID)
					lives := 1 + did("restore")
					want := map[mayfly.Verb]int{
						mayfly.WasHeld: 1, mayfly.WasRestored: did("restore"), mayfly.WasDeleted: did("delete"), mayfly.WasExpired: lives,
					}
					if did("delete") > 0 && (s == serving || did("restore") > 0) {
						want[mayfly.WasExpired]-- // its last life did not end by expiry
					}
					if s == cold {
						want[mayfly.WasArchived] = 1
					}
					if did("release") > 0 && did("delete") == 0 && (s != cold || did("restore") > 0) {
						want[mayfly.WasArchived]++
					}
					h.wantEachOnce(item.ID, want)
				})
			}
		}
	}
}

// TestNoEventIsLostWhenTheNextStepComesFirst stops a step between its change of the
// row and its event. The next step that changes the row appends the event (I13).
func TestNoEventIsLostWhenTheNextStepComesFirst(t *testing.T) {
	restored := func(h *env, id mayfly.ID) error {
		_, err := h.support().Item(context.Background(), h.request(id), h.Now)
		return err
	}
	swept := func(h *env, id mayfly.ID) error {
		s, err := sweep.New(h.Set, sweep.Options{})
		h.Must(err)
		_, err = s.Act(context.Background(), walk.Batch{Items: h.Rows(id), Now: h.Now, Run: 1})
		return err
	}
	archived := func(h *env, id mayfly.ID) error {
		a, err := archive.New(h.Set, archive.Options{Window: window})
		h.Must(err)
		h.Now = h.Row(id).End().Add(window)
		_, err = a.Act(context.Background(), walk.Batch{Items: h.Rows(id), Now: h.Now, Run: 1})
		return err
	}
	away := func(h *env, _ mayfly.ID) error { // the node, until every restore has ended
		h.Now = h.Now.Add(time.Hour)
		return nil
	}
	released := func(h *env, id mayfly.ID) error {
		h.Must(h.support().Hold(context.Background(), id, audit.Actor{Subject: "ben"}, "case 9", h.Now))
		h.Must(h.support().Release(context.Background(), id, audit.Actor{Subject: "ben"}, "closed", h.Now))
		h.Now = h.Row(id).End().Add(window)
		h.WantActed(h.archiver().Act(context.Background(), walk.Batch{Items: h.Rows(id), Now: h.Now, Run: 2, Repeat: true}))
		return nil
	}
	for name, c := range map[string]struct {
		at         stage
		verb       mayfly.Verb // of the event that is lost
		lost, next func(h *env, id mayfly.ID) error
		want       map[mayfly.Verb]int
	}{
		"a restore, then its end": {cold, mayfly.WasRestored, restored, away, map[mayfly.Verb]int{mayfly.WasRestored: 1, mayfly.WasExpired: 2, mayfly.WasArchived: 2}},
		"a restore, then its end and another restore": {cold, mayfly.WasRestored, restored, func(h *env, id mayfly.ID) error {
			h.Must(away(h, id))
			return restored(h, id)
		}, map[mayfly.Verb]int{mayfly.WasRestored: 2, mayfly.WasExpired: 3, mayfly.WasArchived: 2}},
		"an expiry by a restore, then another restore": {pending, mayfly.WasExpired, restored, restored, map[mayfly.Verb]int{mayfly.WasRestored: 1, mayfly.WasExpired: 2, mayfly.WasArchived: 1}},
		"an expiry, then a restore":                    {pending, mayfly.WasExpired, swept, restored, map[mayfly.Verb]int{mayfly.WasRestored: 1, mayfly.WasExpired: 2, mayfly.WasArchived: 1}},
		"an archiving, then a restore":                 {expired, mayfly.WasArchived, archived, restored, map[mayfly.Verb]int{mayfly.WasRestored: 1, mayfly.WasExpired: 2, mayfly.WasArchived: 2}},
		"an expiry, then a reminder to archive":        {pending, mayfly.WasExpired, swept, released, map[mayfly.Verb]int{mayfly.WasHeld: 1, mayfly.WasExpired: 1, mayfly.WasArchived: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			id := h.at(c.at, 1).ID
			failed := 0
			h.Hooks.Append = func(_ context.Context, events []mayfly.Event, do func() error) error {
				if events[0].Verb != c.verb {
					return do()
				}
				failed++
				return mayfly.Errorf(mayfly.Unavailable, "no log")
			}
			_ = c.lost(h, id)
			if h.Hooks.Append = nil; failed == 0 {
				t.Fatal("it appended no event")
			}
			h.Must(c.next(h, id))
			h.live(id, 26*time.Hour, 10*time.Minute)
			h.wantArchived(id)
			h.wantEachOnce(id, c.want)
		})
	}
}
