package walk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// watermark says how far a walk has come in a shard: everything due up to at is
// done. It is a swapped row: a walker that lost its shard cannot move it.
type watermark struct {
	at    mayfly.Instant
	value []byte // as stored; nil when there is no row yet
}

func markKey(walk string, shard mayfly.Shard) store.Key {
	return store.Key{Partition: walk, Sort: string([]byte{byte(shard)})}
}

func loadWatermark(ctx context.Context, rows store.Rows, walk string, shard mayfly.Shard, origin mayfly.Instant) (watermark, error) {
	found, err := rows.Get(ctx, store.Watermarks, markKey(walk, shard))
	if err != nil {
		return watermark{}, err
	}
	if found[0] == nil {
		return watermark{at: origin}, nil
	}
	at, err := readMark(found[0])
	return watermark{at: at, value: found[0]}, err
}

const markSize = 16

func readMark(value []byte) (mayfly.Instant, error) {
	if len(value) != markSize {
		return 0, mayfly.Errorf(mayfly.Corrupt, "a watermark of %d bytes cannot be read", len(value))
	}
	return mayfly.Instant(binary.BigEndian.Uint64(value)), nil
}

// save stores the watermark at what is done: when items were passed, or after a
// while without any.
func (w *Walker) save(ctx context.Context) error {
	idle := w.unsaved == 0 && w.done.Sub(w.mark.at) < w.o.IdleSave
	if idle || w.done <= w.mark.at {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	next := binary.BigEndian.AppendUint64(nil, uint64(w.done))
	next = binary.BigEndian.AppendUint64(next, uint64(w.run))
	key := markKey(w.walk.Name, w.shard.number)
	swapped, _, err := w.set.Rows.Swap(ctx, store.Watermarks, key, w.mark.value, next, 0)
	if err != nil {
		w.tenure = 0 // whether it was moved is not known: begin again from what is stored
		return w.failed("move the watermark", err)
	}
	if !swapped { // somebody else walks this shard, or an undo moved it back
		w.tenure = 0
		return w.failed("move the watermark", mayfly.Errorf(mayfly.Conflict, "another walker has moved it"))
	}
	w.mark = watermark{at: w.done, value: next}
	w.unsaved = 0
	return nil
}

// Shard is one shard as this process sees it: one lease, which covers all its
// walks.
type Shard struct {
	number mayfly.Shard
	origin mayfly.Instant
	mu     chan struct{} // held while the lease is asked for; a channel, so that ctx can end the wait
	lease  *store.Lease
	held   bool
	tenure uint64
}

// NewShard is shard number for holder. Before origin no item can be due.
func NewShard(rows store.Rows, number mayfly.Shard, holder string, lasts time.Duration, origin mayfly.Instant) *Shard {
	return &Shard{number: number, origin: origin, mu: make(chan struct{}, 1), lease: store.NewLease(rows, number, holder, lasts)}
}

// hold takes or keeps the lease. The tenure changes whenever it was lost in
// between.
func (s *Shard) hold(ctx context.Context, now mayfly.Instant) (tenure uint64, held bool, err error) {
	select {
	case s.mu <- struct{}{}:
		defer func() { <-s.mu }()
	case <-ctx.Done():
		return 0, false, ctx.Err()
	}
	held, err = s.lease.Hold(ctx, now)
	if held && !s.held {
		s.tenure++
	}
	s.held = held
	return s.tenure, held, err
}

// Release gives the shard up at once, so that another process need not wait for
// the lease to run out.
func (s *Shard) Release(ctx context.Context) error {
	select {
	case s.mu <- struct{}{}:
		defer func() { <-s.mu }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s.held = false
	return s.lease.Release(ctx)
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

func newRun() mayfly.Run { return mayfly.Run(rand.Uint64() | 1) }
