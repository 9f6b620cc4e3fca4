package audit

import (
	"errors"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func TestEachFaultIsReportedAtItsRecord(t *testing.T) {
	const one, two = "one", "two"
	type rows = map[string]*Log
	record := func(l *Log, n Number) store.Key { return recordKey(Ref{l.Chain(), n}) }
	for name, c := range map[string]struct {
		spoil func(t *testing.T, s store.Rows, logs rows)
		at    Number
		fault Fault
	}{
		"a changed record": {func(t *testing.T, s store.Rows, l rows) { put(t, s, record(l[one], 2), []byte{recordFormat, 1, 2}) }, 2, Changed},
		"a later format": {func(t *testing.T, s store.Rows, l rows) {
			value := get(t, s, record(l[one], 2))
			value[0] = recordFormat + 1
			put(t, s, record(l[one], 2), value)
		}, 2, Changed},
		"a gap":       {func(t *testing.T, s store.Rows, l rows) { put(t, s, record(l[one], 1), nil) }, 1, Missing},
		"no first":    {func(t *testing.T, s store.Rows, l rows) { put(t, s, record(l[one], 0), nil) }, 0, Missing},
		"no last":     {func(t *testing.T, s store.Rows, l rows) { put(t, s, record(l[one], 3), nil) }, 3, Missing},
		"a duplicate": {func(t *testing.T, s store.Rows, l rows) { put(t, s, record(l[one], 4), get(t, s, record(l[one], 3))) }, 4, Moved},
		"of another":  {func(t *testing.T, s store.Rows, l rows) { put(t, s, record(l[one], 1), get(t, s, record(l[two], 1))) }, 1, Foreign},
		"no number": {func(t *testing.T, s store.Rows, l rows) {
			put(t, s, store.Key{Partition: partition(l[one].Chain())}, []byte("x"))
		}, 0, Foreign},
		"the directory": {func(t *testing.T, s store.Rows, l rows) { put(t, s, listingKey(l[one].Chain()), []byte("x")) }, 0, Changed},
		"a forged one in the middle": {func(t *testing.T, s store.Rows, l rows) {
			r, err := readRecord(get(t, s, record(l[one], 1)))
			if err != nil {
				t.Fatal(err)
			}
			r.Entry.Actor.Subject = "eve"
			put(t, s, record(l[one], 1), r.seal())
		}, 2, Unlinked},
		"a first that follows another": {func(t *testing.T, s store.Rows, l rows) {
			r, err := readRecord(get(t, s, record(l[one], 0)))
			if err != nil {
				t.Fatal(err)
			}
			r.Prev = Hash{1}
			put(t, s, record(l[one], 0), r.seal())
		}, 0, Unlinked},
	} {
		t.Run(name, func(t *testing.T) {
			s := mem(t)
			logs := rows{one: write(t, s, one, 4), two: write(t, s, two, 2)}
			c.spoil(t, s, logs)
			report, _ := verified(t, s)
			if !found(report, Ref{logs[one].Chain(), c.at}, c.fault) {
				t.Errorf("want #%d %s, found %v", c.at, c.fault, report.Findings)
			}
			for _, f := range report.Findings {
				if f.Chain != logs[one].Chain() || !strings.Contains(f.String(), f.Fault.String()) {
					t.Errorf("found %s", f)
				}
			}
		})
	}
}

func TestAKeptHeadStaysValidWhileItsChainGrows(t *testing.T) {
	rows := mem(t)
	l := write(t, rows, "one", 3)
	kept, _ := sound(t, rows)
	record(t, l, restore(t, 9), start)
	report, err := VerifyAgainst(t.Context(), rows, kept.Heads, nil)
	if err != nil || !report.Sound() || report.Anchors != 1 {
		t.Errorf("%+v %v", report, err)
	}
}

func TestARewrittenStoreIsFoundByAKeptHead(t *testing.T) {
	rows := mem(t)
	l := write(t, rows, "one", 3)
	kept, _ := sound(t, rows)
	var prev Hash
	for n := range Number(3) { // the whole chain again, with another actor
		r, err := readRecord(get(t, rows, recordKey(Ref{l.Chain(), n})))
		if err != nil {
			t.Fatal(err)
		}
		r.Entry.Actor.Subject, r.Prev = "eve", prev
		put(t, rows, recordKey(r.Ref), r.seal())
		prev = r.Hash
	}
	end := l.chain
	end.Hash = prev
	put(t, rows, listingKey(l.Chain()), end.seal())
	sound(t, rows) // the store alone cannot show it
	report, err := VerifyAgainst(t.Context(), rows, kept.Heads, nil)
	if err != nil || !found(report, Ref{l.Chain(), 2}, Changed) {
		t.Errorf("%v %v", report.Findings, err)
	}
}

func TestAHeadIsParsedFromItsString(t *testing.T) {
	rows := mem(t)
	write(t, rows, "node-1:8080", 2)
	report, _ := sound(t, rows)
	for _, h := range append(report.Heads, Head{Chain: "x"}) {
		if back, err := ParseHead(h.String()); err != nil || back != h {
			t.Errorf("%s is read as %s: %v", h, back, err)
		}
	}
	for _, line := range []string{"", "a 1", "a b c", "a 1 00", "a 1 " + Hash{}.String(), "a 0 " + Hash{1}.String(), "ä 0 " + Hash{}.String(), "a -1 " + Hash{1}.String()} {
		if _, err := ParseHead(line); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestAChainWithoutRecordsIsNoFinding(t *testing.T) {
	rows := mem(t)
	l := begin(t, rows, "node-1")
	if err := l.list(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, rows, "node-2", 1) // anchors the empty one
	if report, _ := sound(t, rows); report.Empty != 1 || report.Chains != 1 || report.Anchors != 1 {
		t.Errorf("%+v", report)
	}
	put(t, rows, listingKey(l.Chain()), nil)
	if report, _ := verified(t, rows); !found(report, Ref{Chain: l.Chain()}, Unlisted) {
		t.Errorf("%v", report.Findings)
	}
}

func TestTheRecordsOfAnUnlistedChainAreStillRead(t *testing.T) {
	rows := mem(t)
	one := write(t, rows, "one", 3)
	write(t, rows, "two", 1)
	put(t, rows, listingKey(one.Chain()), nil)
	report, all := verified(t, rows)
	if !found(report, Ref{Chain: one.Chain()}, Unlisted) || len(report.Findings) != 1 || len(all) != 4 {
		t.Errorf("%v, %d records", report.Findings, len(all))
	}
}

func TestAReportContainsMaxFindingsAndCountsTheRest(t *testing.T) {
	var r Report
	for n := range MaxFindings + 7 {
		r.add(Finding{Ref: Ref{"a", Number(n)}, Fault: Missing})
		r.add(Finding{Ref: Ref{"a", 0}, Fault: Missing})
	}
	if len(r.Findings) != MaxFindings || r.More != 7 || r.Sound() {
		t.Errorf("%d findings and %d more", len(r.Findings), r.More)
	}
}

func TestAnErrorOfTheCallbackEndsAVerification(t *testing.T) {
	rows := mem(t)
	write(t, rows, "one", 3)
	enough := errors.New("enough")
	if report, err := Verify(t.Context(), rows, func(Record) error { return enough }); !errors.Is(err, enough) || report.Records != 1 {
		t.Errorf("%+v %v", report, err)
	}
}
