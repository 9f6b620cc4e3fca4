package storetest

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func draw[T any](h *history, label string, g *rapid.Generator[T]) T { return g.Draw(h.t, label) }

func (h *history) number(label string, from, to int) int {
	return draw(h, label, rapid.IntRange(from, to))
}

// newBirth returns an item of the history: in its pigeonhole or the next, or one that
// never expires.
func (h *history) newBirth() store.Birth {
	lifetimes := []mayfly.Lifetime{1, 90, 1<<10 | 90, day, 3<<10 | 100, mayfly.Never, mayfly.Never}
	lifetime := draw(h, "lifetime", rapid.SampledFrom(lifetimes))
	owner := mayfly.UserOf("random", fmt.Sprint(h.number("owner", 0, 3)))
	hole := hole{h.hole.minute + mayfly.Minute(h.number("minute", 0, 1)), (h.hole.shard + mayfly.Shard(h.number("shard", 0, 1))) % mayfly.Shards}
	var id mayfly.ID
	random := draw(h, "random", rapid.Uint64())&^0xf | uint64(hole.shard)
	if lifetime == mayfly.Never {
		id = makeID(h.eternity+mayfly.Instant(h.number("birth", 0, 3)), lifetime, owner, random)
	} else {
		offset := draw(h, "offset", rapid.SampledFrom([]int{0, 1, 2, 30_000, 59_998, 59_999}))
		birth := hole.minute.Start().Add(time.Duration(offset)*time.Millisecond - lifetime.Duration())
		id = makeID(birth, lifetime, owner, random)
	}
	b := birthOf(id, owner, uint8(h.number("media", 0, 2)))
	b.Body.Text = draw(h, "text", rapid.StringN(0, 20, -1))
	b.Item.Fate = draw(h, "fate", rapid.SampledFrom([]mayfly.Fate{mayfly.Archive, mayfly.Purge}))
	return b
}

func (h *history) commit(what string, fill func(*store.Batch)) {
	h.t.Helper()
	var real, model store.Batch
	fill(&real)
	model = real
	h.same(what, nil, nil, h.real.Writer.Commit(h.ctx, &real), h.model.Writer.Commit(h.ctx, &model))
}

func (h *history) insert() {
	var births []store.Birth
	for range h.number("births", 1, 5) {
		b := h.newBirth()
		if !h.known(b.Item.ID) {
			births, h.births = append(births, b), append(h.births, b)
		}
	}
	h.commit("insert", func(b *store.Batch) { b.Insert(births...) })
}

func (h *history) known(id mayfly.ID) bool {
	return slices.ContainsFunc(h.births, func(b store.Birth) bool { return b.Item.ID == id })
}

// one returns a birth of the history that was not removed. Ids are never reused, so
// that no contract says what an insert after a removal does.
func (h *history) one() store.Birth {
	live := slices.DeleteFunc(slices.Clone(h.births), func(b store.Birth) bool { return h.removed[b.Item.ID] })
	if len(live) == 0 {
		h.t.Skip("no items yet")
	}
	return draw(h, "item", rapid.SampledFrom(live))
}

func (h *history) insertAgain() {
	b := h.one()
	h.commit("insert again", func(batch *store.Batch) { batch.Insert(b) })
	h.compareRows(b.Item.ID)
}

func (h *history) compareRows(ids ...mayfly.ID) {
	h.t.Helper()
	real, realErr := h.real.Ledger.Get(h.ctx, ids...)
	model, modelErr := h.model.Ledger.Get(h.ctx, ids...)
	h.same("get", real, model, realErr, modelErr)
}

func (h *history) get() {
	ids := []mayfly.ID{h.one().Item.ID, h.newBirth().Item.ID}
	for range h.number("more", 0, 4) {
		ids = append(ids, draw(h, "item", rapid.SampledFrom(h.births)).Item.ID)
	}
	h.compareRows(ids...)
}

func (h *history) body() {
	ids := []mayfly.ID{h.one().Item.ID, h.newBirth().Item.ID, draw(h, "item", rapid.SampledFrom(h.births)).Item.ID}
	real, realErr := h.real.Ledger.Body(h.ctx, ids...)
	model, modelErr := h.model.Ledger.Body(h.ctx, ids...)
	h.same("body", nil, nil, realErr, modelErr)
	for i := range ids {
		if real[i].Found != model[i].Found || !sameBody(real[i].Body, model[i].Body) {
			h.t.Fatalf("body of %s\ndriver %+v\n model %+v", ids[i], real[i], model[i])
		}
	}
}

// change returns any change of the current row, allowed or not.
func (h *history) change(item mayfly.Item) mayfly.Change {
	c := step(item, mayfly.State(h.number("to", 1, 5)))
	switch h.number("variant", 0, 6) {
	case 0:
		c.At = item.ID.Deadline() - 1
	case 1:
		c.Hold, c.To, c.ServesUntil = mayfly.SetHold, item.State, 0
	case 2:
		c.Hold = mayfly.ReleaseHold
	case 3:
		c.Cause = mayfly.ByAccount
	}
	return c
}

func (h *history) current(id mayfly.ID) mayfly.Item { return h.oracle.items[id] }

