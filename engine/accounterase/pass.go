package accounterase

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// pass is one pass over an account. It holds the lease of the account, which saves
// double work. That nothing is counted twice or left out rests on the order of
// writes: the record names a page before the page is erased, and gets its counts
// together with the name of the next page. A process that takes over, or goes on
// after a crash, erases the named page again and counts it.
type pass struct {
	*Eraser
	r       record // as it will be stored
	now     mayfly.Instant
	elapsed func() time.Duration

	mu    sync.Mutex
	value []byte // the record as it is stored
	held  bool   // the lease
}

func (e *Eraser) newPass(r record, old []byte, now mayfly.Instant) *pass {
	r.Holder = rand.Text()
	return &pass{Eraser: e, r: r, now: now, elapsed: loop.Stopwatch(), value: old}
}

// errTaken says that another process has taken the pass over.
var errTaken = errors.New("another process has taken the erasure over")

// save stores the record and renews the lease.
func (p *pass) save(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.store(ctx, p.r)
}

func (p *pass) store(ctx context.Context, r record) error {
	if r.Holder != "" {
		r.Until = p.now.Add(p.elapsed() + p.o.Lease)
	}
	value := r.bytes()
	err := store.Replace(ctx, p.set.Rows, engine.Erased, engine.ErasedKey(r.User), p.value, value, 0)
	if errors.Is(err, mayfly.Conflict) && p.held {
		return mayfly.Wrap(mayfly.Conflict, errTaken, "")
	}
	if err != nil {
		return fmt.Errorf("store the receipt: %w", err)
	}
	p.value, p.held = value, true
	return nil
}

// renew renews the lease while a page takes long.
func (p *pass) renew(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, err := readRecord(p.value)
	if err != nil {
		return err
	}
	return p.store(ctx, r)
}

// release gives the lease up, after an error too: what was counted is kept.
func (p *pass) release(ctx context.Context) error {
	p.r.Holder, p.r.Until = "", 0
	return p.save(ctx)
}

// run makes the pass and stores its receipt.
func (p *pass) run(ctx context.Context) (Receipt, error) {
	renewal := loop.Start(ctx, loop.Options{Name: "account lease", First: p.o.Lease / 3, Every: p.o.Lease / 3}, p.renew)
	err := p.erase(ctx)
	_ = renewal.Stop(context.WithoutCancel(ctx))
	if errors.Is(err, errTaken) {
		return p.r.Receipt, err
	}
	if err != nil {
		return p.r.Receipt, errors.Join(err, p.putOff(ctx))
	}
	r := &p.r
	// Only a pass that began when no birth could be in flight any more is the last.
	last := p.now >= r.At.Add(p.o.Settle)
	r.Passes++
	switch {
	case !last:
		r.Again = r.At.Add(p.o.Settle)
	case len(r.Held) > 0:
		r.Again = p.now.Add(p.o.HeldEvery)
	default:
		r.Again, r.Finished = 0, p.now
	}
	if r.Finished == 0 {
		if err := p.list(ctx, r.User, r.Again, p.now); err != nil {
			return r.Receipt, err
		}
	}
	return r.Receipt, p.release(ctx)
}

const (
	shortestPause = time.Minute
	longestPause  = time.Hour
)

// putOff lists the account for another try and gives the lease up. The pause grows
// with the time that the erasure has taken so far.
func (p *pass) putOff(ctx context.Context) error {
	again := p.now.Add(min(longestPause, max(shortestPause, p.now.Sub(p.r.At)/4)))
	if err := p.list(ctx, p.r.User, again, p.now); err != nil {
		return err
	}
	p.r.Again = again
	return p.release(ctx)
}

// erase erases the user's items, then what products keep outside of tables, which
// they may find by rows, and then the rows of every table by its rule. When
// only the log is unavailable everything else is done (L8), and the error says
// that another pass is due.
func (p *pass) erase(ctx context.Context) error {
	away, err := p.items(ctx)
	if err != nil {
		return fmt.Errorf("items: %w", err)
	}
	for _, part := range p.parts {
		erased, err := part.Erase(ctx, p.r.User, p.now)
		if err != nil {
			return fmt.Errorf("%s: %w", part.Name, err)
		}
		p.r.Rows[part.Name] += erased
	}
	tables := p.set.Rows.Tables()
	for _, t := range tables {
		if err := p.eraseTable(ctx, tables, t); err != nil {
			return fmt.Errorf("table %s: %w", t, err)
		}
	}
	if away != nil {
		return fmt.Errorf("items: %w", away)
	}
	if p.r.Passes > 0 { // the first pass that was finished has appended the event
		return nil
	}
	if err := p.set.Log.Append(ctx, mayfly.UserDeleted(p.r.User, p.r.At)); err != nil {
		return fmt.Errorf("append user.deleted: %w", err)
	}
	return nil
}

