package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Prefix returns a set that keeps exactly what the contracts promise and no more. As
// the plan says, a Commit stops after some stages with any subset of the next, a
// Transition, Swap or Append is in doubt, and writes that a failed call did not do are
// done later, when the test says so. Code that passes its tests on the embedded store
// with Prefix has also met the failures of a cluster.
func Prefix(set store.Set, plan Plan) (store.Set, *LateWrites) {
	l := &LateWrites{real: set, plan: plan}
	set.Writer, set.Ledger = prefixWriter{l}, prefixLedger{l}
	set.Rows, set.Log = prefixRows{l}, prefixLog{l}
	return set, l
}

type prefixWriter struct{ l *LateWrites }

// write is one write of a stage; add adds it to a batch.
type write struct {
	what string
	add  func(*store.Batch)
}

func writesOf(s store.Stage) []write {
	var all []write
	for _, x := range s.Inserts {
		all = append(all, write{"insert " + x.Item.ID.String(), func(b *store.Batch) { b.Insert(x) }})
	}
	for _, x := range s.Puts {
		all = append(all, write{fmt.Sprintf("put %s %q", x.Table, x.Key), func(b *store.Batch) { b.Put(x.Table, x.Key, x.Value, x.ReclaimAt) }})
	}
	for _, x := range s.Deletes {
		all = append(all, write{fmt.Sprintf("delete %s %q", x.Table, x.Key), func(b *store.Batch) { b.Delete(x.Table, x.Key) }})
	}
	for _, x := range s.Drops {
		all = append(all, write{fmt.Sprintf("drop %s %q", x.Table, x.Partition), func(b *store.Batch) { b.DeletePartition(x.Table, x.Partition) }})
	}
	for _, x := range s.Events {
		all = append(all, write{fmt.Sprintf("append %s %s", x.Type(), x.ID), func(b *store.Batch) { b.Append(x) }})
	}
	return all
}

// Commit does as many stages as the plan says.
func (w prefixWriter) Commit(ctx context.Context, b *store.Batch) error {
	if err := b.Validate(); err != nil {
		return err // an invalid batch writes nothing that could be stopped
	}
	var sizes []int
	var stages [][]write
	for _, s := range b.Stages() {
		stages = append(stages, writesOf(s))
		sizes = append(sizes, len(stages[len(stages)-1]))
	}
	f, err := w.l.count(Commit, sizes...)
	if err != nil {
		return err
	}
	if !f.Fails {
		return w.l.real.Writer.Commit(ctx, b)
	}
	var done store.Batch
	for _, s := range stages[:min(f.Stage, len(stages))] {
		for _, x := range s {
			x.add(&done)
		}
		done.Then()
	}
	var unwritten []write
	if f.Stage < len(stages) {
		for i, x := range stages[f.Stage] {
			if f.writes(i) {
				x.add(&done)
			} else {
				unwritten = append(unwritten, x)
			}
		}
	}
	if err := w.l.real.Writer.Commit(ctx, &done); err != nil {
		return err
	}
	for _, x := range unwritten {
		w.l.keep(x.what, func(ctx context.Context) error {
			var late store.Batch
			x.add(&late)
			return w.l.real.Writer.Commit(ctx, &late)
		})
	}
	if f.Silent || f.Stage >= len(stages) {
		return f.err(Commit)
	}
	return &store.StageError{Stage: f.Stage, Err: f.err(Commit)}
}

// whileAlive calls read unless the process is halted.
func whileAlive[T any](l *LateWrites, read func() (T, error)) (T, error) {
	if err := l.alive(); err != nil {
		var none T
		return none, err
	}
	return read()
}

type prefixLedger struct{ l *LateWrites }

func (p prefixLedger) Get(ctx context.Context, ids ...mayfly.ID) ([]store.Found, error) {
	return whileAlive(p.l, func() ([]store.Found, error) { return p.l.real.Ledger.Get(ctx, ids...) })
}

func (p prefixLedger) Body(ctx context.Context, ids ...mayfly.ID) ([]store.FoundBody, error) {
	return whileAlive(p.l, func() ([]store.FoundBody, error) { return p.l.real.Ledger.Body(ctx, ids...) })
}

// Transition applies the changes that the plan lets through. The others are in doubt,
// and are applied later if their row is still the one that they expect.
func (p prefixLedger) Transition(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
	f, err := p.l.count(Transition, len(changes))
	if err != nil {
		return nil, err
	}
	if !f.Fails {
		return p.l.real.Ledger.Transition(ctx, changes)
	}
	var through []mayfly.Change
	var at []int
	for i, c := range changes {
		if f.Stage > 0 || f.writes(i) {
			through, at = append(through, c), append(at, i)
			continue
		}
		p.l.keep(fmt.Sprintf("transition %s %s → %s", c.ID, c.From, c.To), func(ctx context.Context) error {
			_, err := p.l.real.Ledger.Transition(ctx, []mayfly.Change{c})
			return err
		})
	}
	applied, err := p.l.real.Ledger.Transition(ctx, through)
	if err != nil {
		return nil, err
	}
	if f.Silent {
		return nil, f.err(Transition)
	}
	out := make([]store.Outcome, len(changes))
	for i := range out {
		out[i].Result = store.InDoubt
	}
	if f.Stage == 0 { // otherwise all changes are applied and all are in doubt
		for i, o := range applied {
			out[at[i]] = o
		}
	}
	return out, nil
}

