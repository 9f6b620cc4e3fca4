package storetest

import (
	"context"
	"runtime"
	"slices"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func brokenWriters() []breakage {
	return []breakage{
		{"commit writes the good stages of a bad batch", Writer, "a put to a swapped table leaves nothing written", func(m *Model, set *store.Set) {
			set.Writer = commitFunc(func(ctx context.Context, b *store.Batch) error {
				if err := b.Validate(); err != nil {
					_ = commitStages(ctx, m, b.Stages()[:1])
					return err
				}
				return m.Commit(ctx, b)
			})
		}},
		{"commit writes the stages backwards", Writer, "stages go down in order", func(m *Model, set *store.Set) {
			set.Writer = commitFunc(func(ctx context.Context, b *store.Batch) error {
				stages := slices.Clone(b.Stages())
				slices.Reverse(stages)
				return commitStages(ctx, m, stages)
			})
		}},
		{"commit forgets the last stage", Writer, "what is committed is visible on return", func(m *Model, set *store.Set) {
			set.Writer = commitFunc(func(ctx context.Context, b *store.Batch) error {
				stages := b.Stages()
				return commitStages(ctx, m, stages[:max(0, len(stages)-1)])
			})
		}},
		{"commit drops partitions last", Writer, "a late stage sees the partition dropped by an early one", func(m *Model, set *store.Set) {
			set.Writer = commitFunc(func(ctx context.Context, b *store.Batch) error {
				stages := slices.Clone(b.Stages())
				slices.SortStableFunc(stages, func(a, b store.Stage) int { return len(a.Drops) - len(b.Drops) })
				return commitStages(ctx, m, stages)
			})
		}},
		{"commit loses one of many", Writer, "a batch of a thousand writes is whole", func(m *Model, set *store.Set) {
			set.Writer = commitFunc(func(ctx context.Context, b *store.Batch) error {
				for i := range b.Stages() {
					if s := &b.Stages()[i]; len(s.Inserts) > 100 {
						s.Inserts = s.Inserts[1:]
					}
				}
				return m.Commit(ctx, b)
			})
		}},
	}
}

func commitStages(ctx context.Context, m *Model, stages []store.Stage) error {
	for _, s := range stages {
		var b store.Batch
		for _, w := range writesOf(s) {
			w.add(&b)
		}
		if err := m.Commit(ctx, &b); err != nil {
			return err
		}
	}
	return nil
}

// overwriting inserts births over rows that may be overwritten.
func overwriting(m *Model, may func(mayfly.Item) bool) commitFunc {
	return func(ctx context.Context, b *store.Batch) error {
		m.mu.Lock()
		for _, s := range b.Stages() {
			for _, birth := range s.Inserts {
				if row, there := m.items[birth.Item.ID]; there && may(row) {
					m.items[birth.Item.ID] = birth.Item
				}
			}
		}
		m.mu.Unlock()
		return m.Commit(ctx, b)
	}
}

func brokenBirths() []breakage {
	return []breakage{
		{"insert overwrites", Ledger, "a birth inserted again does not undo a transition", func(m *Model, set *store.Set) {
			set.Writer = overwriting(m, func(mayfly.Item) bool { return true })
		}},
		{"insert resurrects the deleted", Ledger, "a deleted row stays deleted when its birth is inserted again", func(m *Model, set *store.Set) {
			set.Writer = overwriting(m, func(i mayfly.Item) bool { return i.State == mayfly.Deleted })
		}},
		{"insert resurrects what never expires", Ledger, "an item that never expires is changed and deleted", func(m *Model, set *store.Set) {
			set.Writer = overwriting(m, func(i mayfly.Item) bool { return !i.ID.Expires() })
		}},
		{"get leaves out what is absent", Ledger, "get answers in the order asked, with absences and repeats", func(m *Model, set *store.Set) {
			inner := set.Ledger
			set.Ledger = badLedger{Ledger: inner, get: func(ctx context.Context, ids ...mayfly.ID) ([]store.Found, error) {
				found, err := inner.Get(ctx, ids...)
				return slices.DeleteFunc(found, func(f store.Found) bool { return !f.Found }), err
			}}
		}},
		{"a row forgets its run", Ledger, "every field of a row survives", func(m *Model, set *store.Set) {
			inner := set.Ledger
			set.Ledger = badLedger{Ledger: inner, get: func(ctx context.Context, ids ...mayfly.ID) ([]store.Found, error) {
				found, err := inner.Get(ctx, ids...)
				for i := range found {
					found[i].Item.Run = 0
				}
				return found, err
			}}
		}},
		{"a body goes with its deletion", Ledger, "a body outlives every transition", func(m *Model, set *store.Set) {
			inner := set.Ledger
			set.Ledger = badLedger{Ledger: inner, transition: func(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
				for _, c := range changes {
					if c.To == mayfly.Deleted {
						delete(m.bodies, c.ID)
					}
				}
				return inner.Transition(ctx, changes)
			}}
		}},
		{"remove takes what is not deleted", Ledger, "only a deleted row is removed", func(m *Model, set *store.Set) {
			set.Ledger = badLedger{Ledger: set.Ledger, remove: func(_ context.Context, ids ...mayfly.ID) error {
				for _, id := range ids {
					delete(m.items, id)
					delete(m.bodies, id)
				}
				return nil
			}}
		}},
		{"remove takes what it can of a refused call", Ledger, "a refused removal removes nothing of its call", func(m *Model, set *store.Set) {
			inner := set.Ledger
			set.Ledger = badLedger{Ledger: inner, remove: func(ctx context.Context, ids ...mayfly.ID) error {
				for _, id := range ids {
					if err := inner.Remove(ctx, id); err != nil {
						return err
					}
				}
				return nil
			}}
		}},
		{"erasing a body takes what is held", Ledger, "no body of a held row is erased, and no held row removed", func(m *Model, set *store.Set) {
			set.Ledger = badLedger{Ledger: set.Ledger, eraseBody: func(_ context.Context, ids ...mayfly.ID) error {
				for _, id := range ids {
					if m.items[id].State == mayfly.Deleted {
						delete(m.bodies, id)
					}
				}
				return nil
			}}
		}},
		{"erasing a body takes that of a live row", Ledger, "only of a deleted row the body is erased", func(m *Model, set *store.Set) {
			set.Ledger = badLedger{Ledger: set.Ledger, eraseBody: func(_ context.Context, ids ...mayfly.ID) error {
				for _, id := range ids {
					delete(m.bodies, id)
				}
				return nil
			}}
		}},
		{"erasing a body forgets the row", Ledger, "an erased body leaves the tombstone, and no birth brings it back", func(m *Model, set *store.Set) {
			inner := set.Ledger
			set.Ledger = badLedger{Ledger: inner, eraseBody: func(ctx context.Context, ids ...mayfly.ID) error {
				err := inner.EraseBody(ctx, ids...)
				for _, id := range ids {
					if err == nil {
						delete(m.items, id)
					}
				}
				return err
			}}
		}},
		{"remove takes what is held", Ledger, "no body of a held row is erased, and no held row removed", func(m *Model, set *store.Set) {
			set.Ledger = badLedger{Ledger: set.Ledger, remove: func(_ context.Context, ids ...mayfly.ID) error {
				for _, id := range ids {
					if row, there := m.items[id]; there && row.State != mayfly.Deleted {
						return mayfly.Errorf(mayfly.Conflict, "not deleted")
					}
				}
				for _, id := range ids {
					delete(m.items, id)
					delete(m.bodies, id)
				}
				return nil
			}}
		}},
		{"remove leaves the body", Ledger, "a removed row is gone with its body from every read", func(m *Model, set *store.Set) {
			set.Ledger = badLedger{Ledger: set.Ledger, remove: func(_ context.Context, ids ...mayfly.ID) error {
				for _, id := range ids {
					delete(m.items, id)
				}
				return nil
			}}
		}},
	}
}

// changing replaces the deciding of a change.
func changing(m *Model, set *store.Set, decide func(row mayfly.Item, c mayfly.Change) store.Outcome) {
	set.Ledger = badLedger{Ledger: set.Ledger, transition: func(_ context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		var out []store.Outcome
		for _, c := range changes {
			row, there := m.items[c.ID]
			if !there {
				out = append(out, store.Outcome{Result: store.Missing})
				continue
			}
			o := decide(row, c)
			if o.Result == store.Applied {
				m.items[c.ID] = o.Current
			}
			out = append(out, o)
		}
		return out, nil
	}}
}

func rightly(row mayfly.Item, c mayfly.Change) store.Outcome {
	if !c.Matches(row) {
		return store.Outcome{Result: store.Stale, Current: row}
	}
	next, err := mayfly.Advance(row, c)
	if err != nil {
		return store.Outcome{Result: store.Refused, Current: row, Err: err}
	}
	return store.Outcome{Result: store.Applied, Current: next}
}

func brokenTransitions() []breakage {
	return []breakage{
		{"a transition looks at the state only", Ledger, "the same state with an older generation is stale", func(m *Model, set *store.Set) {
			changing(m, set, func(row mayfly.Item, c mayfly.Change) store.Outcome {
				if c.From == row.State {
					c.Generation = row.Generation
				}
				return rightly(row, c)
			})
		}},
		{"a transition takes any edge", Ledger, "only edges of the life of an item are applied", func(m *Model, set *store.Set) {
			changing(m, set, func(row mayfly.Item, c mayfly.Change) store.Outcome {
				o := rightly(row, c)
				if o.Result == store.Refused {
					o.Result, o.Current.State = store.Applied, c.To
					o.Current.Generation++
				}
				return o
			})
		}},
		{"a stale change is not told the row", Ledger, "a stale change is told the current row and writes nothing", func(m *Model, set *store.Set) {
			changing(m, set, func(row mayfly.Item, c mayfly.Change) store.Outcome {
				o := rightly(row, c)
				if o.Result == store.Stale {
					o.Current = mayfly.Item{}
				}
				return o
			})
		}},
		{"expiry is a millisecond early", Ledger, "nothing expires before its deadline", func(m *Model, set *store.Set) {
			changing(m, set, func(row mayfly.Item, c mayfly.Change) store.Outcome { c.At++; return rightly(row, c) })
		}},
		{"a hold is not looked at", Ledger, "nothing scheduled deletes what is held", func(m *Model, set *store.Set) {
			changing(m, set, func(row mayfly.Item, c mayfly.Change) store.Outcome { row.Held = false; return rightly(row, c) })
		}},
		{"a generation is not raised", Ledger, "a transition is applied and read back", func(m *Model, set *store.Set) {
			changing(m, set, func(row mayfly.Item, c mayfly.Change) store.Outcome {
				o := rightly(row, c)
				o.Current.Generation = row.Generation
				return o
			})
		}},
		{"a call reads its rows once at the beginning", Ledger, "a row named twice in one call is changed in order", func(m *Model, set *store.Set) {
			inner := set.Ledger
			set.Ledger = badLedger{Ledger: inner, transition: func(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
				var out []store.Outcome
				next := map[mayfly.ID]mayfly.Item{}
				for _, c := range changes {
					o := rightly(m.items[c.ID], c)
					if o.Result == store.Applied {
						next[c.ID] = o.Current
					}
					out = append(out, o)
				}
				for id, item := range next {
					m.items[id] = item
				}
				return out, nil
			}}
		}},
		{"outcomes come in reverse", Ledger, "outcomes stand in the order of the changes, over many pigeonholes", func(m *Model, set *store.Set) {
			inner := set.Ledger
			set.Ledger = badLedger{Ledger: inner, transition: func(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
				out, err := inner.Transition(ctx, changes)
				slices.Reverse(out)
				return out, err
			}}
		}},
		{"compare and set come apart", Ledger, "of sixteen racing changes of one row exactly one is applied", func(m *Model, set *store.Set) {
			inner := set.Ledger
			set.Ledger = badLedger{Ledger: inner, transition: func(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
				found, _ := inner.Get(ctx, changes[0].ID)
				for range 1000 {
					runtime.Gosched()
				}
				o := rightly(found[0].Item, changes[0])
				if o.Result == store.Applied {
					m.mu.Lock()
					m.items[changes[0].ID] = o.Current
					m.mu.Unlock()
				}
				return []store.Outcome{o}, nil
			}}
		}},
	}
}

func brokenWalks() []breakage {
	naming := func(spoil func(l store.Ledger, ctx context.Context, shard mayfly.Shard, from mayfly.Minute) (mayfly.Minute, bool, error)) func(*Model, *store.Set) {
		return func(_ *Model, set *store.Set) {
			inner := set.Ledger
			set.Ledger = badLedger{Ledger: inner, nextMinute: func(ctx context.Context, shard mayfly.Shard, from mayfly.Minute) (mayfly.Minute, bool, error) {
				return spoil(inner, ctx, shard, from)
			}}
		}
	}
	walking := func(spoil func(store.Ledger, context.Context, store.Stretch, int) ([]mayfly.Item, error)) func(*Model, *store.Set) {
		return func(_ *Model, set *store.Set) {
			inner := set.Ledger
			set.Ledger = badLedger{Ledger: inner, walk: func(ctx context.Context, s store.Stretch, limit int) ([]mayfly.Item, error) {
				return spoil(inner, ctx, s, limit)
			}}
		}
	}
	return []breakage{
		{"a walk hands out one early", Ledger, "a walk hands out what is due at its end and nothing later", walking(
			func(l store.Ledger, ctx context.Context, s store.Stretch, limit int) ([]mayfly.Item, error) {
				s.To++
				return l.Walk(ctx, s, limit)
			})},
		{"a walk leaves out what is due just now", Ledger, "a walk hands out what is due at its end and nothing later", walking(
			func(l store.Ledger, ctx context.Context, s store.Stretch, limit int) ([]mayfly.Item, error) {
				s.To--
				return l.Walk(ctx, s, limit)
			})},
		{"a walk is in order of birth", Ledger, "a walk hands out rows in order of deadline and id", walking(
			func(l store.Ledger, ctx context.Context, s store.Stretch, limit int) ([]mayfly.Item, error) {
				items, err := l.Walk(ctx, s, limit)
				slices.SortFunc(items, func(a, b mayfly.Item) int { return a.ID.Compare(b.ID) })
				return items, err
			})},
		{"a walk leaves its position's deadline out", Ledger, "pages of a walk add up to one big read", walking(
			func(l store.Ledger, ctx context.Context, s store.Stretch, limit int) ([]mayfly.Item, error) {
				if s.After != (store.Position{}) {
					s.After.ID = mayfly.ID(slices.Repeat([]byte{0xff}, 16))
				}
				return l.Walk(ctx, s, limit)
			})},
		{"a walk repeats the row of its position", Ledger, "a walk begins after its position", walking(
			func(l store.Ledger, ctx context.Context, s store.Stretch, limit int) ([]mayfly.Item, error) {
				s.After.ID[15]--
				return l.Walk(ctx, s, limit)
			})},
		{"a walk leaves out the deleted", Ledger, "a walk hands out rows whatever their state", walking(
			func(l store.Ledger, ctx context.Context, s store.Stretch, limit int) ([]mayfly.Item, error) {
				items, err := l.Walk(ctx, s, limit)
				return slices.DeleteFunc(items, func(i mayfly.Item) bool { return i.State == mayfly.Deleted }), err
			})},
		{"a walk runs on into the next minute", Ledger, "a walk stays in its pigeonhole", walking(
			func(l store.Ledger, ctx context.Context, s store.Stretch, limit int) ([]mayfly.Item, error) {
				items, err := l.Walk(ctx, s, limit)
				s.Minute++
				more, _ := l.Walk(ctx, s, limit)
				return append(items, more...), err
			})},
		{"items that never expire lie in minute zero", Ledger, "no walk hands out an item that never expires", walking(
			func(l store.Ledger, ctx context.Context, s store.Stretch, limit int) ([]mayfly.Item, error) {
				if s.Minute == 0 {
					return l.Eternal(ctx, s.Shard, s.After.ID, limit)
				}
				return l.Walk(ctx, s, limit)
			})},
		{"items that never expire come newest first", Ledger, "items that never expire are read in order of birth", func(_ *Model, set *store.Set) {
			inner := set.Ledger
			set.Ledger = badLedger{Ledger: inner, eternal: func(ctx context.Context, shard mayfly.Shard, after mayfly.ID, limit int) ([]mayfly.Item, error) {
				items, err := inner.Eternal(ctx, shard, after, limit)
				slices.Reverse(items)
				return items, err
			}}
		}},
		{"the next minute is looked for in the next 48 hours only", Ledger, "the next minute with rows is found however far away it is", naming(
			func(l store.Ledger, ctx context.Context, shard mayfly.Shard, from mayfly.Minute) (mayfly.Minute, bool, error) {
				minute, found, err := l.NextMinute(ctx, shard, from)
				return minute, found && minute <= from+48*60, err
			})},
		{"the next minute leaves out the one that it is asked for", Ledger, "the next minute with rows is found however far away it is", naming(
			func(l store.Ledger, ctx context.Context, shard mayfly.Shard, from mayfly.Minute) (mayfly.Minute, bool, error) {
				return l.NextMinute(ctx, shard, from+1)
			})},
		{"the next minute is one of any shard", Ledger, "the next minute stays in its shard and leaves out what never expires", naming(
			func(l store.Ledger, ctx context.Context, shard mayfly.Shard, from mayfly.Minute) (first mayfly.Minute, any bool, err error) {
				for shard := range mayfly.Shard(mayfly.Shards) {
					if minute, found, _ := l.NextMinute(ctx, shard, from); found && (!any || minute < first) {
						first, any = minute, true
					}
				}
				return first, any, nil
			})},
		{"the next minute is one of an active row", Ledger, "the next minute names rows whatever their state", func(m *Model, set *store.Set) {
			set.Ledger = badLedger{Ledger: set.Ledger, nextMinute: func(_ context.Context, shard mayfly.Shard, from mayfly.Minute) (mayfly.Minute, bool, error) {
				items := (*modelLedger)(m).pick(1, walkingOrder, func(item mayfly.Item) bool {
					return item.State == mayfly.Active && item.ID.Expires() && item.ID.Shard() == shard && item.ID.Minute() >= from
				})
				if len(items) == 0 {
					return 0, false, nil
				}
				return items[0].ID.Minute(), true, nil
			}}
		}},
	}
}
