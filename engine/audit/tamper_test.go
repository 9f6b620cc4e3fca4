package audit

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mayflyhq/mayfly/store"
)

// stored is a row of the audit table.
type stored struct {
	key   store.Key
	value []byte
}

// writeChains writes three chains, the third of which anchors the first two. It
// returns the rows of the records and the rows of the directory.
func writeChains(t testing.TB, rows store.Rows, r *rand.Rand) (records, listings []stored) {
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

// tampered makes a change, checks that Verify finds it, and undoes the change.
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

func TestAChangeOfAnyByteIsFound(t *testing.T) {
	r := seeded(t)
	rows := mem(t)
	records, listings := writeChains(t, rows, r)
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

func TestARemovedMovedOrCopiedRecordIsFound(t *testing.T) {
	r := seeded(t)
	tries := 0
	for range 4 {
		rows := mem(t)
		records, listings := writeChains(t, rows, r)
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
			tampered(t, rows, "a copy after the end", stored{recordKey(past), a.value})
			tampered(t, rows, "a row without a number", stored{store.Key{Partition: a.key.Partition, Clustering: "x"}, a.value})
			tries += 3
		}
		for i, a := range listings {
			b := listings[(i+1)%len(listings)]
			tampered(t, rows, "exchanged rows of the directory", stored{a.key, b.value}, stored{b.key, a.value})
			tampered(t, rows, "a row of the directory with an invalid name", stored{listingKey("not a chain"), a.value})
			if i < 2 { // no chain anchors the third one yet
				tampered(t, rows, "a removed row of the directory", stored{a.key, nil})
			}
		}
		sound(t, rows)
	}
	if t.Logf("%d changes", tries); tries < 300 {
		t.Error("too little was tried")
	}
}

// TestAChangedRecordWithAMatchingHashIsFound changes a record and its hash: the
// next record, the directory or an anchor contains the old hash.
func TestAChangedRecordWithAMatchingHashIsFound(t *testing.T) {
	rows := mem(t)
	records, _ := writeChains(t, rows, seeded(t))
	for _, row := range records {
		r, err := readRecord(row.value)
		if err != nil {
			t.Fatal(err)
		}
		r.Entry.Reason = "none of your business"
		tampered(t, rows, r.Ref.String(), stored{row.key, r.seal()})
	}
}

// cut removes the last record of a chain and sets the directory back to the one
// before, as an attacker would who knows the format.
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

func TestACutChainIsFoundByAnAnchor(t *testing.T) {
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

func TestACutChainIsFoundByAKeptHead(t *testing.T) {
	rows := mem(t)
	one := write(t, rows, "one", 4)
	before, _ := sound(t, rows)
	cut(t, rows, one)
	if report, _ := verified(t, rows); !report.Sound() {
		t.Errorf("not anchored, but found %v", report.Findings) // what a store alone cannot show
	}
	report, err := VerifyAgainst(t.Context(), rows, before.Heads, nil)
	if err != nil || !found(report, Ref{one.Chain(), 3}, Missing) {
		t.Errorf("%v %v", report.Findings, err)
	}
}

func TestARemovedChainIsFoundByAnAnchor(t *testing.T) {
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