func (p prefixLedger) Walk(ctx context.Context, s store.Stretch, limit int) ([]mayfly.Item, error) {
	return whileAlive(p.l, func() ([]mayfly.Item, error) { return p.l.real.Ledger.Walk(ctx, s, limit) })
}

func (p prefixLedger) Eternal(ctx context.Context, shard mayfly.Shard, after mayfly.ID, limit int) ([]mayfly.Item, error) {
	return whileAlive(p.l, func() ([]mayfly.Item, error) { return p.l.real.Ledger.Eternal(ctx, shard, after, limit) })
}

func (p prefixLedger) NextMinute(ctx context.Context, shard mayfly.Shard, from mayfly.Minute) (mayfly.Minute, bool, error) {
	if err := p.l.alive(); err != nil {
		return 0, false, err
	}
	return p.l.real.Ledger.NextMinute(ctx, shard, from)
}

func (p prefixLedger) EraseBody(ctx context.Context, ids ...mayfly.ID) error {
	if err := p.l.alive(); err != nil {
		return err
	}
	return p.l.real.Ledger.EraseBody(ctx, ids...)
}

func (p prefixLedger) Remove(ctx context.Context, ids ...mayfly.ID) error {
	if err := p.l.alive(); err != nil {
		return err
	}
	return p.l.real.Ledger.Remove(ctx, ids...)
}

type prefixRows struct{ l *LateWrites }

func (p prefixRows) Tables() []store.Table { return p.l.real.Rows.Tables() }

func (p prefixRows) Get(ctx context.Context, t store.Table, keys ...store.Key) ([][]byte, error) {
	return whileAlive(p.l, func() ([][]byte, error) { return p.l.real.Rows.Get(ctx, t, keys...) })
}

func (p prefixRows) Range(ctx context.Context, t store.Table, r store.Range) ([]store.Row, error) {
	return whileAlive(p.l, func() ([]store.Row, error) { return p.l.real.Rows.Range(ctx, t, r) })
}

func (p prefixRows) Partitions(ctx context.Context, t store.Table, cursor string, limit int) (partitions []string, next string, err error) {
	if err := p.l.alive(); err != nil {
		return nil, "", err
	}
	return p.l.real.Rows.Partitions(ctx, t, cursor, limit)
}

func (p prefixRows) Ranges(ctx context.Context, t store.Table, all ...store.Range) ([][]store.Row, error) {
	return store.EachRange(ctx, p.Range, t, all)
}

// Swap is done, or is done later if the row still has the old value. A swap that is
// Unavailable is never done.
func (p prefixRows) Swap(ctx context.Context, t store.Table, key store.Key, old, next []byte, reclaimAt mayfly.Instant) (bool, []byte, error) {
	f, err := p.l.count(Swap, 1)
	if err != nil {
		return false, nil, err
	}
	swap := func(ctx context.Context) (bool, []byte, error) {
		return p.l.real.Rows.Swap(ctx, t, key, old, next, reclaimAt)
	}
	switch {
	case !f.Fails:
		return swap(ctx)
	case f.Kind == mayfly.Unavailable:
	case f.Stage > 0 || f.writes(0):
		if _, _, err := swap(ctx); err != nil {
			return false, nil, err
		}
	default:
		p.l.keep(fmt.Sprintf("swap %s %q", t, key), func(ctx context.Context) error {
			_, _, err := swap(ctx)
			return err
		})
	}
	return false, nil, f.err(Swap)
}

type prefixLog struct{ l *LateWrites }

// Append appends a subset; the others are appended later.
func (p prefixLog) Append(ctx context.Context, events ...mayfly.Event) error {
	f, err := p.l.count(Append, len(events))
	if err != nil {
		return err
	}
	if !f.Fails {
		return p.l.real.Log.Append(ctx, events...)
	}
	var through []mayfly.Event
	for i, e := range events {
		if f.Stage > 0 || f.writes(i) {
			through = append(through, e)
			continue
		}
		p.l.keep(fmt.Sprintf("append %s %s", e.Type(), e.ID), func(ctx context.Context) error { return p.l.real.Log.Append(ctx, e) })
	}
	if err := p.l.real.Log.Append(ctx, through...); err != nil {
		return err
	}
	return f.err(Append)
}

func (p prefixLog) Reader(ctx context.Context, stream mayfly.Stream, group string) (store.Reader, error) {
	return whileAlive(p.l, func() (store.Reader, error) { return p.l.real.Log.Reader(ctx, stream, group) })
}

func (p prefixLog) Trim(ctx context.Context, now mayfly.Instant, keep time.Duration) error {
	if err := p.l.alive(); err != nil {
		return err
	}
	return p.l.real.Log.Trim(ctx, now, keep)
}
