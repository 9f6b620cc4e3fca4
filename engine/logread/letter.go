package logread

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Letter is a dead letter: an event whose handler has failed as often as its
// budget allows. The event's effect is missing until Retry brings it about.
type Letter struct {
	Group    string
	Event    mayfly.Event
	Since    mayfly.Instant // when it was given up
	Attempts int
	Reason   string // the last error
}

const letterFormat = 1

// maxReason bounds the stored text of an error.
const maxReason = 1 << 10

func letterKey(group string, e mayfly.Event) store.Key {
	subject := e.Subject()
	clustering := append(subject[:], byte(e.Product), byte(e.Verb))
	return store.Key{Partition: group, Clustering: string(binary.BigEndian.AppendUint32(clustering, uint32(e.Generation)))}
}

func (l Letter) bytes() []byte {
	b := binary.BigEndian.AppendUint64([]byte{letterFormat}, uint64(l.Since))
	b = binary.AppendUvarint(b, uint64(l.Attempts))
	b = store.AppendEvent(b, l.Event)
	return append(b, l.Reason[:min(len(l.Reason), maxReason)]...)
}

func readLetter(group string, b []byte) (Letter, error) {
	corrupt := mayfly.Errorf(mayfly.Corrupt, "a dead letter of group %s cannot be read", group)
	if len(b) < 9 || b[0] != letterFormat {
		return Letter{}, corrupt
	}
	l := Letter{Group: group, Since: mayfly.Instant(binary.BigEndian.Uint64(b[1:]))}
	attempts, n := binary.Uvarint(b[9:])
	if n <= 0 || len(b) < 9+n+store.EventSize {
		return Letter{}, corrupt
	}
	rest := b[9+n:]
	event, err := store.ReadEvent(rest[:store.EventSize])
	if err != nil {
		return Letter{}, errors.Join(corrupt, err)
	}
	l.Attempts, l.Event, l.Reason = int(attempts), event, string(rest[store.EventSize:])
	return l, nil
}

// bury keeps a letter. An older one of the same event is replaced.
func (r *Reader) bury(ctx context.Context, l Letter) error {
	value := l.bytes()
	_, err := store.UpdateFrom(ctx, r.set.Rows, DeadEvents, letterKey(l.Group, l.Event), nil, l.Since.Add(r.o.Kept), func([]byte) ([]byte, error) { return value, nil })
	if err != nil {
		return fmt.Errorf("keep %s as a dead letter: %w", l.Event.Type(), err)
	}
	return nil
}

// Letters returns the dead letters of a group in the order of their keys, after
// the given one (the zero Letter: from the first), at most limit.
func Letters(ctx context.Context, rows store.Rows, group string, after Letter, limit int) ([]Letter, error) {
	r := store.Range{Partition: group, Limit: limit}
	if after.Event.Verb != 0 {
		r.From = letterKey(group, after.Event).Clustering + "\x00"
	}
	found, err := rows.Range(ctx, DeadEvents, r)
	if err != nil {
		return nil, fmt.Errorf("dead letters of group %s: %w", group, err)
	}
	all := make([]Letter, len(found))
	for i, row := range found {
		if all[i], err = readLetter(group, row.Value); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Retry calls the handler once more for a dead letter and forgets the letter when
// the handler succeeds.
func (r *Reader) Retry(ctx context.Context, l Letter) error {
	if err := r.o.Handle(ctx, l.Event); err != nil {
		return fmt.Errorf("retry %s: %w", l.Event.Type(), err)
	}
	swapped, _, err := r.set.Rows.Swap(ctx, DeadEvents, letterKey(r.o.Group, l.Event), l.bytes(), nil, 0)
	if err != nil {
		return fmt.Errorf("retry %s: forget the dead letter: %w", l.Event.Type(), err)
	}
	if !swapped {
		return mayfly.Errorf(mayfly.Conflict, "retry %s: the dead letter has changed meanwhile", l.Event.Type())
	}
	return nil
}
