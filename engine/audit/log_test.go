package audit

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func TestARecordIsReadBackAsItWasWritten(t *testing.T) {
	rows := mem(t)
	l := begin(t, rows, "node-1")
	intent := restore(t, 1)
	ref := record(t, l, intent, start+5)
	done := intent.Concluded(ref, Done, "generation 4")
	outcome := record(t, l, done, start+9)

	report, by := sound(t, rows)
	if report.Chains != 1 || report.Empty != 0 || len(report.Heads) != 1 || report.Heads[0].Count != 2 {
		t.Errorf("report %+v", report)
	}
	first, second := by[ref], by[outcome]
	if first.Entry != intent || first.At != start+5 || first.Number != 0 || first.Prev != (Hash{}) {
		t.Errorf("the intent is %+v", first)
	}
	if second.Entry != done || second.At != start+9 || second.Number != 1 || second.Prev != first.Hash || second.Entry.Of != ref {
		t.Errorf("the outcome is %+v", second)
	}
	if report.Heads[0] != (Head{Chain: l.Chain(), Count: 2, Hash: second.Hash}) {
		t.Errorf("head %s", report.Heads[0])
	}
}

func TestNothingIsWrittenBeforeTheFirstRecord(t *testing.T) {
	rows := mem(t)
	begin(t, rows, "node-1")
	if report, _ := verified(t, rows); report.Chains+report.Empty != 0 {
		t.Errorf("report %+v", report)
	}
}

func TestARestartedWriterBeginsANewChainThatAnchorsTheOldOne(t *testing.T) {
	rows := mem(t)
	one := write(t, rows, "node-1", 3)
	two := write(t, rows, "node-1", 2)
	if one.Chain() == two.Chain() {
		t.Fatalf("both write chain %s", one.Chain())
	}
	report, by := sound(t, rows)
	anchors := by[Ref{two.Chain(), 0}].Anchors
	last := by[Ref{one.Chain(), 2}]
	if len(anchors) != 1 || anchors[0] != (Head{one.Chain(), 3, last.Hash}) || report.Anchors != 1 {
		t.Errorf("the first record of the second chain anchors %v, report %+v", anchors, report)
	}
	if len(by[Ref{two.Chain(), 1}].Anchors) != 0 {
		t.Error("its second record anchors too")
	}
}

func TestOtherChainsAreAnchoredAgainEveryAnchorEveryRecords(t *testing.T) {
	rows := mem(t)
	one := begin(t, rows, "one")
	record(t, one, restore(t, 0), start)
	write(t, rows, "two", 2)
	for i := range AnchorEvery {
		record(t, one, restore(t, i), start)
	}
	_, by := sound(t, rows)
	if anchors := by[Ref{one.Chain(), AnchorEvery}].Anchors; len(anchors) != 1 || anchors[0].Count != 2 {
		t.Errorf("record %d anchors %v", AnchorEvery, anchors)
	}
}

func TestAnchorsAreTheChainsThatWereWrittenLast(t *testing.T) {
	rows := mem(t)
	old := begin(t, rows, "z-old")
	record(t, old, restore(t, 0), start)
	early := begin(t, rows, "a-early")
	record(t, early, restore(t, 0), start+1)
	for i := range MaxAnchors - 1 {
		record(t, begin(t, rows, "m"), restore(t, i), start+2+mayfly.Instant(i))
	}
	record(t, old, restore(t, 0), start+1000)
	l := write(t, rows, "new", 1)
	_, by := sound(t, rows)
	carried := map[string]uint64{}
	for _, a := range by[Ref{l.Chain(), 0}].Anchors {
		carried[a.Chain] = a.Count
	}
	if len(carried) != MaxAnchors || carried[old.Chain()] != 2 || carried[early.Chain()] != 0 {
		t.Errorf("%d anchors, the old one with %d, the early one with %d", len(carried), carried[old.Chain()], carried[early.Chain()])
	}
}

func TestTimeInAChainNeverGoesBack(t *testing.T) {
	rows := mem(t)
	l := begin(t, rows, "node-1")
	record(t, l, restore(t, 1), start+100)
	ref := record(t, l, restore(t, 2), start+50)
	if _, by := sound(t, rows); by[ref].At != start+100 {
		t.Errorf("at %s", by[ref].At)
	}
}

func TestConcurrentWritersLoseNoRecordAndKeepTheirOrder(t *testing.T) {
	rows := mem(t)
	const logs, callers, each = 3, 4, 30
	var wg sync.WaitGroup
	acked := make(chan Ref, logs*callers*each)
	for range logs {
		l := begin(t, rows, "node")
		for c := range callers {
			wg.Go(func() {
				last := Ref{}
				for i := range each {
					ref, err := l.Record(t.Context(), restore(t, c*each+i), start+mayfly.Instant(i))
					if err != nil || i > 0 && ref.Number <= last.Number {
						t.Errorf("%s after %s: %v", ref, last, err)
					}
					last = ref
					acked <- ref
				}
			})
		}
	}
	wg.Go(func() { // a concurrent verification has no findings
		for range 20 {
			if report, err := Verify(t.Context(), rows, nil); err != nil || !report.Sound() {
				t.Errorf("%v %v", report.Findings, err)
			}
		}
	})
	wg.Wait()
	close(acked)
	report, by := sound(t, rows)
	for ref := range acked {
		if _, there := by[ref]; !there {
			t.Errorf("%s is lost", ref)
		}
	}
	if len(by) != logs*callers*each || report.Chains != logs {
		t.Errorf("%d records in %d chains", len(by), report.Chains)
	}
}

func TestACallCanceledWhileItWaitsWritesNothing(t *testing.T) {
	rows := mem(t)
	l := begin(t, rows, "node-1")
	l.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Record(ctx, restore(t, 1), start); !errors.Is(err, mayfly.Unavailable) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-l.turn
	if report, _ := sound(t, rows); report.Records != 0 {
		t.Errorf("%d records", report.Records)
	}
}

func TestTheTableIsChangedOnlyBySwapsAndKeptWhenAccountsAreErased(t *testing.T) {
	if d := Table.Declared(); d.Mode != store.Swapped || d.Erasure != store.Kept {
		t.Errorf("audit is declared %+v", d)
	}
}
