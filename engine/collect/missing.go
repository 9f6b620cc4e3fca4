package collect

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// MissingRun asks for one pass over rows whose objects are looked for.
type MissingRun struct {
	From, To mayfly.Instant // deadlines, in whole minutes: where the first pass begins, and before which minute this one ends
	Cap      int            // how many objects it looks for, or a page of rows more; default 20,000
}

// MissingReport is what a pass over rows found.
type MissingReport struct {
	Rows    int              // rows passed
	Every   uint32           // of them, one in so many had its objects looked for
	Looked  int              // objects looked for
	Missing int              // objects that a row names and that do not exist
	Lost    []mayfly.BlobKey // examples of missing objects
	More    bool             // the cap ended the pass before its end
}

const (
	defaultLooks = 20_000
	looksAtOnce  = 8
	rowPage      = 100
	mostRows     = 1 << 24 // rows passed at most; a pass ends there too
	mostEvery    = 1 << 20
)

// Missing looks for the objects that rows name (L12), in order of deadline from a
// durable watermark on, so that no row is left out between two passes. It looks at
// all rows while a pass stays below its cap. When the cap ends a pass, the next ones
// look at half as many rows until they come to the end again: every row is passed,
// and one in Every is checked. Items that never expire are looked at in rounds. It
// reports what is missing and changes nothing.
// Errors: Conflict (another process passes), Unavailable.
func (c *Collector) Missing(ctx context.Context, run MissingRun) (MissingReport, error) {
	if run.Cap == 0 {
		run.Cap = defaultLooks
	}
	m := &missing{Collector: c, run: run}
	if err := m.pass(ctx); err != nil {
		return m.report, fmt.Errorf("rows without objects: %w", err)
	}
	return m.report, nil
}

// missing is one pass over rows.
type missing struct {
	*Collector
	run MissingRun
	at  place

	mu     sync.Mutex
	report MissingReport
}

// place is how far the passes have come, and how many rows they leave out.
type place struct {
	minute mayfly.Minute // rows of earlier minutes are passed
	shard  mayfly.Shard  // and those of lower shards of this one
	after  store.Position
	every  uint32 // one row in so many is looked at

	eternal      mayfly.Shard // where the round over items that never expire is
	eternalAfter mayfly.ID
}

const (
	placeFormat = 1
	placeSize   = 1 + 4 + 1 + 8 + 16 + 4 + 1 + 16
)

func (p place) bytes() []byte {
	b := binary.BigEndian.AppendUint32([]byte{placeFormat}, uint32(p.minute))
	b = binary.BigEndian.AppendUint64(append(b, byte(p.shard)), uint64(p.after.Deadline))
	b = binary.BigEndian.AppendUint32(append(b, p.after.ID[:]...), p.every)
	return append(append(b, byte(p.eternal)), p.eternalAfter[:]...)
}

func readPlace(b []byte) (place, error) {
	if len(b) != placeSize || b[0] != placeFormat {
		return place{}, mayfly.Errorf(mayfly.Corrupt, "the stored position cannot be read: %x", b)
	}
	return place{
		minute: mayfly.Minute(binary.BigEndian.Uint32(b[1:])), shard: mayfly.Shard(b[5]),
		after: store.Position{Deadline: mayfly.Instant(binary.BigEndian.Uint64(b[6:])), ID: mayfly.ID(b[14:30])},
		every: binary.BigEndian.Uint32(b[30:]), eternal: mayfly.Shard(b[34]), eternalAfter: mayfly.ID(b[35:]),
	}, nil
}

func missingMark() store.Key { return store.Key{Partition: "missing"} }

// errEnough ends a pass.
var errEnough = errors.New("enough")

func (m *missing) pass(ctx context.Context) error {
	found, err := m.set.Rows.Get(ctx, walk.Watermarks, missingMark())
	if err != nil {
		return fmt.Errorf("load the watermark: %w", err)
	}
	m.at = place{minute: m.run.From.Minute(), every: 1}
	if found[0] != nil {
		if m.at, err = readPlace(found[0]); err != nil {
			return err
		}
	}
	m.report.Every = m.at.every
	if err := m.minutes(ctx); err != nil {
		return err
	}
	if err := m.eternal(ctx); err != nil {
		return err
	}
	if err := store.Replace(ctx, m.set.Rows, walk.Watermarks, missingMark(), found[0], m.at.bytes(), 0); err != nil {
		return fmt.Errorf("move the watermark: %w", err)
	}
	return nil
}

// minutes passes over the rows of every minute before that of To, whose rows are not
// all due: the next pass begins there.
func (m *missing) minutes(ctx context.Context) error {
	start, end := m.at, m.run.To.Minute()
	if start.minute >= end {
		return nil
	}
	err := store.EachMinute(ctx, m.set.Ledger, start.minute, end-1, func(minute mayfly.Minute, shard mayfly.Shard) error {
		if minute == start.minute && shard < start.shard {
			return nil
		}
		return m.minute(ctx, minute, shard)
	})
	switch m.report.More = errors.Is(err, errEnough); {
	case m.report.More:
		if m.report.Looked >= m.run.Cap {
			m.at.every = min(2*m.at.every, mostEvery)
		}
	case err != nil:
		return err
	default:
		m.at.minute, m.at.shard, m.at.after = end, 0, store.Position{}
		if m.report.Looked < m.run.Cap/4 {
			m.at.every = max(1, m.at.every/2)
		}
	}
	return nil
}

