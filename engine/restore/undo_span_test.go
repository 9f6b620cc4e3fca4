package restore_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// countedWalks counts the minutes of a ledger that are read.
type countedWalks struct {
	store.Ledger
	reads atomic.Int64
}

func (l *countedWalks) Walk(ctx context.Context, s store.Stretch, limit int) ([]mayfly.Item, error) {
	l.reads.Add(1)
	return l.Ledger.Walk(ctx, s, limit)
}

func (l *countedWalks) NextMinute(ctx context.Context, shard mayfly.Shard, from mayfly.Minute) (mayfly.Minute, bool, error) {
	l.reads.Add(1)
	return l.Ledger.NextMinute(ctx, shard, from)
}

// A walk such as retire works on deadlines that are long past.
func TestAnUndoReadsOnlyWhatItsRunCanHaveChanged(t *testing.T) {
	const offset = 60 * 24 * time.Hour
	h := open(t)
	h.Random = firstShard{}
	w := h.sweep(sweep.Options{}).Walk()
	w.Name, w.Offset = "retire", offset
	shard := walk.NewShard(h.Real.Rows, 0, "late", time.Second, h.origin)
	walker, err := walk.New(h.Real, w, shard, walk.Options{Holder: "late", Unpaced: true, IdleSave: time.Millisecond})
	h.Must(err)
	h.pass(walker, h.Now.Add(offset))
	mine := []mayfly.Item{h.Story(0), h.Story(0)}
	h.pass(walker, mine[0].ID.Deadline().Add(offset))
	brief := h.Draft()
	for n := range 50 { // what ended since then, which the run has not seen
		brief.Lifetime = fixture.Lifetime(t, 3*time.Hour+time.Duration(n)*time.Hour)
		h.Publish(brief, h.Now)
	}
	h.Now = mine[0].ID.Deadline().Add(offset + time.Minute)
	ledger := &countedWalks{Ledger: h.Set.Ledger}
	h.Set.Ledger = ledger
	found, err := h.support().Undo(t.Context(), h.Row(mine[0].ID).Run, restore.UndoRequest{DryRun: true}, h.Now)
	if err != nil || found.Found != len(mine) {
		t.Fatalf("%+v, %v", found, err)
	}
	if n := ledger.reads.Load(); n > 10 {
		t.Errorf("an undo of two items read the ledger %d times", n)
	}
}