// items erases the user's items: first those of the page that a pass before has
// named. It returns why events could not be appended; what is missing in the log
// stays in the owner index, so that the next pass finds and counts it.
func (p *pass) items(ctx context.Context) (away, err error) {
	do := func(names []mayfly.ID) error {
		err := p.eraseOwned(ctx, names)
		if walk.IsAway(err) {
			away, err = err, nil
		}
		if err == nil {
			p.r.Page = nil
		}
		return err
	}
	if len(p.r.Page) > 0 {
		if err := do(p.r.Page); err != nil {
			return away, err
		}
	}
	p.r.Held, p.r.HeldMore = nil, 0
	err = p.partition(ctx, engine.Owners, string(p.r.User[:]), func(page []store.Row) error {
		names := make([]mayfly.ID, len(page))
		for i, row := range page {
			if len(row.Clustering) != len(mayfly.ID{}) {
				return mayfly.Errorf(mayfly.Corrupt, "owner index: a clustering key of %d bytes", len(row.Clustering))
			}
			names[i] = mayfly.ID([]byte(row.Clustering))
		}
		p.r.Page = names
		if err := p.save(ctx); err != nil {
			return err
		}
		return do(p.r.Page)
	})
	return away, err
}

// eraseTable erases the user's rows of a table by the rule of its declaration. What
// a crash interrupts in the middle of reservations or of a product's part is not
// counted by the pass that goes on.
func (p *pass) eraseTable(ctx context.Context, tables []store.Table, t store.Table) error {
	d, user := t.Declared(), string(p.r.User[:])
	switch {
	case d.Erasure != store.PartitionIsUser || t == engine.Owners || d.ErasedByPart: // the owner index goes with the items
		return nil
	case t == upload.Reservations: // with the media that have arrived (ST14)
		rows, objects, err := upload.EraseOf(ctx, p.set, p.r.User)
		p.r.Objects += objects
		p.r.count(t, rows)
		return err
	}
	mirror, _ := store.TableNamed(tables, d.Mirror)
	if doing := p.r.Removing; doing.Table == t.String() {
		// Counted by the plan: how much of it was removed before is not known.
		err := p.rows(ctx, store.Range{Partition: user, To: string(doing.Last) + "\x00"}, t, func(page []store.Row) error {
			_, err := erase.RemoveRows(ctx, p.set, tables, t, user, page)
			return err
		})
		if err != nil {
			return err
		}
		p.r.count(t, doing.Rows)
		p.r.count(mirror, doing.Rows)
		p.r.Removing = removing{}
	}
	return p.partition(ctx, t, user, func(page []store.Row) error {
		p.r.Removing = removing{t.String(), []byte(page[len(page)-1].Clustering), len(page)}
		if err := p.save(ctx); err != nil {
			return err
		}
		mirrors, err := erase.RemoveRows(ctx, p.set, tables, t, user, page)
		if err != nil {
			return err
		}
		p.r.count(t, len(page))
		p.r.count(mirror, mirrors)
		p.r.Removing = removing{}
		return nil
	})
}

// eraseOwned deletes, erases and counts the items that a page of the owner index
// names, or named: what a pass before has erased of them is counted too.
// Each step is one call for the page, and so is the wait for caches that cannot be
// notified.
func (p *pass) eraseOwned(ctx context.Context, names []mayfly.ID) error {
	e, r, now := p.Eraser, &p.r.Receipt, p.now
	found, err := e.set.Ledger.Get(ctx, names...)
	if err != nil {
		return fmt.Errorf("read %d rows: %w", len(names), err)
	}
	var rows []mayfly.Item
	var strays store.Batch
	var bodies []mayfly.ID // that strays may have
	for i, id := range names {
		switch row := found[i].Item; {
		case !found[i].Found:
			// Its birth was abandoned, or is in flight: then the second pass finds the
			// item by this entry.
			if id.Birth().Add(e.o.Settle) <= now {
				strays.Delete(engine.Owners, engine.OwnerKey(r.User, id))
				bodies = append(bodies, id)
				r.count(engine.Owners, 1)
			}
		case row.Held:
			r.hold(id)
		default:
			rows = append(rows, row)
		}
	}
	gone, held, err := e.items.DeleteAll(ctx, rows, now)
	if err != nil {
		return err
	}
	for _, id := range held {
		r.hold(id)
	}
	_, err = e.items.Act(ctx, walk.Batch{Items: gone, Now: now, Repeat: true})
	if walk.IsAway(err) {
		if err := p.countErased(ctx, gone); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	for _, item := range gone {
		r.erased(item)
	}
	if len(bodies) == 0 {
		return nil
	}
	if err := e.set.Ledger.EraseBody(ctx, bodies...); err != nil { // before the entries that name them
		return fmt.Errorf("bodies of %d abandoned births: %w", len(bodies), err)
	}
	return e.set.Writer.Commit(ctx, &strays)
}

// countErased counts the items that a pass before has taken out of the owner index:
// the next one does not find them there.
func (p *pass) countErased(ctx context.Context, items []mayfly.Item) error {
	keys := make([]store.Key, len(items))
	for i, item := range items {
		keys[i] = engine.OwnerKey(p.r.User, item.ID)
	}
	indexed, err := p.set.Rows.Get(ctx, engine.Owners, keys...)
	if err != nil {
		return err
	}
	for i, item := range items {
		if indexed[i] == nil {
			p.r.erased(item)
		}
	}
	return nil
}
