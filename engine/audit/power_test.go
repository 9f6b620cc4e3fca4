package audit

import (
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mayflyhq/mayfly"
)

// TestWhatWasRecordedSurvivesPowerLoss takes the disk as a power loss would leave
// it before every k-th write, opens each, verifies it, and goes on in a new life.
func TestWhatWasRecordedSurvivesPowerLoss(t *testing.T) {
	r := seeded(t)
	disk := vfs.NewCrashableMem()
	type loss struct {
		fs    *vfs.MemFS
		acked map[Ref]Entry
	}
	var mu sync.Mutex
	var losses []loss
	acked := map[Ref]Entry{}
	ops, next := 0, 1<<30 // nothing is taken while the database is made
	db := openOn(t, errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
			return nil
		}
		if ops++; ops >= next && len(losses) < 60 {
			next = ops + 1 + r.IntN(6)
			losses = append(losses, loss{acked: maps.Clone(acked), fs: disk.CrashClone(vfs.CrashCloneCfg{
				UnsyncedDataPercent: []int{0, 50, 100}[r.IntN(3)], RNG: rand.New(rand.NewPCG(r.Uint64(), 0)),
			})})
		}
		return nil
	})))
	mu.Lock()
	next = 0
	mu.Unlock()
	for life := range 4 {
		l := begin(t, db.Rows(), "node-1")
		for n := range 12 {
			e := restore(t, life*100+n)
			ref := record(t, l, e, start+mayfly.Instant(n))
			mu.Lock()
			acked[ref] = e
			mu.Unlock()
		}
	}
	checked := 0
	for n, lost := range losses {
		rows := openOn(t, lost.fs).Rows()
		write(t, rows, "node-1", 2) // the next life, which anchors what is left
		report, by := sound(t, rows)
		for ref, e := range lost.acked {
			checked++
			if by[ref].Entry != e {
				t.Errorf("power loss %d: %s was acknowledged, and is %+v", n, ref, by[ref])
			}
		}
		if report.Records > len(lost.acked)+3 { // the one in flight, and the two of the next life
			t.Errorf("power loss %d: %d records of %d acknowledged", n, report.Records, len(lost.acked))
		}
	}
	t.Logf("%d power losses, %d acknowledged records checked", len(losses), checked)
	if len(losses) < 30 || checked < 300 {
		t.Error("too little was tried")
	}
}
