package walk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Watermark says how far a walk has come in a shard: everything due up to At is
// done. It is a swapped row: a walker that lost its shard cannot move it.
type Watermark struct {
	At    mayfly.Instant
	key   store.Key
	value []byte // as stored; nil when there is no row yet
}

func markKey(walk string, shard mayfly.Shard) store.Key {
	return store.Key{Partition: walk, Clustering: string([]byte{byte(shard)})}
}

// LoadWatermark reads how far the walk called name has come in shard: to the
// origin if it has not begun.
func LoadWatermark(ctx context.Context, rows store.Rows, name string, shard *Shard) (Watermark, error) {
	key := markKey(name, shard.number)
	found, err := rows.Get(ctx, store.Watermarks, key)
	if err != nil {
		return Watermark{}, err
	}
	if found[0] == nil {
		return Watermark{At: shard.origin, key: key}, nil
	}
	at, err := readMark(found[0])
	return Watermark{At: at, key: key, value: found[0]}, err
}

const markSize = 16

func readMark(value []byte) (mayfly.Instant, error) {
	if len(value) != markSize {
		return 0, mayfly.Errorf(mayfly.Corrupt, "a watermark of %d bytes cannot be read", len(value))
	}
	return mayfly.Instant(binary.BigEndian.Uint64(value)), nil
}

// Move moves the watermark from where it was loaded or last moved, forward by the
// walk, back by an undo. Conflict: somebody else has moved it. After any error
// it has to be loaded again.
func (m *Watermark) Move(ctx context.Context, rows store.Rows, to mayfly.Instant, run mayfly.Run) error {
	next := binary.BigEndian.AppendUint64(nil, uint64(to))
	next = binary.BigEndian.AppendUint64(next, uint64(run))
	swapped, _, err := rows.Swap(ctx, store.Watermarks, m.key, m.value, next, 0)
	if err != nil {
		return err
	}
	if !swapped {
		return mayfly.Errorf(mayfly.Conflict, "another walker has moved the watermark")
	}
	m.At, m.value = to, next
	return nil
}

// save stores the watermark at what is done: when items were passed, or after a
// while without any.
func (w *Walker) save(ctx context.Context) error {
	idle := w.unsaved == 0 && w.done.Sub(w.mark.At) < w.o.IdleSave
	if idle || w.done <= w.mark.At {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	if err := w.mark.Move(ctx, w.set.Rows, w.done, w.run); err != nil {
		w.tenure = 0 // somebody else walks this shard, an undo moved it back, or it is not known
		w.shard.forget(w.walk.Name)
		return w.failed("move the watermark", err)
	}
	w.unsaved = 0
	w.shard.saved(w.tenure, w.walk.Name, w.mark.At)
	return nil
}

// Origin is the instant before which no item of this store can be due: a minute
// before the first node on it started. A walk that has no watermark yet begins
// there.
func Origin(ctx context.Context, rows store.Rows, now mayfly.Instant) (mayfly.Instant, error) {
	key := store.Key{Partition: "origin"}
	value := binary.BigEndian.AppendUint64(nil, uint64(now.Add(-time.Minute)))
	value = binary.BigEndian.AppendUint64(value, 0)
	_, current, err := rows.Swap(ctx, store.Watermarks, key, nil, value, 0)
	if errors.Is(err, mayfly.Unknown) {
		var found [][]byte
		if found, err = rows.Get(ctx, store.Watermarks, key); err == nil && found[0] != nil {
			current = found[0]
		} else if err == nil {
			err = mayfly.Errorf(mayfly.Unavailable, "the origin could not be written")
		}
	}
	if err != nil {
		return 0, fmt.Errorf("origin of the walks: %w", err)
	}
	if current == nil {
		current = value
	}
	return readMark(current)
}
