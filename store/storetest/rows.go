package storetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func rowsCases() []testCase {
	return append([]testCase{
		{"the last put of a row wins", lastPutWins},
		{"a deleted row is absent and deleting absence is no error", deleteRow},
		{"a dropped partition is empty and its neighbours are whole", dropPartition},
		{"get answers in the order asked, with absences and repeats", rowsGetKeepsOrder},
		{"an empty value is not absence", emptyValue},
		{"an undeclared table cannot be read", undeclaredTable},
		{"tables with the same keys are apart", tablesApart},
		{"keys are bytes: no partition bleeds into another", partitionsApart},
		{"sort keys are bytes: all are found and in byte order", sortKeysAreBytes},
		{"the longest keys are kept", longestKeys},
		{"a big value is read back", bigValue},
		{"a range is read forwards and backwards", rangeBothWays},
		{"the bounds of a range include from and exclude to", rangeBounds},
		{"a range stops at its limit", rangeLimit},
		{"pages of a range add up to one big read", rangePages},
		{"a range of an empty partition has no rows", rangeEmpty},
		{"a row is kept until its reclaim time", reclaimAhead},
		{"a row past its reclaim time is whole or absent", reclaimPast},
		{"what was read does not change when the row does", readIsStable},
	}, swapCases()...)
}

func (c *trial) readRange(t store.Table, r store.Range) []store.Row {
	c.Helper()
	rows, err := c.set.Rows.Range(c.ctx, t, r)
	c.must(err)
	return rows
}

func sorts(rows []store.Row) []string {
	s := make([]string, len(rows))
	for i, r := range rows {
		s[i] = r.Clustering
	}
	return s
}

func (c *trial) wantRange(t store.Table, r store.Range, want ...string) {
	c.Helper()
	rows := c.readRange(t, r)
	if got := sorts(rows); !slices.Equal(got, want) {
		c.Errorf("range %+v\n got %q\nwant %q", r, got, want)
	}
	for _, row := range rows {
		if string(row.Value) != "value of "+row.Clustering {
			c.Errorf("row %q has the value %q", row.Clustering, row.Value)
		}
	}
}

// fill puts one row per clustering key into a partition of PlainTable.
func (c *trial) fill(partition string, sort ...string) {
	c.Helper()
	c.commit(func(b *store.Batch) {
		for _, s := range sort {
			b.Put(PlainTable, store.Key{Partition: partition, Clustering: s}, []byte("value of "+s), 0)
		}
	})
}

func lastPutWins(c *trial) {
	key := freshKey("s")
	for i := range 5 {
		c.put(PlainTable, key, fmt.Sprint(i))
		c.wantValue(PlainTable, key, fmt.Sprint(i))
	}
	c.commit(func(b *store.Batch) { b.Delete(PlainTable, key) })
	c.put(PlainTable, key, "again")
	c.wantValue(PlainTable, key, "again")
}

func deleteRow(c *trial) {
	key := freshKey("b")
	c.fill(key.Partition, "a", "b", "c")
	for range 2 {
		c.commit(func(b *store.Batch) { b.Delete(PlainTable, key) })
		c.wantAbsent(PlainTable, key)
		c.wantRange(PlainTable, store.Range{Partition: key.Partition, Limit: 10}, "a", "c")
	}
}

func dropPartition(c *trial) {
	p := freshKey("").Partition
	neighbours := []string{p[:15], p + "\x00", p + "\xff", p[:15] + string([]byte{p[15] + 1})}
	for _, n := range append(neighbours, p) {
		c.fill(n, "", "a", "\xff")
	}
	for range 2 {
		c.commit(func(b *store.Batch) { b.DeletePartition(PlainTable, p) })
		c.wantRange(PlainTable, store.Range{Partition: p, Limit: 10})
		c.wantAbsent(PlainTable, store.Key{Partition: p, Clustering: "a"})
	}
	for _, n := range neighbours {
		c.wantRange(PlainTable, store.Range{Partition: n, Limit: 10}, "", "a", "\xff")
	}
}

func rowsGetKeepsOrder(c *trial) {
	a, b := freshKey("a"), freshKey("b")
	c.put(PlainTable, a, "1")
	c.put(PlainTable, b, "2")
	got := c.get(PlainTable, b, freshKey("a"), a, b)
	if string(got[0]) != "2" || got[1] != nil || string(got[2]) != "1" || string(got[3]) != "2" {
		c.Errorf("values %q", got)
	}
	c.get(PlainTable)
}

func emptyValue(c *trial) {
	key := freshKey("s")
	c.put(PlainTable, key, "")
	c.wantValue(PlainTable, key, "")
	if rows := c.readRange(PlainTable, store.Range{Partition: key.Partition, Limit: 5}); len(rows) != 1 || len(rows[0].Value) != 0 {
		c.Errorf("range of a row with an empty value: %q", rows)
	}
	key = freshKey("nil")
	c.commit(func(b *store.Batch) { b.Put(PlainTable, key, nil, 0) })
	c.wantValue(PlainTable, key, "")
}

