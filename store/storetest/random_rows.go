package storetest

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

func (h *history) key() store.Key {
	clustering := draw(h, "clustering", rapid.SampledFrom([]string{"", "\x00", "a", "a\x00", "aa", "b", "\xff", "\xff\xff"}))
	return store.Key{Partition: draw(h, "partition", rapid.SampledFrom(h.partitions)), Clustering: clustering}
}

func (h *history) value() []byte { return []byte(draw(h, "value", rapid.StringN(0, 3, -1))) }

func (h *history) plain() store.Table {
	return draw(h, "table", rapid.SampledFrom([]store.Table{PlainTable, OtherTable}))
}

func (h *history) put() {
	t, key, value := h.plain(), h.key(), h.value()
	h.commit("put", func(b *store.Batch) { b.Put(t, key, value, 0) })
}

func (h *history) delete() {
	t, key := h.plain(), h.key()
	h.commit("delete", func(b *store.Batch) { b.Delete(t, key) })
}

func (h *history) drop() {
	t, key := h.plain(), h.key()
	h.commit("drop", func(b *store.Batch) { b.DeletePartition(t, key.Partition) })
}

// stages commits a batch in which each stage writes at most once to a partition,
// because the writes of a stage have no order.
func (h *history) stages() {
	birth := h.newBirth()
	h.commit("stages", func(b *store.Batch) {
		for range h.number("stages", 2, 4) {
			t, key := h.plain(), h.key()
			switch h.number("write", 0, 2) {
			case 0:
				b.Put(t, key, h.value(), 0)
			case 1:
				b.Delete(t, key)
			case 2:
				b.DeletePartition(t, key.Partition)
			}
			b.Then()
		}
		if !h.known(birth.Item.ID) {
			h.births = append(h.births, birth)
			b.Insert(birth)
			b.Then()
			b.Append(mayfly.EventOf(birth.Item, mayfly.WasCreated))
			h.unread[mayfly.Births]++
		}
	})
}

func (h *history) invalid() {
	birth, t, key := h.newBirth(), h.plain(), h.key()
	h.commit("invalid", func(b *store.Batch) {
		b.Insert(birth)
		b.Put(t, key, []byte("of an invalid batch"), 0)
		b.Then()
		switch h.number("fault", 0, 2) {
		case 0:
			b.Put(walk.Leases, key, []byte("v"), 0)
		case 1:
			bad := birth
			bad.Item.Generation = 2
			b.Insert(bad)
		case 2:
			b.Append(mayfly.Event{ID: birth.Item.ID})
		}
	})
	h.compareRows(birth.Item.ID)
	h.compareValues(t, key)
}

func (h *history) compareValues(t store.Table, keys ...store.Key) {
	h.t.Helper()
	real, realErr := h.real.Rows.Get(h.ctx, t, keys...)
	model, modelErr := h.model.Rows.Get(h.ctx, t, keys...)
	h.same("get rows", nil, nil, realErr, modelErr)
	if modelErr != nil {
		return
	}
	for i := range keys {
		if !bytes.Equal(real[i], model[i]) || (real[i] == nil) != (model[i] == nil) {
			h.t.Fatalf("%s %q\ndriver %q (absent: %t)\n model %q (absent: %t)", t, keys[i], real[i], real[i] == nil, model[i], model[i] == nil)
		}
	}
}

func (h *history) anyTable() store.Table {
	return draw(h, "table", rapid.SampledFrom([]store.Table{PlainTable, OtherTable, SwappedTable, undeclared()}))
}

func (h *history) getRows() { h.compareValues(h.anyTable(), h.key(), h.key(), h.key()) }

func (h *history) swapBoth(t store.Table, key store.Key, old, next []byte) {
	h.t.Helper()
	done, current, realErr := h.real.Rows.Swap(h.ctx, t, key, old, next, 0)
	wantDone, wantCurrent, modelErr := h.model.Rows.Swap(h.ctx, t, key, old, next, 0)
	h.same("swap", done, wantDone, realErr, modelErr)
	if !wantDone && (!bytes.Equal(current, wantCurrent) || (current == nil) != (wantCurrent == nil)) {
		h.t.Fatalf("swap returns %q (absent: %t), the model %q (absent: %t)", current, current == nil, wantCurrent, wantCurrent == nil)
	}
	h.compareValues(t, key)
}

func (h *history) swap() {
	key := h.key()
	old := h.oracle.rows[SwappedTable][key]
	next := h.value()
	if old != nil && draw(h, "remove", rapid.Bool()) {
		next = nil
	}
	h.swapBoth(SwappedTable, key, old, next)
}

func (h *history) swapWrong() {
	t, key, old := draw(h, "table", rapid.SampledFrom([]store.Table{SwappedTable, PlainTable})), h.key(), h.value()
	if draw(h, "absent", rapid.Bool()) {
		old = nil
	}
	h.swapBoth(t, key, old, h.value())
}

func (h *history) readRange() {
	t, from, to := h.anyTable(), h.key(), h.key()
	r := store.Range{
		Partition: from.Partition, From: from.Clustering, To: to.Clustering,
		Limit: h.number("limit", 1, 9), Reverse: draw(h, "reverse", rapid.Bool()),
	}
	real, realErr := h.real.Rows.Range(h.ctx, t, r)
	model, modelErr := h.model.Rows.Range(h.ctx, t, r)
	h.same(fmt.Sprintf("range %+v", r), fmt.Sprintf("%q", real), fmt.Sprintf("%q", model), realErr, modelErr)
}

func (h *history) append() {
	var events []mayfly.Event
	for range h.number("events", 1, 4) {
		item := h.current(h.one().Item.ID)
		e := mayfly.EventOf(item, mayfly.Verb(h.number("verb", 1, 6)))
		e.At = mayfly.Instant(h.number("at", 1, 1_000_000_000))
		events = append(events, e)
	}
	for _, e := range events {
		h.unread[e.Stream()]++
	}
	h.same("append", nil, nil, h.real.Log.Append(h.ctx, events...), h.model.Log.Append(h.ctx, events...))
}

// readAll reads both streams to the end of the history: every event of the model is
// there, and each item's events are in the model's order.
func (h *history) readAll() {
	ctx, cancel := context.WithTimeout(h.ctx, caseTimeout/6) // rapid runs this often while it shrinks a failure
	defer cancel()
	for stream, r := range h.readers {
		for h.unread[stream] > 0 {
			records, err := r.Next(ctx, 64)
			if err != nil {
				h.t.Fatalf("%d events of %s are missing: %v", h.unread[stream], stream, err)
			}
			for _, rec := range records {
				if h.known(rec.Event.ID) {
					h.read[stream] = append(h.read[stream], rec.Event)
					h.unread[stream]--
				}
			}
		}
		for _, b := range h.births {
			of := func(events []mayfly.Event) []mayfly.Event {
				return slices.DeleteFunc(slices.Clone(events), func(e mayfly.Event) bool { return e.ID != b.Item.ID })
			}
			h.same("events of an item", of(h.read[stream]), of(h.oracle.events[stream]), nil, nil)
		}
	}
}
