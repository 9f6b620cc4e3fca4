package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// reading is a reader in a case. The log is shared: a case looks only at the events
// that it appended itself.
type reading struct {
	c      *trial
	r      store.Reader
	events []mayfly.Event    // everything that Next returned, in order
	last   map[uint32]uint64 // offset by partition
}

// reader returns a reader of a new group that begins at about now, after the events of
// earlier cases.
func (c *trial) reader(stream mayfly.Stream, group string) *reading {
	c.Helper()
	r := c.oldest(stream, group)
	c.must(r.r.Seek(c.ctx, wall().Add(-time.Second)))
	return r
}

// oldest returns a reader that begins where the group is: for a new group at the
// oldest event.
func (c *trial) oldest(stream mayfly.Stream, group string) *reading {
	c.Helper()
	r, err := c.set.Log.Reader(c.ctx, stream, group)
	c.must(err)
	c.Cleanup(func() { _ = r.Close() })
	return &reading{c: c, r: r, last: map[uint32]uint64{}}
}

// next calls Next and checks what it returns.
func (r *reading) next(ctx context.Context, limit int) ([]store.Record, error) {
	r.c.Helper()
	records, err := r.r.Next(ctx, limit)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 || len(records) > limit {
		r.c.Fatalf("Next with a limit of %d returned %d records", limit, len(records))
	}
	for _, rec := range records {
		if last, ok := r.last[rec.Partition]; ok && rec.Offset <= last {
			r.c.Fatalf("partition %d: offset %d follows %d", rec.Partition, rec.Offset, last)
		}
		r.last[rec.Partition] = rec.Offset
		r.events = append(r.events, rec.Event)
	}
	return records, nil
}

func (r *reading) saw(e mayfly.Event) bool { return r.count(e) > 0 }

func (r *reading) count(e mayfly.Event) (n int) {
	for _, seen := range r.events {
		if seen == e {
			n++
		}
	}
	return n
}

// wantInOrder reads until it has seen every event of want, as often as it is in want,
// and checks that each item's events come in the order of want.
func (r *reading) wantInOrder(want ...mayfly.Event) {
	r.c.Helper()
	times := map[mayfly.Event]int{}
	for _, e := range want {
		times[e]++
	}
	missing := func() bool {
		for e, n := range times {
			if r.count(e) < n {
				return true
			}
		}
		return false
	}
	for missing() {
		if _, err := r.next(r.c.ctx, 100); err != nil {
			r.c.Fatalf("after %d events, with some still missing: %v", len(r.events), err)
		}
	}
	r.wantItemOrder(want)
}

// wantItemOrder checks that the events read so far are in the order of want, for each
// item. Repeats are allowed, because delivery is at least once.
func (r *reading) wantItemOrder(want []mayfly.Event) {
	r.c.Helper()
	place := map[mayfly.Event]int{}
	for i, e := range want {
		if _, known := place[e]; !known {
			place[e] = i
		}
	}
	last := map[[16]byte]int{}
	first := map[mayfly.Event]bool{}
	for _, e := range r.events {
		at, mine := place[e]
		if !mine || first[e] {
			continue
		}
		first[e] = true
		if before, ok := last[e.Subject()]; ok && at < before {
			r.c.Errorf("%x: generation %d is read after generation %d", e.Subject(), e.Generation, want[before].Generation)
		}
		last[e.Subject()] = at
	}
}

// drain reads until no record is waiting.
func (r *reading) drain() {
	r.c.Helper()
	for r.lag() > 0 {
		_, err := r.next(r.c.ctx, 500)
		r.c.must(err)
	}
}

func (r *reading) lag() int64 {
	r.c.Helper()
	n, err := r.r.Lag(r.c.ctx)
	r.c.must(err)
	return n
}

func (r *reading) commit() {
	r.c.Helper()
	r.c.must(r.r.Commit(r.c.ctx))
}

func (r *reading) close() {
	r.c.Helper()
	r.c.must(r.r.Close())
}

// nothingWaits checks that Next blocks until its context ends.
func (r *reading) nothingWaits() {
	r.c.Helper()
	ctx, cancel := context.WithTimeout(r.c.ctx, 50*time.Millisecond)
	defer cancel()
	records, err := r.next(ctx, 10)
	if !errors.Is(err, context.DeadlineExceeded) {
		r.c.Errorf("Next on a drained log: %d records, %v; want the context's error", len(records), err)
	}
}

// life returns the first n events of a new item, each of another generation.
func life(n int) []mayfly.Event {
	item := freshBirth().Item
	at := wall()
	var events []mayfly.Event
	for i := range n {
		verb := mayfly.WasExpired
		switch i % 3 {
		case 1:
			verb = mayfly.WasRestored
		case 2:
			verb = mayfly.WasHeld
		}
		e := mayfly.EventOf(item, verb)
		e.Generation, e.At = mayfly.Generation(i+1), at
		events = append(events, e)
	}
	return events
}

func (c *trial) append(events ...mayfly.Event) {
	c.Helper()
	c.must(c.set.Log.Append(c.ctx, events...))
}
