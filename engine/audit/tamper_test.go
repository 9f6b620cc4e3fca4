package audit

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mayflyhq/mayfly/store"
)

// stored is a row of the table as a tamperer sees it.
type stored struct {
	key   store.Key
	value []byte
}

// ledger writes three chains, the first two of which the third has anchored,
// and answers all rows: those of records, then those of the directory.
func ledger(t testing.TB, rows store.Rows, r *rand.Rand) (records, listings []stored) {
	t.Helper()
	logs := []*Log{write(t, rows, "one", 2+r.IntN(4)), write(t, rows, "two", 1+r.IntN(4))}
	logs = append(logs, write(t, rows, "three", 2+r.IntN(4)))
	for _, l := range logs {
		for n := range l.chain.Count {
			key := recordKey(Ref{l.Chain(), Number(n)})
			records = append(records, stored{key, get(t, rows, key)})
		}
		key := listingKey(l.Chain())
		listings = append(listings, stored{key, get(t, rows, key)})
	}
	return records, listings
}

// tampered makes a change, wants it found, and takes it back.
func tampered(t *testing.T, rows store.Rows, what string, change ...stored) {
	t.Helper()
	var back []stored
	for _, c := range change {
		back = append(back, stored{c.key, get(t, rows, c.key)})
		put(t, rows, c.key, c.value)
	}
	if report, _ := verified(t, rows); report.Sound() {
		t.Errorf("%s is not found", what)
	}
	for _, c := range slices.Backward(back) {
		put(t, rows, c.key, c.value)
	}
}

func TestAnyByteOfAnyRowThatIsChangedIsFound(t *testing.T) {
	r := seeded(t)
	rows := mem(t)
	records, listings := ledger(t, rows, r)
	sound(t, rows)
	flips := 0
	for _, row := range append(records, listings...) {
		for i := range row.value {
			value := bytes.Clone(row.value)
			value[i] ^= 1 << r.IntN(8)
			tampered(t, rows, fmt.Sprintf("%q: byte %d of %d", row.key, i, len(value)), stored{row.key, value})
			flips++
		}
		tampered(t, rows, "a byte more", stored{row.key, append(bytes.Clone(row.value), 0)})
		tampered(t, rows, "a byte less", stored{row.key, row.value[:len(row.value)-1]})
		tampered(t, rows, "no byte at all", stored{row.key, []byte{}})
	}
	sound(t, rows)
	if t.Logf("%d bytes changed", flips); flips < 1000 {
		t.Error("too little was tried")
	}
}

func TestAnyRecordThatIsRemovedMovedOrCopiedIsFound(t *testing.T) {
	r := seeded(t)
	tries := 0
	for range 4 {
		rows := mem(t)
		records, listings := ledger(t, rows, r)
		for i, a := range records {
			tampered(t, rows, fmt.Sprintf("%q: removed", a.key), stored{a.key, nil})
			for j, b := range records {
				if i == j {
					continue
				}
				tampered(t, rows, fmt.Sprintf("%q over %q", a.key, b.key), stored{b.key, a.value})
				tampered(t, rows, fmt.Sprintf("%q and %q exchanged", a.key, b.key), stored{a.key, b.value}, stored{b.key, a.value})
				tries += 2
			}
			past := Ref{Chain: a.key.Partition[len(partition("")):], Number: 99}
			tampered(t, rows, "a copy behind the end", stored{recordKey(past), a.value})
			tampered(t, rows, "a row without a number", stored{store.Key{Partition: a.key.Partition, Clustering: "x"}, a.value})
			tries += 3
		}
		for i, a := range listings {
			b := listings[(i+1)%len(listings)]
			tampered(t, rows, "exchanged rows of the directory", stored{a.key, b.value}, stored{b.key, a.value})
			tampered(t, rows, "a row of the directory that is no chain's", stored{listingKey("not a chain"), a.value})
			if i < 2 { // the third chain is nobody's anchor yet
				tampered(t, rows, "a removed row of the directory", stored{a.key, nil})
			}
		}
		sound(t, rows)
	}
	if t.Logf("%d changes", tries); tries < 300 {
		t.Error("too little was tried")
	}
}

// TestWhoKnowsTheFormatIsFoundToo changes a record and gives it a proper hash:
// what follows it, the directory or an anchor knows another.
func TestWhoKnowsTheFormatIsFoundToo(t *testing.T) {
	rows := mem(t)
	records, _ := ledger(t, rows, seeded(t))
	for _, row := range records {
		r, err := readRecord(row.value)
		if err != nil {
			t.Fatal(err)
		}
		r.Entry.Reason = "none of your business"
		tampered(t, rows, r.Ref.String(), stored{row.key, r.seal()})
	}
}

// cut takes the last record off a chain and the directory back to the one
// before: what an attacker does who knows where to look.
func cut(t *testing.T, rows store.Rows, l *Log) {
	t.Helper()
	count := l.chain.Count
	put(t, rows, recordKey(Ref{l.Chain(), Number(count - 1)}), nil)
	last, err := readRecord(get(t, rows, recordKey(Ref{l.Chain(), Number(count - 2)})))
	if err != nil {
		t.Fatal(err)
	}
	back := listing{Head: Head{l.Chain(), count - 1, last.Hash}, opened: l.chain.opened, moved: last.At}
	put(t, rows, listingKey(l.Chain()), back.seal())
}

func TestAChainCutAtItsEndIsFoundOnceAnotherHasAnchoredIt(t *testing.T) {
	rows := mem(t)
	one := write(t, rows, "one", 4)
	two := write(t, rows, "two", 2)
	cut(t, rows, one)
	report, _ := verified(t, rows)
	lost := Ref{one.Chain(), 3}
	if !found(report, lost, Missing) || report.Findings[0].By != (Ref{two.Chain(), 0}) {
		t.Errorf("%v", report.Findings)
	}
}

func TestAChainCutAtItsEndIsFoundByAHeadThatWasKept(t *testing.T) {
	rows := mem(t)
	one := write(t, rows, "one", 4)
	before, _ := sound(t, rows)
	cut(t, rows, one)
	if report, _ := verified(t, rows); !report.Sound() {
		t.Errorf("nobody anchored it, and yet %v", report.Findings) // what a store alone cannot show
	}
	report, err := VerifyAgainst(t.Context(), rows, before.Heads, nil)
	if err != nil || !found(report, Ref{one.Chain(), 3}, Missing) {
		t.Errorf("%v %v", report.Findings, err)
	}
}

func TestAChainThatIsGoneAltogetherIsFoundByWhoAnchoredIt(t *testing.T) {
	rows := mem(t)
	one := write(t, rows, "one", 2)
	kept, _ := sound(t, rows)
	write(t, rows, "two", 1)
	put(t, rows, recordKey(Ref{one.Chain(), 0}), nil)
	put(t, rows, recordKey(Ref{one.Chain(), 1}), nil)
	put(t, rows, listingKey(one.Chain()), nil)
	for _, heads := range [][]Head{nil, kept.Heads} {
		report, err := VerifyAgainst(t.Context(), rows, heads, nil)
		if err != nil || !found(report, Ref{Chain: one.Chain()}, Unlisted) || !found(report, Ref{one.Chain(), 1}, Missing) {
			t.Errorf("%v %v", report.Findings, err)
		}
	}
}
