package remind

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Dead is a dead letter: a step that was given up after its last try. The item
// itself is as the last successful step left it.
type Dead struct {
	ID      mayfly.ID
	Step    Step
	Since   mayfly.Instant // when it was given up
	Reason  string         // why the step was to be done
	Tries   uint32
	History []Try
}

func deadKey(id mayfly.ID, step Step) store.Key {
	return store.Key{Partition: string([]byte{byte(id.Shard())}), Clustering: string(append(id[:], byte(step)))}
}

// bury makes a dead letter of the reminder. It replaces an older one of the same step.
func bury(ctx context.Context, rows store.Rows, r Reminder, now mayfly.Instant) error {
	value := binary.BigEndian.AppendUint64([]byte{format}, uint64(now))
	value = appendNote(value, r.Reason, r.Tries, r.History)
	key := deadKey(r.ID, r.Step)
	if _, err := store.UpdateFrom(ctx, rows, DeadTable, key, nil, 0, func([]byte) ([]byte, error) { return value, nil }); err != nil {
		return fmt.Errorf("write dead letter %s of %s: %w", r.Step, r.ID, err)
	}
	return nil
}

// DeadLetters reads dead letters of one shard in order of id, after the given
// one (zero: from the beginning), at most limit.
func DeadLetters(ctx context.Context, rows store.Rows, shard mayfly.Shard, after Dead, limit int) ([]Dead, error) {
	r := store.Range{Partition: string([]byte{byte(shard)}), Limit: limit}
	if !after.ID.IsZero() {
		r.From = deadKey(after.ID, after.Step).Clustering + "\x00"
	}
	found, err := rows.Range(ctx, DeadTable, r)
	if err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	all := make([]Dead, 0, len(found))
	for _, row := range found {
		d, err := readDead(row.Clustering, row.Value)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// DeadLetter returns the dead letter of a step of an item. Errors: NotFound.
func DeadLetter(ctx context.Context, rows store.Rows, id mayfly.ID, step Step) (Dead, error) {
	value, err := deadValue(ctx, rows, id, step)
	if err != nil {
		return Dead{}, err
	}
	return readDead(deadKey(id, step).Clustering, value)
}

func deadValue(ctx context.Context, rows store.Rows, id mayfly.ID, step Step) ([]byte, error) {
	found, err := rows.Get(ctx, DeadTable, deadKey(id, step))
	if err != nil {
		return nil, fmt.Errorf("dead letter %s of %s: %w", step, id, err)
	}
	if found[0] == nil {
		return nil, mayfly.Errorf(mayfly.NotFound, "no dead letter for step %s of %s", step, id)
	}
	return found[0], nil
}

// Retry turns a dead letter into a reminder that is due at due, with no failed tries.
// Errors: NotFound, Conflict (the step was given up again meanwhile).
func Retry(ctx context.Context, set store.Set, id mayfly.ID, step Step, due mayfly.Instant) error {
	value, err := deadValue(ctx, set.Rows, id, step)
	if err != nil {
		return err
	}
	d, err := readDead(deadKey(id, step).Clustering, value)
	if err != nil {
		return err
	}
	var b store.Batch
	Write(&b, Reminder{Due: due, ID: id, Step: step, Reason: d.Reason})
	if err := set.Writer.Commit(ctx, &b); err != nil {
		return fmt.Errorf("retry %s of %s: %w", step, id, err)
	}
	return unbury(ctx, set.Rows, id, step, value)
}

// Drop removes a dead letter; its step is never done. Errors: NotFound, Conflict.
func Drop(ctx context.Context, rows store.Rows, id mayfly.ID, step Step) error {
	value, err := deadValue(ctx, rows, id, step)
	if err != nil {
		return err
	}
	return unbury(ctx, rows, id, step, value)
}

func unbury(ctx context.Context, rows store.Rows, id mayfly.ID, step Step, value []byte) error {
	if err := store.Replace(ctx, rows, DeadTable, deadKey(id, step), value, nil, 0); err != nil {
		return fmt.Errorf("remove dead letter %s of %s: %w", step, id, err)
	}
	return nil
}

func readDead(sort string, value []byte) (Dead, error) {
	if len(sort) != 17 || len(value) < 9 || value[0] != format {
		return Dead{}, mayfly.Errorf(mayfly.Corrupt, "dead letter with key %x has an unknown format", sort)
	}
	d := Dead{ID: mayfly.ID([]byte(sort[:16])), Step: Step(sort[16]), Since: mayfly.Instant(binary.BigEndian.Uint64(value[1:]))}
	var err error
	if d.Reason, d.Tries, d.History, err = readNote(value[9:]); err != nil {
		return Dead{}, fmt.Errorf("dead letter %s of %s: %w", d.Step, d.ID, err)
	}
	return d, nil
}
