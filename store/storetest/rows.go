package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func rowsCases() []testCase {
	return append([]testCase{
		{"the last put of a row wins", lastPutWins},
		{"a deleted row is absent and deleting an absent row is no error", deleteRow},
		{"a dropped partition is empty and its neighbours are unchanged", dropPartition},
		{"get returns values in the order of the keys, with absent and repeated ones", rowsGetKeepsOrder},
		{"an empty value is not an absent row", emptyValue},
		{"an undeclared table cannot be read", undeclaredTable},
		{"tables with the same keys are separate", tablesApart},
		{"no partition contains rows of another, whatever bytes their names have", partitionsApart},
		{"clustering keys of any bytes are found, in byte order", clusteringKeysAreBytes},
		{"the longest keys are stored", longestKeys},
		{"a large value is read back", bigValue},
		{"a range is read forwards and backwards", rangeBothWays},
		{"the bounds of a range include from and exclude to", rangeBounds},
		{"a range stops at its limit", rangeLimit},
		{"pages of a range add up to one large read", rangePages},
		{"ranges of many partitions are those of each alone", rangesTogether},
		{"a range of an empty partition has no rows", rangeEmpty},
		{"a row is kept until its reclaim time", reclaimAhead},
		{"a row after its reclaim time is unchanged or absent", reclaimPast},
		{"a value that was read does not change when the row does", readIsStable},
		{"the partitions of a table are listed, each once", partitionsListed},
	}, swapCases()...)
}

func (c *trial) readRange(t store.Table, r store.Range) []store.Row {
	c.Helper()
	rows, err := c.set.Rows.Range(c.ctx, t, r)
	c.must(err)
	return rows
}

func clusteringsOf(rows []store.Row) []string {
	s := make([]string, len(rows))
	for i, r := range rows {
		s[i] = r.Clustering
	}
	return s
}

func (c *trial) wantRange(t store.Table, r store.Range, want ...string) {
	c.Helper()
	rows := c.readRange(t, r)
	if got := clusteringsOf(rows); !slices.Equal(got, want) {
		c.Errorf("range %+v\n got %q\nwant %q", r, got, want)
	}
	for _, row := range rows {
		if string(row.Value) != "value of "+row.Clustering {
			c.Errorf("row %q has the value %q", row.Clustering, row.Value)
		}
	}
}