func (h *history) changeBoth(changes ...mayfly.Change) {
	h.t.Helper()
	real, realErr := h.real.Ledger.Transition(h.ctx, changes)
	model, modelErr := h.model.Ledger.Transition(h.ctx, changes)
	strip := func(out []store.Outcome) []store.Outcome { // messages may differ, but not kinds
		for i := range out {
			if out[i].Err != nil {
				out[i].Err = kindOf(out[i].Err)
			}
		}
		return out
	}
	h.same("transition", strip(real), strip(model), realErr, modelErr)
	for _, c := range changes {
		h.compareRows(c.ID)
	}
}

func (h *history) transition() {
	item := h.current(h.one().Item.ID)
	h.changeBoth(h.change(item))
}

func (h *history) transitionStale() {
	b := h.one()
	c := h.change(h.current(b.Item.ID))
	switch h.number("stale", 0, 2) {
	case 0:
		c.Generation++
	case 1:
		c.Generation--
	case 2:
		c.From = c.From%5 + 1
	}
	h.changeBoth(c)
}

func (h *history) transitionSeveral() {
	var changes []mayfly.Change
	rows := map[mayfly.ID]mayfly.Item{}
	for range h.number("changes", 2, 6) {
		id := h.one().Item.ID
		row, named := rows[id]
		if !named {
			row = h.current(id)
		}
		c := h.change(row)
		if next, err := mayfly.Advance(row, c); err == nil && draw(h, "follow", rapid.Bool()) {
			rows[id] = next // the next change of the row follows this one
		}
		changes = append(changes, c)
	}
	h.changeBoth(changes...)
}

func (h *history) transitionMissing() {
	h.changeBoth(step(h.newBirth().Item, mayfly.Deleted))
}

func (h *history) remove() {
	var ids []mayfly.ID
	for range h.number("items", 1, 3) {
		id := h.one().Item.ID
		if row := h.current(id); row.State != mayfly.Deleted && draw(h, "delete first", rapid.Bool()) {
			h.changeBoth(step(row, mayfly.Deleted))
		}
		ids = append(ids, id)
	}
	if draw(h, "only the bodies", rapid.Bool()) {
		realErr, modelErr := h.real.Ledger.EraseBody(h.ctx, ids...), h.model.Ledger.EraseBody(h.ctx, ids...)
		h.same("erase bodies", nil, nil, realErr, modelErr)
		h.compareRows(ids...)
		return
	}
	realErr, modelErr := h.real.Ledger.Remove(h.ctx, ids...), h.model.Ledger.Remove(h.ctx, ids...)
	h.same("remove", nil, nil, realErr, modelErr)
	for _, id := range ids {
		h.removed[id] = modelErr == nil
	}
	h.compareRows(ids...)
}

func (h *history) stretch() store.Stretch {
	s := store.Stretch{
		Minute: h.hole.minute + mayfly.Minute(h.number("minute", 0, 2)),
		Shard:  (h.hole.shard + mayfly.Shard(h.number("shard", 0, 1))) % mayfly.Shards,
	}
	s.To = s.Minute.Start() + mayfly.Instant(draw(h, "to", rapid.SampledFrom([]int{-1, 0, 1, 2, 29_999, 30_000, 59_998, 59_999, 120_000})))
	if len(h.births) > 0 && draw(h, "after", rapid.Bool()) {
		if after := draw(h, "item", rapid.SampledFrom(h.births)).Item; after.ID.Minute() == s.Minute {
			s.After = store.PositionOf(after)
		}
	}
	return s
}

func (h *history) walk() {
	s, limit := h.stretch(), h.number("limit", 1, 12)
	real, realErr := h.real.Ledger.Walk(h.ctx, s, limit)
	model, modelErr := h.model.Ledger.Walk(h.ctx, s, limit)
	h.same(fmt.Sprintf("walk %+v", s), real, model, realErr, modelErr)
}

func (h *history) walkPages() {
	s, limit := h.stretch(), h.number("limit", 1, 3)
	want, err := h.model.Ledger.Walk(h.ctx, s, 1000)
	h.same("walk", nil, nil, err, nil)
	var paged []mayfly.Item
	for len(paged) <= len(want) {
		page, err := h.real.Ledger.Walk(h.ctx, s, limit)
		h.same("walk", nil, nil, err, nil)
		if len(page) == 0 {
			break
		}
		paged = append(paged, page...)
		s.After = store.PositionOf(page[len(page)-1])
	}
	if !slices.Equal(paged, want) {
		h.t.Fatalf("pages of %d\ndriver %s\n model %s", limit, brief(paged), brief(want))
	}
}

func (h *history) eternal() {
	shard := (h.hole.shard + mayfly.Shard(h.number("shard", 0, 1))) % mayfly.Shards
	after := makeID(h.eternity-1+mayfly.Instant(h.number("after", 0, 4)), mayfly.Never, mayfly.UserID{}, 1<<51)
	limit := h.number("limit", 1, 6)
	real, realErr := h.real.Ledger.Eternal(h.ctx, shard, after, limit)
	model, modelErr := h.model.Ledger.Eternal(h.ctx, shard, after, limit)
	// In a shared store, items of others may follow.
	real = slices.DeleteFunc(real, func(i mayfly.Item) bool { return !h.known(i.ID) })
	h.same("eternal", real, model, realErr, modelErr)
}
