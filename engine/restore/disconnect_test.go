package restore_test

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/restore"
)

// supportOperation is an operation of support, with whether a stranger can open the
// item before and after it.
type supportOperation struct {
	before, after bool
	reach         func(*env) mayfly.Item
	do            func(context.Context, *env, *restore.Restore, mayfly.ID) error
	change        func(*env) mayfly.Change // the same change without signals
}

func supportOperations() map[string]supportOperation {
	live := func(h *env) mayfly.Item { return h.Story(1) }
	return map[string]supportOperation{
		"hold": {true, false, live, func(ctx context.Context, h *env, r *restore.Restore, id mayfly.ID) error {
			return r.Hold(ctx, id, audit.Actor{Subject: "ben"}, "case 9", h.Now)
		}, func(*env) mayfly.Change { return mayfly.Change{Hold: mayfly.SetHold, Cause: mayfly.BySupport} }},
		"release": {false, true, func(h *env) mayfly.Item {
			item := live(h)
			h.Hold(item.ID)
			return h.Row(item.ID)
		}, func(ctx context.Context, h *env, r *restore.Restore, id mayfly.ID) error {
			return r.Release(ctx, id, audit.Actor{Subject: "ben"}, "closed", h.Now)
		}, func(*env) mayfly.Change {
			return mayfly.Change{Hold: mayfly.ReleaseHold, Cause: mayfly.BySupport}
		}},
		"restore": {false, true, func(h *env) mayfly.Item { return h.at(expired, 0) }, func(ctx context.Context, h *env, r *restore.Restore, id mayfly.ID) error {
			_, err := r.Item(ctx, h.request(id), h.Now)
			return err
		}, func(h *env) mayfly.Change {
			return mayfly.Change{To: mayfly.Active, ServesUntil: h.Now.Add(time.Hour), Cause: mayfly.BySupport}
		}},
	}
}

func (h *env) wantSeen(g *gate.Gate, id mayfly.ID, want bool, when string) {
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
			h.Hooks.LoseAnswers(hang, away)
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
		h.Now = h.Now.Add(2 * time.Minute) // a refusal of a younger id is not taken from the cache
		h.wantSeen(g, item.ID, op.before, name+": before")
		change := op.change(h)
		if change.ServesUntil != 0 {
			h.SetRow(engine.Restored, engine.RestoredKey(item.ID), binary.BigEndian.AppendUint64(nil, uint64(change.ServesUntil)))
		}
		h.Change(item.ID, change)
		h.wantSeen(g, item.ID, op.before, name+": without a signal")
		_, err := h.support().Clean(context.Background(), batchOf(h.Now, item))
		h.Must(err)
		h.wantSeen(g, item.ID, op.after, name+": reminded")
	}
}
