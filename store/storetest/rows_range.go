package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/mayflyhq/mayfly/store"
)

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
			page := sorts(c.readRange(PlainTable, store.Range{Partition: p, From: from, Limit: limit}))
			if len(page) == 0 || len(forwards) > n {
				break
			}
			forwards = append(forwards, page...)
			from = page[len(page)-1] + "\x00" // just after it
		}
		for to := ""; ; {
			page := sorts(c.readRange(PlainTable, store.Range{Partition: p, To: to, Limit: limit, Reverse: true}))
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
		c.Errorf("past its reclaim time the row is %q", got)
	}
	rows := slices.DeleteFunc(sorts(c.readRange(PlainTable, store.Range{Partition: key.Partition, Limit: 10})),
		func(s string) bool { return s == "b" })
	if !slices.Equal(rows, []string{"a", "c"}) {
		c.Errorf("the rows beside it: %q", rows)
	}
	// What is put again without one stays.
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
		c.Errorf("what was read is now %q and %q", got, rows)
	}
	c.get(PlainTable, key)[0][0] = '!' // an answer is the caller's own
	c.readRange(PlainTable, store.Range{Partition: key.Partition, Limit: 1})[0].Value[0] = '!'
	c.wantValue(PlainTable, key, "VALUE OF A")
}
