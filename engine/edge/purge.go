package edge

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// Unverified holds the purges that the edge has not been seen to have done, by the
// instant at which it is asked again. Its rows are never deleted one by one, because
// each would be a tombstone that the next read goes over: a row that was handled is
// written over, and a slice of time is dropped when the watermark has left it.
var Unverified = store.DeclareTable(store.Declaration{
	Name: "edge_purges", Number: 30, Purpose: "slice of time → purges of the edge that are not verified, by instant: event, attempts, last error",
	Mode: store.Plain, Erasure: store.Kept, TimeToLive: kept,
})

// kept is how long an unverified purge is kept: far longer than anything is cached.
const kept = 7 * 24 * time.Hour

// Tables returns the tables that this package declares.
func Tables() []store.Table { return []store.Table{Unverified} }

const (
	// slice is how much time a partition holds. No purge waits longer than that.
	slice = 10 * time.Minute
	// behind is how far the watermark stays behind now, because a slow write may still
	// land there. A write that took half of it is made again.
	behind = 15 * time.Second
)

func sliceOf(at mayfly.Instant) uint64 { return uint64(at) / uint64(slice.Milliseconds()) }

func partitionOf(slice uint64) string { return string(binary.BigEndian.AppendUint64(nil, slice)) }

func instantKey(at mayfly.Instant) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(at)))
}

// loadMark returns the watermark: every purge that was due up to there is handled.
// Without one it begins at the age at which an event needs no purge.
func loadMark(ctx context.Context, rows store.Rows, now mayfly.Instant) (walk.Watermark, error) {
	// Of the shard only the watermark is used.
	shard := walk.NewShard(rows, 0, "edge", time.Second, max(0, now.Add(-forgotten)))
	mark, err := walk.LoadWatermark(ctx, rows, Unverified.String(), shard)
	if err != nil {
		return mark, fmt.Errorf("load the watermark of purges: %w", err)
	}
	return mark, nil
}

// Purge is a purge that is not verified: of the item or the user that Event is
// about. Without a verb it is that of a user whose items' visibility has changed.
type Purge struct {
	Event  mayfly.Event
	Since  mayfly.Instant // when it was first asked for
	Next   mayfly.Instant // when the edge is asked again
	Tries  int
	Reason string // why the last try did not verify it; empty: it was too early to tell

	handled bool // it is verified, or was written again for later
}

// Key returns the surrogate key that is purged.
func (p Purge) Key() string {
	if p.Event.ID.IsZero() {
		return OwnerKey(p.Event.Owner)
	}
	return ItemKey(p.Event.ID)
}

// after returns when the edge is asked again after now: a second after Since, and then
// at pauses that double up to longest. It depends on Since only, so that a
// purge that is handled twice is written once for later.
func (p Purge) after(now mayfly.Instant, longest time.Duration) mayfly.Instant {
	at, pause := p.Since.Add(soon), soon
	for at <= now && pause < longest {
		at, pause = at.Add(pause), min(2*pause, longest)
	}
	if at <= now {
		at = at.Add((now.Sub(at)/longest + 1) * longest)
	}
	return at
}

const (
	format    = 2
	handled   = 3   // the format of a row that was handled
	maxReason = 256 // bytes kept of a reason
	keySize   = 8 + 16 + store.EventSize
)

func (p Purge) key() store.Key {
	subject := p.Event.Subject()
	sort := append([]byte(instantKey(p.Next)), subject[:]...)
	return store.Key{Partition: partitionOf(sliceOf(p.Next)), Clustering: string(store.AppendEvent(sort, p.Event))}
}

func (p Purge) write(b *store.Batch) {
	value := binary.BigEndian.AppendUint64([]byte{format}, uint64(p.Since))
	value = binary.AppendUvarint(value, uint64(p.Tries))
	b.Put(Unverified, p.key(), append(value, p.Reason[:min(len(p.Reason), maxReason)]...), p.Next.Add(kept))
}

// pass writes that the purge was handled.
func (p Purge) pass(b *store.Batch) {
	b.Put(Unverified, p.key(), []byte{handled}, p.Next.Add(kept))
}

func read(row store.Row) (p Purge, err error) {
	corrupt := mayfly.Errorf(mayfly.Corrupt, "a purge of %d bytes cannot be read", len(row.Value))
	v := row.Value
	if len(row.Clustering) != keySize || len(v) == 0 {
		return p, corrupt
	}
	p.Next = mayfly.Instant(binary.BigEndian.Uint64([]byte(row.Clustering[:8])))
	if p.Event, err = store.ReadEvent([]byte(row.Clustering[8+16:])); err != nil {
		return p, err
	}
	if v[0] == handled {
		p.handled = true
		return p, nil
	}
	if v[0] != format || len(v) < 10 {
		return p, corrupt
	}
	p.Since = mayfly.Instant(binary.BigEndian.Uint64(v[1:]))
	tries, n := binary.Uvarint(v[9:])
	if n <= 0 {
		return p, corrupt
	}
	p.Tries, p.Reason = int(tries), string(v[9+n:])
	return p, nil
}

// List returns the purges that are not verified at now, those that are due first in
// front, behind the place that a Purge returned.
func List(ctx context.Context, rows store.Rows, now mayfly.Instant, after string) iter.Seq2[Purge, error] {
	return func(yield func(Purge, error) bool) {
		mark, err := loadMark(ctx, rows, now)
		if err != nil {
			yield(Purge{}, err)
			return
		}
		for p, err := range list(ctx, rows, begin(mark, now), now, after) {
			if !p.handled && !yield(p, err) {
				return
			}
		}
	}
}

// Of returns the purges of an item that are not verified at now.
func Of(ctx context.Context, rows store.Rows, now mayfly.Instant, id mayfly.ID) iter.Seq2[Purge, error] {
	return func(yield func(Purge, error) bool) {
		for p, err := range List(ctx, rows, now, "") {
			if (err != nil || p.Event.ID == id) && !yield(p, err) {
				return
			}
		}
	}
}

// Place returns where List goes on behind the purge.
func (p Purge) Place() string { return p.key().Clustering }

// begin returns the instant up to which every purge is handled: behind now also if a
// clock was ahead, and not so long ago that nothing of it is cached.
func begin(mark walk.Watermark, now mayfly.Instant) mayfly.Instant {
	return max(min(mark.At, now.Add(-behind)), now.Add(-forgotten))
}

// list returns the rows behind an instant and a place, handled ones too.
func list(ctx context.Context, rows store.Rows, from, now mayfly.Instant, after string) iter.Seq2[Purge, error] {
	const page = 1_000
	first := instantKey(from + 1)
	if after >= first {
		first = after + "\x00"
	}
	return func(yield func(Purge, error) bool) {
		start := sliceOf(mayfly.Instant(binary.BigEndian.Uint64([]byte(first[:8]))))
		for at := start; at <= sliceOf(now.Add(2*slice)); at++ {
			for r := (store.Range{Partition: partitionOf(at), From: first, Limit: page}); ; {
				found, err := rows.Range(ctx, Unverified, r)
				if err != nil {
					yield(Purge{}, fmt.Errorf("unverified purges: %w", err))
					return
				}
				for _, row := range found {
					if p, err := read(row); !yield(p, err) || err != nil {
						return
					}
				}
				if len(found) < page {
					break
				}
				r.From = found[page-1].Clustering + "\x00"
			}
		}
	}
}
