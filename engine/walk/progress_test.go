package walk_test

import (
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// Days of minutes, most of them empty: a thousand a pass, one pass a second.
func TestProgressAndETAOfABacklogAreSane(t *testing.T) {
	set, k := open(t), &recorder{}
	const items = 500
	due(t, set, spread(start, 10*time.Minute, items)...)
	w := walker(t, set, k.walk(), walk.Options{Unpaced: true})
	now := start.Add(items * 10 * time.Minute)
	var all []walk.Progress
	for more := true; more; now = now.Add(time.Second) {
		var err error
		if more, err = w.Pass(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		all = append(all, w.Progress())
	}
	if len(all) < 4 {
		t.Fatalf("%d passes", len(all))
	}
	if all[0].ETA >= 0 {
		t.Errorf("after one pass no speed is known, yet the ETA is %s", all[0].ETA)
	}
	for i, p := range all[1:] {
		if before := all[i]; p.Lag >= before.Lag || p.Cursor <= before.Cursor || p.Watermark <= before.Watermark || p.Done < before.Done {
			t.Errorf("pass %d: %+v after %+v", i+2, p, before)
		}
		left := time.Duration(len(all)-i-2) * time.Second
		if p.ETA < left-2*time.Second || p.ETA > left+2*time.Second {
			t.Errorf("pass %d: ETA %s with %s to go", i+2, p.ETA, left)
		}
	}
	last := all[len(all)-1]
	if last.Lag != 0 || last.ETA != 0 || last.Done < items || last.Done > items+10 || last.Parked != 0 || last.Walk != name || last.Shard != shard || !last.Held {
		t.Errorf("at the end: %+v", last)
	}
}

func TestAWalkThatIsStuckFallsBehindAndPromisesNothing(t *testing.T) {
	set, k := open(t), &recorder{}
	w := walker(t, set, k.walk(), walk.Options{Unpaced: true})
	pass(t, w, start)
	pass(t, w, start.Add(time.Second))
	stuck := &pages{Ledger: set.Ledger, read: func(store.Stretch) error { return mayfly.Unavailable }}
	set.Ledger = stuck
	w = walker(t, set, k.walk(), walk.Options{Unpaced: true})
	for i := 1; i <= 60; i++ {
		if _, err := w.Pass(t.Context(), start.Add(time.Duration(i)*time.Second)); err == nil {
			t.Fatal("went well")
		}
	}
	if p := w.Progress(); p.Lag < 59*time.Second || p.ETA >= 0 {
		t.Errorf("stuck for a minute: lag %s, ETA %s", p.Lag, p.ETA)
	}
}

func TestLagGrowsWhileTheLeaseCannotBeAskedFor(t *testing.T) {
	set, k := open(t), &recorder{}
	rows := &swaps{Rows: set.Rows, table: walk.Leases}
	set.Rows = rows
	w := walker(t, set, k.walk(), walk.Options{Unpaced: true})
	pass(t, w, start)
	rows.lose = 100
	for i := 1; i <= 60; i++ {
		_, _ = w.Pass(t.Context(), start.Add(time.Duration(i)*time.Second))
	}
	if p := w.Progress(); p.Lag < 55*time.Second || p.Held {
		t.Errorf("without a lease for a minute: %+v", p)
	}
}
