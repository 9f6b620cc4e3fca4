package audit

import (
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// recordTwice records entries in two processes of one writer, one after the other.
// It returns which entries were acknowledged and the reasons of those refused.
func recordTwice(t *testing.T, rows store.Rows, between func()) (acked map[Ref]Entry, refused map[string]bool) {
	t.Helper()
	acked, refused = map[Ref]Entry{}, map[string]bool{}
	n := 0
	for process := range 2 {
		if process == 1 {
			between()
		}
		l, err := Open(t.Context(), rows, "node-1", start)
		if err != nil {
			continue
		}
		for range 3 {
			n++
			e := restore(t, n)
			ref, err := l.Record(t.Context(), e, start+mayfly.Instant(n))
			switch {
			case err == nil:
				acked[ref] = e
			case !errors.Is(err, mayfly.Unknown):
				refused[e.Reason] = true
			}
		}
	}
	return acked, refused
}

// consistent verifies that the chains are valid and contain every acknowledged
// record under its Ref, none twice, and none that was refused.
func consistent(t *testing.T, rows store.Rows, acked map[Ref]Entry, refused map[string]bool) {
	t.Helper()
	_, by := sound(t, rows)
	times := map[string]int{}
	for ref, r := range by {
		times[r.Entry.Reason]++
		if refused[r.Entry.Reason] || times[r.Entry.Reason] > 1 {
			t.Errorf("%s is stored %d times, refused %v", ref, times[r.Entry.Reason], refused[r.Entry.Reason])
		}
	}
	for ref, e := range acked {
		if by[ref].Entry != e {
			t.Errorf("%s was acknowledged, but is %+v", ref, by[ref])
		}
	}
}

func TestLostResponsesAndLateWritesLeaveValidChains(t *testing.T) {
	r := seeded(t)
	set, first := storetest.Prefix(store.Set{Rows: mem(t)}, storetest.Pass)
	recordTwice(t, set.Rows, func() {})
	calls := first.Calls()
	tried, landed := 0, 0
	for _, lost := range lostResponses(calls) {
		tried++
		onMem(t, func(real store.Rows) {
			set, landing := storetest.Prefix(store.Set{Rows: real}, lost.plan)
			land := func() {
				n, err := landing.LandAll(t.Context(), r)
				if err != nil {
					t.Error(err)
				}
				landed += n
			}
			acked, refused := recordTwice(t, set.Rows, func() {
				landing.Resume()
				if lost.landsEarly {
					land()
				}
			})
			consistent(t, real, acked, refused) // before the last writes land
			land()
			consistent(t, real, acked, refused) // and after
		})
		if t.Failed() {
			t.Fatalf("%+v", lost)
		}
	}
	t.Logf("%d lost responses in %d calls, %d late writes", tried, len(calls), landed)
	if len(calls) < 14 || tried < 500 || landed < 200 {
		t.Error("too little was tried")
	}
}

// lostResponse is a fault that starts at a call and lasts for some calls.
type lostResponse struct {
	first, lasts int
	fault        storetest.Fault
	landsEarly   bool // pending writes land between the two processes, else after the second
}

func (l lostResponse) plan(c storetest.Call) storetest.Fault {
	if c.N < l.first || c.N >= l.first+l.lasts {
		return storetest.Fault{}
	}
	return l.fault
}

func lostResponses(calls []storetest.Call) (all []lostResponse) {
	for _, call := range calls {
		for _, fault := range storetest.Faults(call) {
			for n := range 12 {
				fault.Halts = n%2 == 0
				lasts := []int{1, tries, tries + 4}[n/4] // one response, all tries of a record, those of several records
				all = append(all, lostResponse{first: call.N, lasts: lasts, fault: fault, landsEarly: n/2%2 == 0})
			}
		}
	}
	return all
}

func TestRandomLostResponsesLeaveValidChains(t *testing.T) {
	r := seeded(t)
	unknown := 0
	for range 60 {
		real := mem(t)
		set, landing := storetest.Prefix(store.Set{Rows: real}, storetest.Seeded(r.Uint64(), 1+r.IntN(4)))
		acked, refused := map[Ref]Entry{}, map[string]bool{}
		logs := []*Log{begin(t, set.Rows, "one"), begin(t, set.Rows, "two")}
		for n := range 40 {
			e := restore(t, n)
			ref, err := logs[r.IntN(2)].Record(t.Context(), e, start)
			switch {
			case err == nil:
				acked[ref] = e
			case errors.Is(err, mayfly.Unknown):
				unknown++
			default:
				refused[e.Reason] = true
			}
			if r.IntN(5) == 0 {
				if _, err := landing.Land(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
		}
		consistent(t, real, acked, refused)
		if _, err := landing.LandAll(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		consistent(t, real, acked, refused)
	}
	if t.Logf("%d records with an unknown result", unknown); unknown < 50 {
		t.Error("too little was tried")
	}
}

func TestARecordWithAnUnknownResultKeepsItsNumber(t *testing.T) {
	real := mem(t)
	away := true
	set, landing := storetest.Prefix(store.Set{Rows: real}, func(c storetest.Call) storetest.Fault {
		return storetest.Fault{Fails: away && c.N > 1} // the chain is listed, then no call gets a response and nothing is written
	})
	l := begin(t, set.Rows, "node-1")
	if _, err := l.Record(t.Context(), restore(t, 1), start); !errors.Is(err, mayfly.Unknown) {
		t.Fatal(err)
	}
	away = false
	if ref := record(t, l, restore(t, 2), start); ref.Number != 1 {
		t.Errorf("the next record is %s", ref)
	}
	if _, err := landing.LandAll(t.Context(), seeded(t)); err != nil {
		t.Fatal(err)
	}
	_, by := sound(t, real)
	if len(by) != 2 || by[Ref{l.Chain(), 0}].Entry != restore(t, 1) {
		t.Errorf("%v", by)
	}
}

func TestAChainThatAnotherProcessWroteIntoAcceptsNoMoreRecords(t *testing.T) {
	rows := mem(t)
	l := write(t, rows, "node-1", 2)
	put(t, rows, recordKey(Ref{l.Chain(), 2}), []byte("forged"))
	if _, err := l.Record(t.Context(), restore(t, 3), start); !errors.Is(err, mayfly.Corrupt) {
		t.Error(err)
	}
	if report, _ := verified(t, rows); !found(report, Ref{l.Chain(), 2}, Changed) {
		t.Errorf("%v", report.Findings)
	}
}

// TestRecordsSurvivePowerLoss copies the disk before random writes as a power
// loss would leave it, opens each copy, verifies it, and writes a new chain.
func TestRecordsSurvivePowerLoss(t *testing.T) {
	r := seeded(t)
	disk := vfs.NewCrashableMem()
	type loss struct {
		fs    *vfs.MemFS
		acked map[Ref]Entry
	}
	var mu sync.Mutex
	var losses []loss
	acked := map[Ref]Entry{}
	ops, next := 0, 1<<30 // no copies while the database is created
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
	for process := range 4 {
		l := begin(t, db.Rows(), "node-1")
		for n := range 12 {
			e := restore(t, process*100+n)
			ref := record(t, l, e, start+mayfly.Instant(n))
			mu.Lock()
			acked[ref] = e
			mu.Unlock()
		}
	}
	checked := 0
	for n, lost := range losses {
		rows := openOn(t, lost.fs).Rows()
		write(t, rows, "node-1", 2) // the next process, which anchors what is left
		report, by := sound(t, rows)
		for ref, e := range lost.acked {
			checked++
			if by[ref].Entry != e {
				t.Errorf("power loss %d: %s was acknowledged, but is %+v", n, ref, by[ref])
			}
		}
		if report.Records > len(lost.acked)+3 { // the one in flight, and two of the next process
			t.Errorf("power loss %d: %d records of %d acknowledged", n, report.Records, len(lost.acked))
		}
	}
	t.Logf("%d power losses, %d acknowledged records checked", len(losses), checked)
	if len(losses) < 30 || checked < 300 {
		t.Error("too little was tried")
	}
}
