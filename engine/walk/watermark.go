package walk

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Watermark is how far a walk has come in a shard: everything due up to At is done.
// It changes by compare-and-set, so that a walker that lost its shard cannot move it.
type Watermark struct {
	At    mayfly.Instant
	key   store.Key
	value []byte // as stored; nil when there is no row yet
}

func markKey(walk string, shard mayfly.Shard) store.Key {
	return store.Key{Partition: walk, Clustering: string([]byte{byte(shard)})}
}

// LoadWatermark reads how far the walk called name has come in shard. A walk that has
// not begun is at the origin.
func LoadWatermark(ctx context.Context, rows store.Rows, name string, shard *Shard) (Watermark, error) {
	key := markKey(name, shard.number)
	found, err := rows.Get(ctx, Watermarks, key)
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
		return 0, mayfly.Errorf(mayfly.Corrupt, "watermark of %d bytes has an unknown format", len(value))
	}
	return mayfly.Instant(binary.BigEndian.Uint64(value)), nil
}

// Move moves the watermark from where it was loaded or last moved: forward by the
// walk, back by an undo. After an error it has to be loaded again. Errors: those of
// Rows, and Conflict if another process has moved it.
func (m *Watermark) Move(ctx context.Context, rows store.Rows, to mayfly.Instant, run mayfly.Run) error {
	next := binary.BigEndian.AppendUint64(nil, uint64(to))
	next = binary.BigEndian.AppendUint64(next, uint64(run))
	swapped, _, err := rows.Swap(ctx, Watermarks, m.key, m.value, next, 0)
	if err != nil {
		return err
	}
	if !swapped {
		return mayfly.Errorf(mayfly.Conflict, "another process has moved the watermark")
	}
	m.At, m.value = to, next
	return nil
}

// save stores the watermark when items were passed, or when it has not been stored
// for IdleSave.
func (w *Walker) save(ctx context.Context) error {
	idle := w.unsaved == 0 && w.done.Sub(w.mark.At) < w.o.IdleSave
	if idle || w.done <= w.mark.At {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	if err := w.mark.Move(ctx, w.set.Rows, w.done, w.run); err != nil {
		w.tenure = 0 // another process walks this shard, an undo moved it back, or the outcome is not known
		w.shard.forget(w.walk.Name)
		return w.failed("move the watermark", err)
	}
	w.unsaved = 0
	w.shard.saved(w.tenure, w.walk.Name, w.mark.At)
	return nil
}

// Origin returns the instant before which no item of this store can be due: a minute
// before the first node started on it. A walk without a watermark begins there.
func Origin(ctx context.Context, rows store.Rows, now mayfly.Instant) (mayfly.Instant, error) {
	key := store.Key{Partition: "origin"}
	value := binary.BigEndian.AppendUint64(nil, uint64(now.Add(-time.Minute)))
	value = binary.BigEndian.AppendUint64(value, 0)
	current, err := store.Update(ctx, rows, Watermarks, key, 0, func(old []byte) ([]byte, error) {
		if old != nil {
			return old, nil
		}
		return value, nil
	})
	if err != nil {
		return 0, fmt.Errorf("origin of the walks: %w", err)
	}
	return readMark(current)
}