// fill puts one row for each clustering key into a partition of PlainTable.
func (c *trial) fill(partition string, clusterings ...string) {
	c.Helper()
	c.commit(func(b *store.Batch) {
		for _, s := range clusterings {
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

// awkward returns byte strings that are easily encoded wrongly in keys.
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
		if !slices.Equal(clusteringsOf(rows), want) {
			c.Errorf("partition …%q\n got %q\nwant %q", tail, clusteringsOf(rows), want)
		}
		for _, r := range rows {
			if string(r.Value) != fmt.Sprint(i) {
				c.Errorf("partition …%q holds a row of another: %q", tail, r)
			}
		}
		backwards := c.readRange(PlainTable, store.Range{Partition: base + tail, Limit: 10, Reverse: true})
		slices.Reverse(want)
		if !slices.Equal(clusteringsOf(backwards), want) {
			c.Errorf("partition …%q backwards\n got %q\nwant %q", tail, clusteringsOf(backwards), want)
		}
	}
}

func clusteringKeysAreBytes(c *trial) {
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
		if want[i] != "" { // an empty To means the end
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
		c.Errorf("the partition with the longest name has %d rows", len(rows))
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
		c.Errorf("a value of %d bytes is read back with %d", len(value), len(got))
	}
}

func letters(from, to byte) []string {
	var s []string
	for b := from; b <= to; b++ {
		s = append(s, string([]byte{b}))
	}
	return s
}

func reversed(s []string) []string {
	s = slices.Clone(s)
	slices.Reverse(s)
	return s
}

func rangeBothWays(c *trial) {
	p := freshKey("").Partition
	all := letters('a', 'j')
	c.fill(p, reversed(all)...)
	c.wantRange(PlainTable, store.Range{Partition: p, Limit: 100}, all...)
	c.wantRange(PlainTable, store.Range{Partition: p, Limit: 100, Reverse: true}, reversed(all)...)
}

func rangeBounds(c *trial) {
	p := freshKey("").Partition
	c.fill(p, "b", "d", "dd", "f", "h")
	for _, r := range []struct {
		from, to string
		want     []string
	}{
		{"", "", []string{"b", "d", "dd", "f", "h"}},
		{"b", "h", []string{"b", "d", "dd", "f"}},
		{"b\x00", "h\x00", []string{"d", "dd", "f", "h"}},
		{"c", "f", []string{"d", "dd"}},
		{"d", "dd", []string{"d"}},
		{"d", "d", nil},
		{"g", "c", nil},
		{"h", "", []string{"h"}},
		{"i", "", nil},
		{"", "b", nil},
		{"", "\xff\xff", []string{"b", "d", "dd", "f", "h"}},
	} {
		c.wantRange(PlainTable, store.Range{Partition: p, From: r.from, To: r.to, Limit: 100}, r.want...)
		c.wantRange(PlainTable, store.Range{Partition: p, From: r.from, To: r.to, Limit: 100, Reverse: true}, reversed(r.want)...)
	}
}

func rangesTogether(c *trial) {
	var all []store.Range
	for n := range 70 { // more than are under way at once
		p := freshKey("").Partition
		c.fill(p, letters('a', byte('a'+n%7))...)
		for _, r := range []store.Range{{Limit: 10}, {Limit: 3, Reverse: true}, {From: "b", To: "e", Limit: 2}, {From: "c", To: "c", Limit: 1}, {To: "d", Limit: 0}, {From: "x", Limit: 1, Reverse: true}} {
			r.Partition = p
			all = append(all, r)
		}
	}
	found, err := c.set.Rows.Ranges(c.ctx, PlainTable, all...)
	if c.must(err); len(found) != len(all) {
		c.Fatalf("%d of %d ranges", len(found), len(all))
	}
	for i, r := range all {
		if want := c.readRange(PlainTable, r); !slices.Equal(clusteringsOf(found[i]), clusteringsOf(want)) {
			c.Errorf("%+v: %q together, %q alone", r, clusteringsOf(found[i]), clusteringsOf(want))
		}
	}
	if found, err := c.set.Rows.Ranges(c.ctx, PlainTable); err != nil || len(found) != 0 {
		c.Errorf("no ranges: %v, %v", found, err)
	}
	if _, err := c.set.Rows.Ranges(c.ctx, store.Table{}, all...); !errors.Is(err, mayfly.Invalid) {
		c.Errorf("of a table that is not declared: %v", err)
	}
}

func rangeLimit(c *trial) {
	p := freshKey("").Partition
	all := letters('a', 'g')
	c.fill(p, all...)
	for n := 1; n <= len(all)+1; n++ {
		k := min(n, len(all))
		c.wantRange(PlainTable, store.Range{Partition: p, Limit: n}, all[:k]...)
		c.wantRange(PlainTable, store.Range{Partition: p, Limit: n, Reverse: true}, reversed(all)[:k]...)
	}
	c.wantRange(PlainTable, store.Range{Partition: p, From: "c", To: "f", Limit: 2, Reverse: true}, "e", "d")
}

func rangePages(c *trial) {
	const n = 300
	p := freshKey("").Partition
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%05d", i*7))
	}
	c.fill(p, all...)
	for _, limit := range []int{7, 100, 299} {
		var forwards, backwards []string
		for from := ""; ; {
			page := clusteringsOf(c.readRange(PlainTable, store.Range{Partition: p, From: from, Limit: limit}))
			if len(page) == 0 || len(forwards) > n {
				break
			}
			forwards = append(forwards, page...)
			from = page[len(page)-1] + "\x00" // just after it
		}
		for to := ""; ; {
			page := clusteringsOf(c.readRange(PlainTable, store.Range{Partition: p, To: to, Limit: limit, Reverse: true}))
			if len(page) == 0 || len(backwards) > n {
				break
			}
			backwards = append(backwards, page...)
			to = page[len(page)-1] // just before it
		}
		if !slices.Equal(forwards, all) || !slices.Equal(backwards, reversed(all)) {
			c.Errorf("pages of %d: %d rows forwards, %d backwards, want %d", limit, len(forwards), len(backwards), n)
		}
	}
}

func rangeEmpty(c *trial) {
	p := freshKey("").Partition
	c.wantRange(PlainTable, store.Range{Partition: p, Limit: 10})
	c.wantRange(PlainTable, store.Range{Partition: p, Limit: 10, Reverse: true})
}

func reclaimAhead(c *trial) {
	key := freshKey("a")
	ahead := wall().Add(time.Hour)
	c.commit(func(b *store.Batch) {
		b.Put(PlainTable, key, []byte("value of a"), ahead)
		b.Put(PlainTable, store.Key{Partition: key.Partition, Clustering: "b"}, []byte("value of b"), ahead.Add(80*365*24*time.Hour))
	})
	c.wantValue(PlainTable, key, "value of a")
	c.wantRange(PlainTable, store.Range{Partition: key.Partition, Limit: 10}, "a", "b")
	swapped, _, err := c.set.Rows.Swap(c.ctx, SwappedTable, key, nil, []byte("v"), ahead)
	c.must(err)
	if !swapped {
		c.Errorf("a fresh row is not absent")
	}
	c.wantValue(SwappedTable, key, "v")
}

func reclaimPast(c *trial) {
	key := freshKey("b")
	c.fill(key.Partition, "a", "c")
	c.commit(func(b *store.Batch) { b.Put(PlainTable, key, []byte("value of b"), wall().Add(-time.Hour)) })
	if got := c.get(PlainTable, key)[0]; got != nil && string(got) != "value of b" {
		c.Errorf("after its reclaim time the row is %q", got)
	}
	rows := slices.DeleteFunc(clusteringsOf(c.readRange(PlainTable, store.Range{Partition: key.Partition, Limit: 10})),
		func(s string) bool { return s == "b" })
	if !slices.Equal(rows, []string{"a", "c"}) {
		c.Errorf("the other rows are %q", rows)
	}
	// A row that is put again without a reclaim time stays.
	c.put(PlainTable, key, "kept")
	c.wantValue(PlainTable, key, "kept")
}

func readIsStable(c *trial) {
	key := freshKey("a")
	c.fill(key.Partition, "a", "b")
	got := c.get(PlainTable, key)[0]
	rows := c.readRange(PlainTable, store.Range{Partition: key.Partition, Limit: 10})
	c.put(PlainTable, key, "VALUE OF A")
	for range 3 {
		c.readRange(PlainTable, store.Range{Partition: key.Partition, Limit: 10, Reverse: true})
	}
	if string(got) != "value of a" || !bytes.Equal(rows[0].Value, got) || string(rows[1].Value) != "value of b" {
		c.Errorf("the values that were read are now %q and %q", got, rows)
	}
	c.get(PlainTable, key)[0][0] = '!' // the caller may change what it was returned
	c.readRange(PlainTable, store.Range{Partition: key.Partition, Limit: 1})[0].Value[0] = '!'
	c.wantValue(PlainTable, key, "VALUE OF A")
}

func partitionsListed(c *trial) {
	p := freshKey("").Partition
	want := map[string]bool{}
	for _, name := range []string{p, p + "\x00", p + "\xff", p[:15], p[1:], strings.Repeat(p[:1]+p[1:], 20)} {
		want[name] = true
		c.fill(name, "", "a", "\xff")
		c.swap(SwappedTable, store.Key{Partition: name + "!", Clustering: "a"}, nil, []byte("of another table"))
	}
	gone := p + "gone"
	c.fill(gone, "a")
	c.commit(func(b *store.Batch) { b.DeletePartition(PlainTable, gone) })
	for _, limit := range []int{7, 1000} {
		listed, cursor := map[string]int{}, ""
		for calls := 0; ; calls++ {
			page, next, err := c.set.Rows.Partitions(c.ctx, PlainTable, cursor, limit)
			c.must(err)
			for _, name := range page {
				listed[name]++
			}
			if cursor = next; cursor == "" {
				break
			}
			if calls == 1_000_000 {
				c.Fatalf("no end after %d calls of %d", calls, limit)
			}
		}
		for name := range want {
			if listed[name] != 1 {
				c.Errorf("pages of %d: partition %q is listed %d times", limit, name, listed[name])
			}
			if listed[name+"!"] != 0 {
				c.Errorf("pages of %d: partition %q of another table is listed", limit, name)
			}
		}
		if listed[gone] != 0 {
			c.Errorf("pages of %d: a partition that was deleted is listed", limit)
		}
	}
	if _, _, err := c.set.Rows.Partitions(c.ctx, PlainTable, "no cursor", 10); err != nil { // a driver may take any
		c.wantKind(mayfly.Invalid, err)
	}
	_, _, err := c.set.Rows.Partitions(c.ctx, store.Table{}, "", 10)
	c.wantKind(mayfly.Invalid, err)
}
