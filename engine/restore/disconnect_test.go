package restore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/store"
)

// hangup is a ledger behind which the asker goes as soon as a row has moved: the
// answer is lost, and nothing is read in a context that has ended. Away, nothing
// is read after that by anybody.
type hangup struct {
	store.Ledger
	hang context.CancelFunc
	away bool
	gone bool
}

func (l *hangup) Transition(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
	_, err := l.Ledger.Transition(ctx, changes)
	l.hang()
	l.gone = true
	return nil, errors.Join(err, mayfly.Errorf(mayfly.Unknown, "the answer is lost"))
}

func (l *hangup) Get(ctx context.Context, ids ...mayfly.ID) ([]store.Found, error) {
	if ctx.Err() != nil || l.away && l.gone {
		return nil, mayfly.Errorf(mayfly.Unavailable, "nothing is read any more")
	}
	return l.Ledger.Get(ctx, ids...)
}

// askings are what support does to an item, each with whether a stranger sees the
// item before and after it.
func askings() map[string]struct {
	before, after bool
	reach         func(*tested) mayfly.Item
	do            func(context.Context, *tested, *restore.Restore, mayfly.ID) error
	change        func(*tested) mayfly.Change // the same, by somebody who tells nobody
} {
	live := func(h *tested) mayfly.Item {
		item, err := h.publish(1, mayfly.Archive)
		h.must(err)
		return item
	}
	type deed = struct {
		before, after bool
		reach         func(*tested) mayfly.Item
		do            func(context.Context, *tested, *restore.Restore, mayfly.ID) error
		change        func(*tested) mayfly.Change
	}
	return map[string]deed{
		"hold": {true, false, live, func(ctx context.Context, h *tested, r *restore.Restore, id mayfly.ID) error {
			return r.Hold(ctx, id, "ben", "case 9", h.now)
		}, func(*tested) mayfly.Change { return mayfly.Change{Hold: mayfly.SetHold, Cause: mayfly.BySupport} }},
		"release": {false, true, func(h *tested) mayfly.Item {
			item := live(h)
			h.must(h.change(item.ID, mayfly.Change{Hold: mayfly.SetHold, Cause: mayfly.BySupport}))
			return h.get(item.ID)
		}, func(ctx context.Context, h *tested, r *restore.Restore, id mayfly.ID) error {
			return r.Release(ctx, id, "ben", "closed", h.now)
		}, func(*tested) mayfly.Change {
			return mayfly.Change{Hold: mayfly.ReleaseHold, Cause: mayfly.BySupport}
		}},
		"restore": {false, true, func(h *tested) mayfly.Item { return h.item(expired, 0) }, func(ctx context.Context, h *tested, r *restore.Restore, id mayfly.ID) error {
			_, err := r.Item(ctx, h.request(id), h.now)
			return err
		}, func(h *tested) mayfly.Change {
			return mayfly.Change{To: mayfly.Active, ServesUntil: h.now.Add(time.Hour), Cause: mayfly.BySupport}
		}},
	}
}

func (h *tested) wantSeen(door *gate.Gate, id mayfly.ID, want bool, when string) {
	h.Helper()
	if err := h.stranger(door, id); (err == nil) != want {
		h.Errorf("%s: %v, want it seen %t", when, err, want)
	}
}

func TestADeedWhoseAskerHangsUpIsToldAllTheSame(t *testing.T) {
	for name, deed := range askings() {
		for _, away := range []bool{false, true} {
			h := open(t)
			item, door := deed.reach(h), h.door()
			h.wantSeen(door, item.ID, deed.before, name+": before") // and it is in the cache
			ctx, hang := context.WithCancel(context.Background())
			h.set.Ledger = &hangup{Ledger: h.real.Ledger, hang: hang, away: away}
			if err := deed.do(ctx, h, h.support(), item.ID); (err != nil) != away {
				t.Errorf("%s, away %t: %v", name, away, err)
			}
			h.wantSeen(door, item.ID, deed.after, name+": after")
		}
	}
}

func TestTheReminderOfADeedTellsTheCaches(t *testing.T) {
	for name, deed := range askings() {
		h := open(t)
		item, door := deed.reach(h), h.door()
		h.wantSeen(door, item.ID, deed.before, name+": before")
		change := deed.change(h)
		if change.ServesUntil != 0 {
			var b store.Batch
			b.Put(engine.Restored, engine.RestoredKey(item.ID), binary.BigEndian.AppendUint64(nil, uint64(change.ServesUntil)), 0)
			h.must(h.real.Writer.Commit(context.Background(), &b))
		}
		h.must(h.change(item.ID, change))
		h.wantSeen(door, item.ID, deed.before, name+": told nobody")
		_, err := h.support().Clean(context.Background(), batchOf(h.now, item))
		h.must(err)
		h.wantSeen(door, item.ID, deed.after, name+": reminded")
	}
}
