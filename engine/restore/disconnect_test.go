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

// hangup is a ledger whose caller disconnects as soon as a row is changed: the
// response is lost, and reads with a canceled context fail. With away, all reads fail
// after that.
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
	return nil, errors.Join(err, mayfly.Errorf(mayfly.Unknown, "the response is lost"))
}

func (l *hangup) Get(ctx context.Context, ids ...mayfly.ID) ([]store.Found, error) {
	if ctx.Err() != nil || l.away && l.gone {
		return nil, mayfly.Errorf(mayfly.Unavailable, "reads fail")
	}
	return l.Ledger.Get(ctx, ids...)
}

// supportOperations returns operations of support, each with whether a stranger can
// open the item before and after it.
func supportOperations() map[string]struct {
	before, after bool
	reach         func(*testFixture) mayfly.Item
	do            func(context.Context, *testFixture, *restore.Restore, mayfly.ID) error
	change        func(*testFixture) mayfly.Change // the same change without signals
} {
	live := func(h *testFixture) mayfly.Item {
		item, err := h.publish(1, mayfly.Archive)
		h.must(err)
		return item
	}
	type operation = struct {
		before, after bool
		reach         func(*testFixture) mayfly.Item
		do            func(context.Context, *testFixture, *restore.Restore, mayfly.ID) error
		change        func(*testFixture) mayfly.Change
	}
	return map[string]operation{
		"hold": {true, false, live, func(ctx context.Context, h *testFixture, r *restore.Restore, id mayfly.ID) error {
			return r.Hold(ctx, id, "ben", "case 9", h.now)
		}, func(*testFixture) mayfly.Change { return mayfly.Change{Hold: mayfly.SetHold, Cause: mayfly.BySupport} }},
		"release": {false, true, func(h *testFixture) mayfly.Item {
			item := live(h)
			h.must(h.change(item.ID, mayfly.Change{Hold: mayfly.SetHold, Cause: mayfly.BySupport}))
			return h.get(item.ID)
		}, func(ctx context.Context, h *testFixture, r *restore.Restore, id mayfly.ID) error {
			return r.Release(ctx, id, "ben", "closed", h.now)
		}, func(*testFixture) mayfly.Change {
			return mayfly.Change{Hold: mayfly.ReleaseHold, Cause: mayfly.BySupport}
		}},
		"restore": {false, true, func(h *testFixture) mayfly.Item { return h.item(expired, 0) }, func(ctx context.Context, h *testFixture, r *restore.Restore, id mayfly.ID) error {
			_, err := r.Item(ctx, h.request(id), h.now)
			return err
		}, func(h *testFixture) mayfly.Change {
			return mayfly.Change{To: mayfly.Active, ServesUntil: h.now.Add(time.Hour), Cause: mayfly.BySupport}
		}},
	}
}

func (h *testFixture) wantSeen(g *gate.Gate, id mayfly.ID, want bool, when string) {
	h.Helper()
	if err := h.stranger(g, id); (err == nil) != want {
		h.Errorf("%s: %v, want visible %t", when, err, want)
	}
}

func TestAnOperationIsAnnouncedWhenItsCallerDisconnects(t *testing.T) {
	for name, op := range supportOperations() {
		for _, away := range []bool{false, true} {
			h := open(t)
			item, g := op.reach(h), h.gate()
			h.wantSeen(g, item.ID, op.before, name+": before") // this also fills the cache
			ctx, hang := context.WithCancel(context.Background())
			h.set.Ledger = &hangup{Ledger: h.real.Ledger, hang: hang, away: away}
			if err := op.do(ctx, h, h.support(), item.ID); (err != nil) != away {
				t.Errorf("%s, away %t: %v", name, away, err)
			}
			h.wantSeen(g, item.ID, op.after, name+": after")
		}
	}
}

func TestTheReminderOfAnOperationNotifiesTheCaches(t *testing.T) {
	for name, op := range supportOperations() {
		h := open(t)
		item, g := op.reach(h), h.gate()
		h.wantSeen(g, item.ID, op.before, name+": before")
		change := op.change(h)
		if change.ServesUntil != 0 {
			var b store.Batch
			b.Put(engine.Restored, engine.RestoredKey(item.ID), binary.BigEndian.AppendUint64(nil, uint64(change.ServesUntil)), 0)
			h.must(h.real.Writer.Commit(context.Background(), &b))
		}
		h.must(h.change(item.ID, change))
		h.wantSeen(g, item.ID, op.before, name+": without a signal")
		_, err := h.support().Clean(context.Background(), batchOf(h.now, item))
		h.must(err)
		h.wantSeen(g, item.ID, op.after, name+": reminded")
	}
}