func undeclaredTable(c *trial) {
	_, err := c.set.Rows.Get(c.ctx, undeclared(), freshKey("s"))
	c.wantKind(mayfly.Invalid, err)
	_, err = c.set.Rows.Range(c.ctx, store.Table{}, store.Range{Partition: "p", Limit: 1})
	c.wantKind(mayfly.Invalid, err)
	_, err = c.set.Rows.Get(c.ctx, PlainTable, store.Key{Clustering: "no partition"})
	c.wantKind(mayfly.Invalid, err)
}

func tablesApart(c *trial) {
	key := freshKey("s")
	for _, t := range Tables() {
		if t.Declared().Mode == store.Plain {
			c.put(t, key, t.String())
		} else if swapped, _ := c.swap(t, key, nil, []byte(t.String())); !swapped {
			c.Fatalf("%s: a fresh row is not absent", t)
		}
	}
	for _, t := range Tables() {
		c.wantValue(t, key, t.String())
	}
	c.commit(func(b *store.Batch) { b.DeletePartition(PlainTable, key.Partition) })
	c.wantAbsent(PlainTable, key)
	for _, t := range Tables() {
		if t != PlainTable {
			c.wantValue(t, key, t.String())
		}
	}
}

// awkward are byte strings that an encoding of keys gets wrong.
func awkward() []string {
	return []string{
		"", "\x00", "\x00\x00", "\x00\x01", "\x00\xff", "\x01", "a", "a\x00", "a\x00\x00", "a\x00b", "a\x01", "aa", "ab",
		"a/b", "a%00", "a'; DROP", "ä", "\x7f", "\x80", "\xfe\xff", "\xff", "\xff\x00", "\xff\xff", "\xff\xff\xff",
		strings.Repeat("z", 127), strings.Repeat("z", 128), strings.Repeat("z", 129), strings.Repeat("z", 255), strings.Repeat("z", 256),
	}
}

func partitionsApart(c *trial) {
	base := freshKey("").Partition
	for i, tail := range awkward() {
		c.commit(func(b *store.Batch) {
			for _, s := range []string{"", tail, "x"} {
				b.Put(PlainTable, store.Key{Partition: base + tail, Clustering: s}, []byte(fmt.Sprint(i)), 0)
			}
		})
	}
	for i, tail := range awkward() {
		want := []string{"", tail, "x"}
		slices.Sort(want)
		want = slices.Compact(want)
		rows := c.readRange(PlainTable, store.Range{Partition: base + tail, Limit: 10})
		if !slices.Equal(sorts(rows), want) {
			c.Errorf("partition …%q\n got %q\nwant %q", tail, sorts(rows), want)
		}
		for _, r := range rows {
			if string(r.Value) != fmt.Sprint(i) {
				c.Errorf("partition …%q holds a row of another: %q", tail, r)
			}
		}
		backwards := c.readRange(PlainTable, store.Range{Partition: base + tail, Limit: 10, Reverse: true})
		slices.Reverse(want)
		if !slices.Equal(sorts(backwards), want) {
			c.Errorf("partition …%q backwards\n got %q\nwant %q", tail, sorts(backwards), want)
		}
	}
}

func sortKeysAreBytes(c *trial) {
	p := freshKey("").Partition
	want := awkward()
	c.fill(p, want...)
	slices.Sort(want)
	c.wantRange(PlainTable, store.Range{Partition: p, Limit: 100}, want...)
	for _, s := range want {
		c.wantValue(PlainTable, store.Key{Partition: p, Clustering: s}, "value of "+s)
	}
	for i := range want {
		c.wantRange(PlainTable, store.Range{Partition: p, From: want[i], Limit: 100}, want[i:]...)
		if want[i] != "" { // an empty To is the end
			c.wantRange(PlainTable, store.Range{Partition: p, To: want[i], Limit: 100}, want[:i]...)
		}
	}
}

func longestKeys(c *trial) {
	p := freshKey("").Partition
	key := store.Key{Partition: p + strings.Repeat("\xff", store.MaxPartition-len(p)), Clustering: strings.Repeat("\xff", store.MaxClustering)}
	c.put(PlainTable, key, "v")
	c.wantValue(PlainTable, key, "v")
	if rows := c.readRange(PlainTable, store.Range{Partition: key.Partition, From: key.Clustering, Limit: 2}); len(rows) != 1 {
		c.Errorf("%d rows in the partition with the longest name", len(rows))
	}
	if swapped, _ := c.swap(SwappedTable, key, nil, []byte("v")); !swapped {
		c.Errorf("a row with the longest key cannot be swapped in")
	}
}

func bigValue(c *trial) {
	key := freshKey("s")
	value := strings.Repeat("\x00big\xff", 40_000)
	c.put(PlainTable, key, value)
	if got := c.get(PlainTable, key)[0]; string(got) != value {
		c.Errorf("a value of %d bytes comes back with %d", len(value), len(got))
	}
}