// eternal goes on in a round over the items that never expire. A pass looks for half
// as many of their objects as its cap, and starts no second round.
func (m *missing) eternal(ctx context.Context) error {
	for before := m.report.Looked; m.report.Looked-before < (m.run.Cap+1)/2 && m.report.Rows < mostRows; {
		page, err := m.set.Ledger.Eternal(ctx, m.at.eternal, m.at.eternalAfter, rowPage)
		if err != nil {
			return fmt.Errorf("items that never expire, shard %d: %w", m.at.eternal, err)
		}
		if err := m.look(ctx, page, 1); err != nil {
			return err
		}
		if len(page) == rowPage {
			m.at.eternalAfter = page[len(page)-1].ID
			continue
		}
		m.at.eternalAfter = mayfly.ID{}
		if m.at.eternal++; int(m.at.eternal) == mayfly.Shards {
			m.at.eternal = 0
			return nil
		}
	}
	return nil
}

// minute passes over the rows of one minute and shard that are not passed yet.
func (m *missing) minute(ctx context.Context, minute mayfly.Minute, shard mayfly.Shard) error {
	if minute != m.at.minute || shard != m.at.shard {
		m.at.minute, m.at.shard, m.at.after = minute, shard, store.Position{}
	}
	for {
		page, err := m.set.Ledger.Walk(ctx, store.Stretch{Minute: minute, Shard: shard, After: m.at.after, To: (minute + 1).Start() - 1}, rowPage)
		if err != nil {
			return fmt.Errorf("minute %d, shard %d: %w", minute, shard, err)
		}
		if err := m.look(ctx, page, m.at.every); err != nil || len(page) == 0 {
			return err
		}
		m.at.after = store.PositionOf(page[len(page)-1])
		if m.report.Looked >= m.run.Cap || m.report.Rows >= mostRows {
			return errEnough
		}
		if len(page) < rowPage {
			return nil
		}
	}
}

// look looks for the objects of one in every so many rows of a page.
func (m *missing) look(ctx context.Context, page []mayfly.Item, every uint32) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(looksAtOnce)
	for _, item := range page {
		if !sampled(item.ID, every) {
			continue
		}
		g.Go(func() error {
			looked, lost, err := m.lost(ctx, item)
			m.mu.Lock()
			defer m.mu.Unlock()
			m.report.Looked += looked
			m.report.Missing += len(lost)
			room := maxExamples - len(m.report.Lost)
			m.report.Lost = append(m.report.Lost, lost[:max(0, min(room, len(lost)))]...)
			return err
		})
	}
	m.report.Rows += len(page)
	return g.Wait()
}

// sampled reports whether an item is one of every so many, by a hash of its id.
func sampled(id mayfly.ID, every uint32) bool {
	h := fnv.New64a()
	h.Write(id[:])
	return h.Sum64()%uint64(max(1, every)) == 0
}

// rounds is how often a row is read again because it changed meanwhile.
const rounds = 16

// lost returns the objects that the row names and that do not exist, and how many
// it looked for. When one is not found the row is read again, because it may have
// moved.
func (c *Collector) lost(ctx context.Context, item mayfly.Item) (looked int, lost []mayfly.BlobKey, err error) {
	for range rounds {
		looked += int(item.Media)
		lost, err := c.absent(ctx, item)
		if err != nil || len(lost) == 0 {
			return looked, nil, err
		}
		row, err := store.ItemOf(ctx, c.set.Ledger, item.ID)
		switch {
		case errors.Is(err, mayfly.NotFound):
			return looked, nil, nil
		case err != nil:
			return looked, nil, err
		case row.Generation == item.Generation:
			return looked, lost, nil
		}
		item = row
	}
	return looked, nil, nil // it keeps moving
}

// absent returns the missing objects of the copy that an item is read from: cold
// as soon as the row names it, since hot is erased from then on (I1).
func (c *Collector) absent(ctx context.Context, item mayfly.Item) ([]mayfly.BlobKey, error) {
	if item.State == mayfly.Deleted && !item.Held {
		return nil, nil
	}
	tier, g := c.copyOf(item)
	var lost []mayfly.BlobKey
	for n := range int(item.Media) {
		key := item.MediaKey(g, n)
		switch _, err := tier.Stat(ctx, key); {
		case errors.Is(err, mayfly.NotFound):
			lost = append(lost, key)
		case err != nil:
			return nil, fmt.Errorf("look for %s: %w", key, err)
		}
	}
	return lost, nil
}

func (c *Collector) copyOf(item mayfly.Item) (store.Blobs, mayfly.Generation) {
	if item.Keys.Cold != 0 {
		return c.set.Cold, item.Keys.Cold
	}
	return c.set.Hot, item.Keys.Hot
}
