package cassandrastore

import (
	"context"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

var _ store.Writer = writer{}

// Commit implements store.Writer: one stage after the other, the writes of a stage in
// parallel.
func (s writer) Commit(ctx context.Context, b *store.Batch) error {
	if err := s.declared.CheckBatch(b); err != nil {
		return err
	}
	if err := begin(ctx); err != nil {
		return err
	}
	for n, stage := range b.Stages() {
		if err := s.stage(ctx, stage); err != nil {
			return &store.StageError{Stage: n, Err: err}
		}
	}
	return nil
}

// task is one request of a stage.
type task func(ctx context.Context) error

func side(ctx context.Context, tasks []task) error {
	return each(ctx, len(tasks), func(ctx context.Context, i int) error { return tasks[i](ctx) })
}

// stage writes one stage. The body of a birth and its entry in the index of
// minutes are written before its row: a reader of the row finds both.
func (s *Store) stage(ctx context.Context, stage store.Stage) error {
	births := map[mayfly.ID]bool{}
	var first, then []task
	var born []mayfly.Item
	for _, b := range stage.Inserts {
		if births[b.Item.ID] {
			continue
		}
		births[b.Item.ID] = true
		born = append(born, b.Item)
		first = append(first, s.bodyTask(b))
	}
	for _, part := range partition(born, func(item mayfly.Item) place { return placeOf(item.ID) }) {
		first = append(first, s.listTasks(part.hole)...)
		then = append(then, s.birthTasks(part, born)...)
	}
	then = append(then, s.plainTasks(stage)...)
	if len(stage.Events) > 0 {
		then = append(then, func(ctx context.Context) error { return s.opts.Log.Append(ctx, stage.Events...) })
	}
	if err := side(ctx, first); err != nil {
		return err
	}
	return side(ctx, then)
}

func (s *Store) bodyTask(b store.Birth) task {
	return func(ctx context.Context) error {
		err := s.query(birth, insertBody(), b.Item.ID[:], store.AppendBody(nil, b.Body)).ExecContext(ctx)
		if err != nil {
			return writeError(birth, "birth of "+b.Item.ID.String(), err)
		}
		return nil
	}
}

// birthTasks returns the requests that insert the rows of one partition, many rows in
// each.
func (s *Store) birthTasks(p part, born []mayfly.Item) []task {
	var tasks []task
	for of := p.of; len(of) > 0; {
		n := min(len(of), largestBatch)
		some := of[:n]
		of = of[n:]
		tasks = append(tasks, func(ctx context.Context) error {
			b := s.batch(birth)
			for _, i := range some {
				item := born[i]
				add(b, birth, s.forms.of(p.hole).insert,
					placeOf(item.ID).with(int8(item.State), int64(item.Generation), rowBytes(item))...)
			}
			if err := b.ExecContext(ctx); err != nil {
				return writeError(birth, "births in "+p.hole.String(), err)
			}
			return nil
		})
	}
	return tasks
}
