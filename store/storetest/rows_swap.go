package storetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func swapCases() []testCase {
	return []testCase{
		{"a swap from absence creates the row once", swapFromAbsence},
		{"a swap replaces what it expects", swapReplaces},
		{"a swap that expects another value changes nothing and returns the row", swapMismatch},
		{"a swap to absence removes the row", swapToAbsence},
		{"a swap distinguishes an empty value from an absent row", swapEmptyValue},
		{"a plain table cannot be swapped", swapPlain},
		{"a range returns swapped rows like any other", swapRanged},
		{"of sixteen racing swaps from absence exactly one wins", swapRaceFromAbsence},
		{"sixteen racing swappers count without losing one", swapCounter},
	}
}

func (c *trial) wantSwap(key store.Key, old, next []byte, want bool, current []byte) {
	c.Helper()
	swapped, now := c.swap(SwappedTable, key, old, next)
	if swapped != want {
		c.Errorf("swap %q → %q: swapped %t, want %t", old, next, swapped, want)
	}
	if !want && (!bytes.Equal(now, current) || (now == nil) != (current == nil)) {
		c.Errorf("swap %q → %q returns %q (absent: %t), want %q (absent: %t)", old, next, now, now == nil, current, current == nil)
	}
}

func swapFromAbsence(c *trial) {
	key := freshKey("s")
	c.wantSwap(key, nil, []byte("first"), true, nil)
	c.wantValue(SwappedTable, key, "first")
	c.wantSwap(key, nil, []byte("second"), false, []byte("first"))
	c.wantValue(SwappedTable, key, "first")
}

func swapReplaces(c *trial) {
	key := freshKey("s")
	c.wantSwap(key, nil, []byte("0"), true, nil)
	for i := range 5 {
		c.wantSwap(key, fmt.Append(nil, i), fmt.Append(nil, i+1), true, nil)
		c.wantValue(SwappedTable, key, fmt.Sprint(i+1))
	}
	c.wantSwap(key, []byte("5"), []byte("5"), true, nil)
	c.wantValue(SwappedTable, key, "5")
}

func swapMismatch(c *trial) {
	key := freshKey("s")
	c.wantSwap(key, []byte("old"), []byte("new"), false, nil)
	c.wantAbsent(SwappedTable, key)
	c.wantSwap(key, nil, []byte("a"), true, nil)
	c.wantSwap(key, []byte("A"), []byte("b"), false, []byte("a"))
	c.wantSwap(key, []byte("a\x00"), []byte("b"), false, []byte("a"))
	c.wantSwap(key, []byte("A"), nil, false, []byte("a"))
	c.wantValue(SwappedTable, key, "a")
}

func swapToAbsence(c *trial) {
	key := freshKey("s")
	for range 2 {
		c.wantSwap(key, nil, []byte("v"), true, nil)
		c.wantSwap(key, []byte("v"), nil, true, nil)
		c.wantAbsent(SwappedTable, key)
		if rows := c.readRange(SwappedTable, store.Range{Partition: key.Partition, Limit: 5}); len(rows) != 0 {
			c.Errorf("a removed row is still in the range: %q", rows)
		}
	}
}

func swapEmptyValue(c *trial) {
	key := freshKey("s")
	c.wantSwap(key, []byte{}, []byte("v"), false, nil)
	c.wantSwap(key, nil, []byte{}, true, nil)
	c.wantValue(SwappedTable, key, "")
	c.wantSwap(key, nil, []byte("v"), false, []byte{})
	c.wantSwap(key, []byte{}, []byte("v"), true, nil)
	c.wantValue(SwappedTable, key, "v")
}

func swapPlain(c *trial) {
	key := freshKey("s")
	_, _, err := c.set.Rows.Swap(c.ctx, PlainTable, key, nil, []byte("v"), 0)
	c.wantKind(mayfly.Invalid, err)
	c.wantAbsent(PlainTable, key)
	_, _, err = c.set.Rows.Swap(c.ctx, undeclared(), key, nil, []byte("v"), 0)
	c.wantKind(mayfly.Invalid, err)
	_, _, err = c.set.Rows.Swap(c.ctx, SwappedTable, store.Key{Clustering: "s"}, nil, []byte("v"), 0)
	c.wantKind(mayfly.Invalid, err)
}

func swapRanged(c *trial) {
	p := freshKey("").Partition
	for _, s := range []string{"c", "a", "b"} {
		c.wantSwap(store.Key{Partition: p, Clustering: s}, nil, []byte("value of "+s), true, nil)
	}
	c.wantRange(SwappedTable, store.Range{Partition: p, Limit: 10}, "a", "b", "c")
	c.wantRange(SwappedTable, store.Range{Partition: p, Limit: 2, Reverse: true}, "c", "b")
}

func swapRaceFromAbsence(c *trial) {
	key := freshKey("s")
	var wins atomic.Int64
	var winner atomic.Value
	together(16, func(i int) {
		mine := fmt.Appendf(nil, "writer %d", i)
		swapped, _, err := c.set.Rows.Swap(c.ctx, SwappedTable, key, nil, mine, 0)
		if err != nil && !errors.Is(err, mayfly.Unknown) {
			c.Errorf("a racing swap: %v", err)
		}
		for tries := 1; errors.Is(err, mayfly.Unknown) && tries < 5; tries++ { // only this caller can have written its value
			var current []byte
			swapped, current, err = c.set.Rows.Swap(c.ctx, SwappedTable, key, nil, mine, 0)
			swapped = swapped || bytes.Equal(current, mine)
		}
		if swapped {
			wins.Add(1)
			winner.Store(string(mine))
		}
	})
	if wins.Load() != 1 {
		c.Fatalf("%d of 16 racing swaps won", wins.Load())
	}
	c.wantValue(SwappedTable, key, winner.Load().(string))
}

func swapCounter(c *trial) {
	const swappers, each = 16, 5
	key := freshKey("s")
	c.wantSwap(key, nil, make([]byte, 8), true, nil)
	for round := range each {
		allRead := c.barrier(swappers)
		together(swappers, func(int) {
			found, err := c.set.Rows.Get(c.ctx, SwappedTable, key)
			allRead() // so that all but one of the first swaps must lose
			if err != nil || len(found[0]) != 8 {
				c.Errorf("read the counter: %q, %v", found, err)
				return
			}
			for current := found[0]; ; {
				next := binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(current)+1)
				swapped, now, err := c.set.Rows.Swap(c.ctx, SwappedTable, key, current, next, 0)
				switch {
				case err != nil:
					c.Errorf("swap: %v", err)
					return
				case swapped:
					return
				case len(now) != 8 || bytes.Equal(now, current):
					c.Errorf("a swap that lost returns %x, and expected %x", now, current)
					return
				}
				current = now
			}
		})
		got := c.get(SwappedTable, key)[0]
		if want := uint64(swappers * (round + 1)); binary.BigEndian.Uint64(got) != want {
			c.Fatalf("the counter is %d, want %d", binary.BigEndian.Uint64(got), want)
		}
	}
}
