package erase

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

const (
	scrubPage  = 500   // rows looked at in one go
	scrubHoles = 2_000 // pigeonholes, if they are empty
	// scrubAhead is for how long it reads before its position is durable.
	scrubAhead = 10 // seconds
)

// ScrubOn reads the next cold copies behind a durable position, in the order of
// deadlines, and moves it. At the end of the span it begins anew, every at the
// earliest after it began before: in rounds, every copy is read again and again
// (L9). Whole says that there is nothing to read for now. Errors: Invalid,
// Conflict (another scrub runs), Unavailable.
func (e *Erase) ScrubOn(ctx context.Context, run ScrubRun, every time.Duration) (ScrubReport, error) {
	run, err := run.withDefaults()
	if err != nil {
		return ScrubReport{}, err
	}
	s := &scrub{Erase: e, run: run}
	if err := s.on(ctx, every); err != nil {
		return s.report, fmt.Errorf("scrub: %w", err)
	}
	return s.report, nil
}

func scrubMark() store.Key { return store.Key{Partition: "scrub"} }

func (s *scrub) on(ctx context.Context, every time.Duration) error {
	found, err := s.set.Rows.Get(ctx, store.Watermarks, scrubMark())
	if err != nil {
		return fmt.Errorf("load the position: %w", err)
	}
	old := found[0]
	at, err := readPlace(old)
	if err != nil {
		return err
	}
	first := place{began: s.run.Now, minute: (s.run.Rows.From + 1).Minute()}
	switch last := s.run.Rows.To.Minute(); {
	case at.minute < first.minute:
		at = first
	case at.minute > last && s.run.Now.Sub(at.began) < every:
		s.report.Whole = true
		return nil
	case at.minute > last:
		at = first
	}
	next, failed := s.readOn(ctx, at)
	if next == at && old != nil {
		return failed
	}
	// What was read is behind the position, also when something failed then.
	if err := s.swap(ctx, store.Watermarks, scrubMark(), old, next.bytes()); err != nil {
		return errors.Join(failed, fmt.Errorf("move the position: %w", err))
	}
	return failed
}

// readOn reads from a place on, and answers where it came to.
func (s *scrub) readOn(ctx context.Context, at place) (place, error) {
	last := s.run.Rows.To.Minute()
	for range scrubHoles {
		if at.minute > last {
			s.report.Whole = true
			return at, nil
		}
		page, err := s.set.Ledger.Walk(ctx, store.Stretch{Minute: at.minute, Shard: at.shard, After: at.after, To: s.run.Rows.To}, scrubPage)
		if err != nil {
			return at, fmt.Errorf("minute %d, shard %d: %w", at.minute, at.shard, err)
		}
		done, err := s.page(ctx, page, s.run.BytesPerSecond*scrubAhead)
		if done > 0 {
			at.after = store.PositionOf(page[done-1])
		}
		if err != nil {
			return at, err
		}
		if done == len(page) && len(page) < scrubPage {
			at = at.next()
		}
		if s.report.Objects > 0 {
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

// next is the pigeonhole behind this one.
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

// readPlace reads a place; of nothing it is before every beginning.
func readPlace(b []byte) (place, error) {
	if b == nil {
		return place{}, nil
	}
	if len(b) != placeSize || b[0] != placeFormat {
		return place{}, mayfly.Errorf(mayfly.Corrupt, "the position of the scrub is not readable: %x", b)
	}
	u := binary.BigEndian.Uint64
	return place{
		began: mayfly.Instant(u(b[1:])), minute: mayfly.Minute(binary.BigEndian.Uint32(b[9:])), shard: mayfly.Shard(b[13]),
		after: store.Position{Deadline: mayfly.Instant(u(b[14:])), ID: mayfly.ID(b[22:])},
	}, nil
}
