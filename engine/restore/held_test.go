package restore_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/store"
)

// wantHeld wants the list of holds to have exactly these items, in pages of any size.
func (h *env) wantHeld(r *restore.Restore, want ...mayfly.ID) {
	h.Helper()
	for limit := 1; limit <= 4; limit++ {
		var got []mayfly.ID
		cursor := ""
		for range 100 {
			page, next, err := r.Held(h.Context(), cursor, limit)
			h.Must(err)
			for _, item := range page {
				got = append(got, item.ID)
			}
			if cursor = next; cursor == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			h.Errorf("in pages of %d: %v, want %v", limit, got, want)
		}
	}
}

// What is held is listed, by whatever it is held and how often, from the moment of the
// hold until its release, and nothing else is, whatever a process left that ended on its
// way.
func TestWhatIsHeldIsListedUntilItIsReleased(t *testing.T) {
	h := open(t)
	r, by := h.support(), audit.Actor{Subject: "ben"}
	h.wantHeld(r)
	var ids []mayfly.ID
	for n := range 5 {
		d := h.Draft()
		d.Held = n == 0 // it waits for a moderator since its birth
		ids = append(ids, h.Publish(d, h.Now, "media").ID)
		if n > 0 {
			h.Must(r.Hold(t.Context(), ids[n], by, "case 9", h.Now))
		}
		h.Now = h.Now.Add(90 * time.Minute) // an hour of its own each
	}
	h.wantHeld(r, ids...)
	if page, _, err := r.Held(t.Context(), "", 1); err != nil || page[0].Since != ids[0].Birth() {
		t.Errorf("%+v, %v", page, err)
	}
	h.Must(r.Hold(t.Context(), ids[1], by, "case 10", h.Now)) // once more: it moves behind the others
	h.wantHeld(r, ids[0], ids[2], ids[3], ids[4], ids[1])
	for _, id := range []mayfly.ID{ids[0], ids[2]} {
		h.Must(r.Release(t.Context(), id, by, "closed", h.Now))
	}
	h.wantHeld(r, ids[3], ids[4], ids[1])

	var b store.Batch // what a process leaves that ends before it has held, or after it has released
	released := h.Row(ids[0])
	engine.AddToHeld(&b, released)
	stray := h.Row(ids[2])
	stray.Hold = mayfly.Stamp{Generation: stray.Generation + 1, At: h.Now}
	engine.AddToHeld(&b, stray)
	h.Must(h.Real.Writer.Commit(t.Context(), &b))
	h.wantHeld(r, ids[3], ids[4], ids[1])
	entries := func() (n int) {
		for _, hour := range h.Partition(engine.Held, engine.HeldHours) {
			n += 1 + len(h.Partition(engine.Held, hour.Clustering))
		}
		return n
	}
	h.Must(r.TidyHeld(t.Context(), h.Now))
	if len(h.Partition(engine.Held, engine.HeldKey(stray).Partition)) == 0 {
		t.Error("an entry was removed whose hold may still land")
	}
	for range 2 {
		h.Must(r.TidyHeld(t.Context(), h.Now.Add(4*time.Hour)))
	}
	h.wantHeld(r, ids[3], ids[4], ids[1])
	if n := entries(); n != 6 {
		t.Errorf("%d entries and hours are left of 3 holds", n)
	}
	h.Must(r.Hold(t.Context(), ids[0], by, "case 11", h.Now))
	h.wantHeld(r, ids[3], ids[4], ids[0], ids[1])
	for _, cursor := range []string{"x", "AAAA", "!"} {
		if _, _, err := r.Held(t.Context(), cursor, 5); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%q: %v", cursor, err)
		}
	}
}
