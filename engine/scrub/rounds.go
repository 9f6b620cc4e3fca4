package scrub

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

const (
	pageSize = 500   // rows looked at in one go
	maxEmpty = 2_000 // parts of the ledger (minute and shard) looked at in one call while they are empty
	// readAhead is how much is read before the position is stored, in seconds of
	// the run's rate.
	readAhead = 10
)

// Next reads the next cold copies from a durable position on, in the order of
// deadlines, and moves the position. At the end of the span it starts over, no
// sooner than every after the last start: every copy is read again and again (L9).
// Report.Whole means that there is nothing to read for now. Errors: Invalid,
// Conflict (another scrub runs), Unavailable.
func (s *Scrubber) Next(ctx context.Context, run Run, every time.Duration) (Report, error) {
	run, err := run.withDefaults()
	if err != nil {
		return Report{}, err
	}
	p := &pass{Scrubber: s, run: run}
	if err := p.next(ctx, every); err != nil {
		return p.report, fmt.Errorf("scrub: %w", err)
	}
	return p.report, nil
}

func scrubMark() store.Key { return store.Key{Partition: "scrub"} }

func (p *pass) next(ctx context.Context, every time.Duration) error {
	found, err := p.set.Rows.Get(ctx, walk.Watermarks, scrubMark())
	if err != nil {
		return fmt.Errorf("load the position: %w", err)
	}
	old := found[0]
	at, err := readPlace(old)
	if err != nil {
		return err
	}
	first := place{began: p.run.Now, minute: (p.run.Rows.From + 1).Minute()}
	switch last := p.run.Rows.To.Minute(); {
	case at.minute < first.minute:
		at = first
	case at.minute > last && p.run.Now.Sub(at.began) < every:
		p.report.Whole = true
		return nil
	case at.minute > last:
		at = first
	}
	next, failed := p.readOn(ctx, at)
	if next == at && old != nil {
		return failed
	}
	// The position moves over what was read, also when something failed after it.
	if err := store.Replace(ctx, p.set.Rows, walk.Watermarks, scrubMark(), old, next.bytes(), 0); err != nil {
		return errors.Join(failed, fmt.Errorf("move the position: %w", err))
	}
	return failed
}

// readOn reads from a place on and returns how far it came.
func (p *pass) readOn(ctx context.Context, at place) (place, error) {
	last := p.run.Rows.To.Minute()
	for range maxEmpty {
		if at.minute > last {
			p.report.Whole = true
			return at, nil
		}
		page, err := p.set.Ledger.Walk(ctx, store.Stretch{Minute: at.minute, Shard: at.shard, After: at.after, To: p.run.Rows.To}, pageSize)
		if err != nil {
			return at, fmt.Errorf("minute %d, shard %d: %w", at.minute, at.shard, err)
		}
		done, err := p.page(ctx, page, p.run.BytesPerSecond*readAhead)
		if done > 0 {
			at.after = store.PositionOf(page[done-1])
		}
		if err != nil {
			return at, err
		}
		if done == len(page) && len(page) < pageSize {
			at = at.next()
		}
		if p.report.Objects > 0 {
			return at, nil
		}
	}
	return at, nil
}

// place is how far a round has come.
type place struct {
	began  mayfly.Instant // the round
	minute mayfly.Minute
	shard  mayfly.Shard
	after  store.Position
}

// next returns the start of the next minute and shard.
func (p place) next() place {
	p.after = store.Position{}
	if p.shard++; int(p.shard) == mayfly.Shards {
		p.shard, p.minute = 0, p.minute+1
	}
	return p
}

const (
	placeFormat = 1
	placeSize   = 1 + 8 + 4 + 1 + 8 + 16
)

func (p place) bytes() []byte {
	b := binary.BigEndian.AppendUint64([]byte{placeFormat}, uint64(p.began))
	b = binary.BigEndian.AppendUint32(b, uint32(p.minute))
	b = append(b, byte(p.shard))
	b = binary.BigEndian.AppendUint64(b, uint64(p.after.Deadline))
	return append(b, p.after.ID[:]...)
}

// readPlace decodes a place; nil is a place before every start.
func readPlace(b []byte) (place, error) {
	if b == nil {
		return place{}, nil
	}
	if len(b) != placeSize || b[0] != placeFormat {
		return place{}, mayfly.Errorf(mayfly.Corrupt, "the stored position of the scrub cannot be read: %x", b)
	}
	u := binary.BigEndian.Uint64
	return place{
		began: mayfly.Instant(u(b[1:])), minute: mayfly.Minute(binary.BigEndian.Uint32(b[9:])), shard: mayfly.Shard(b[13]),
		after: store.Position{Deadline: mayfly.Instant(u(b[14:])), ID: mayfly.ID(b[22:])},
	}, nil
}
