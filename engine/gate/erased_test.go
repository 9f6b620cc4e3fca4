package gate_test

import (
	"context"
	"errors"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
)

// erasedBehind erases an item as soon as its row was read: the body is gone when
// it is asked for, and perhaps the row.
func (h *engine) erasedBehind(id mayfly.ID, removed bool) {
	h.afterGet(func() error {
		h.Hooks.LedgerGet = nil
		h.move(id, mayfly.Deleted)
		err := h.Real.Ledger.EraseBody(context.Background(), id)
		if removed {
			err = errors.Join(err, h.Real.Ledger.Remove(context.Background(), id))
		}
		return err
	})
}

func TestAReadThatMeetsAnErasureIsARefusal(t *testing.T) {
	for _, removed := range []bool{false, true} {
		h := open(t, gate.Options{})
		item := story(t)
		h.put(item, mayfly.Body{Text: "sea"})
		h.erasedBehind(item.ID, removed)
		for range 2 {
			h.want(item.ID, mayfly.Viewer{}, birth, gate.Hidden)
		}
	}
}

func TestARingThatMeetsAnErasureHasTheOthers(t *testing.T) {
	for _, removed := range []bool{false, true} {
		h := open(t, gate.Options{})
		ids := h.many(3)
		h.erasedBehind(ids[1], removed)
		for range 2 {
			all, err := h.gate.OpenAll(t.Context(), ids, mayfly.ViewerOf(ana), birth)
			if err != nil || len(all) != 2 || all[0].Item.ID != ids[0] || all[1].Item.ID != ids[2] || all[1].Body.Text == "" {
				t.Fatalf("%+v, %v", all, err)
			}
		}
	}
}
