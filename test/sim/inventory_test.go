package sim

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/mayflyhq/mayfly"
	rowtables "github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// inventory is everything that an engine holds, read through the contracts.
type inventory struct {
	now       mayfly.Instant
	rows      map[mayfly.ID]mayfly.Item
	bodies    map[mayfly.ID]mayfly.Body
	owned     map[store.Key]bool // the owner index
	uploads   map[mayfly.ID]mayfly.ID
	claims    map[store.Key][]byte
	reminders []remind.Reminder
	marks     []store.Row // watermarks, leases
	events    []mayfly.Event
	blobs     map[mayfly.BlobKey][32]byte // hash of the bytes that can be read
}

func lifetimeOf(ms int64) (mayfly.Lifetime, error) {
	if ms == 0 {
		return mayfly.Never, nil
	}
	return mayfly.LifetimeOf(time.Duration(ms) * time.Millisecond)
}

// takeInventory reads all that the wishes of the record can have led to.
func takeInventory(ctx context.Context, set store.Set, b *record, now mayfly.Instant) (*inventory, error) {
	inv := &inventory{
		now:  now,
		rows: map[mayfly.ID]mayfly.Item{}, bodies: map[mayfly.ID]mayfly.Body{}, owned: map[store.Key]bool{},
		uploads: map[mayfly.ID]mayfly.ID{}, claims: map[store.Key][]byte{}, blobs: map[mayfly.BlobKey][32]byte{},
	}
	for _, read := range []func(context.Context, store.Set, *record) error{
		inv.readRows, inv.readTables, inv.readReminders, inv.readEvents, inv.readBlobs,
	} {
		if err := read(ctx, set, b); err != nil {
			return nil, fmt.Errorf("inventory: %w", err)
		}
	}
	return inv, nil
}

// deadlineMinutes are the deadline minutes that the wishes can have.
func (b *record) deadlineMinutes() map[mayfly.Minute]bool {
	minutes := map[mayfly.Minute]bool{}
	for n, tries := range b.tries {
		for _, at := range tries {
			minutes[(at + mayfly.Instant(b.wishes[n].lifetime)).Minute()] = true
		}
	}
	return minutes
}

func (inv *inventory) readRows(ctx context.Context, set store.Set, b *record) error {
	deadlines := b.deadlineMinutes()
	for shard := range mayfly.Shard(b.shards) {
		items, err := set.Ledger.Eternal(ctx, shard, mayfly.ID{}, 1_000_000)
		if err != nil {
			return err
		}
		for minute := range deadlines {
			page, err := set.Ledger.Walk(ctx, store.Stretch{Minute: minute, Shard: shard, To: (minute + 1).Start()}, 1_000_000)
			if err != nil {
				return err
			}
			items = append(items, page...)
		}
		for _, item := range items {
			body, err := set.Ledger.Body(ctx, item.ID)
			if err != nil {
				return err
			}
			inv.rows[item.ID] = item
			if body[0].Found {
				inv.bodies[item.ID] = body[0].Body
			}
		}
	}
	return nil
}

func (inv *inventory) readTables(ctx context.Context, set store.Set, b *record) error {
	all := func(t store.Table, partition string) ([]store.Row, error) {
		return set.Rows.Range(ctx, t, store.Range{Partition: partition, Limit: 1_000_000})
	}
	seen := map[mayfly.UserID]bool{{}: true} // the zero user has no tables
	for _, w := range b.wishes {
		if seen[w.owner] {
			continue
		}
		seen[w.owner] = true
		owned, err := all(rowtables.Owners, string(w.owner[:]))
		if err != nil {
			return err
		}
		for _, row := range owned {
			inv.owned[store.Key{Partition: string(w.owner[:]), Clustering: row.Clustering}] = true
		}
		claims, err := all(intake.Idempotency, string(w.owner[:]))
		if err != nil {
			return err
		}
		for _, row := range claims {
			inv.claims[store.Key{Partition: string(w.owner[:]), Clustering: row.Clustering}] = row.Value
		}
	}
	for upload := range b.uploads {
		found, err := all(rowtables.Uploads, string(upload[:]))
		if err != nil {
			return err
		}
		for _, row := range found {
			inv.uploads[upload] = mayfly.ID(row.Value)
		}
	}
	for _, part := range []struct {
		table     store.Table
		partition string
	}{{walk.Watermarks, "sweep"}, {walk.Leases, "walk"}} {
		found, err := all(part.table, part.partition)
		if err != nil {
			return err
		}
		inv.marks = append(inv.marks, found...)
	}
	return nil
}

// readReminders reads all that can have been written until now: each is due a
// few minutes after that.
func (inv *inventory) readReminders(ctx context.Context, set store.Set, b *record) error {
	for minute := genesis.Minute(); minute <= inv.now.Minute()+3; minute++ {
		for shard := range mayfly.Shard(b.shards) {
			found, err := set.Rows.Range(ctx, remind.Reminders, store.Range{Partition: remind.Partition(minute, shard), Limit: 1_000_000})
			if err != nil {
				return err
			}
			for _, row := range found {
				r, err := remind.Read(row)
				if err != nil {
					return err
				}
				inv.reminders = append(inv.reminders, r)
			}
		}
	}
	slices.SortFunc(inv.reminders, func(a, b remind.Reminder) int {
		return cmp.Or(cmp.Compare(a.Due, b.Due), a.ID.Compare(b.ID), cmp.Compare(a.Step, b.Step))
	})
	return nil
}

func (inv *inventory) readEvents(ctx context.Context, set store.Set, _ *record) error {
	for _, stream := range []mayfly.Stream{mayfly.Births, mayfly.Ends} {
		events, err := readStream(ctx, set.Log, stream)
		if err != nil {
			return err
		}
		inv.events = append(inv.events, events...)
	}
	return nil
}

// readStream reads a stream from its beginning to its end.
func readStream(ctx context.Context, log store.Log, stream mayfly.Stream) ([]mayfly.Event, error) {
	r, err := log.Reader(ctx, stream, "audit")
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := r.Seek(ctx, 0); err != nil {
		return nil, err
	}
	var events []mayfly.Event
	for {
		lag, err := r.Lag(ctx)
		if err != nil || lag == 0 {
			return events, err
		}
		records, err := r.Next(ctx, 1000)
		if err != nil {
			return nil, err
		}
		for _, record := range records {
			events = append(events, record.Event)
		}
	}
}

func (inv *inventory) readBlobs(ctx context.Context, set store.Set, _ *record) error {
	listed, err := set.Hot.List(ctx, "", "", 1_000_000)
	if err != nil {
		return err
	}
	for _, l := range listed {
		r, _, err := set.Hot.Open(ctx, l.Key, store.Span{})
		if err != nil {
			return fmt.Errorf("listed object %s: %w", l.Key, err)
		}
		h := sha256.New()
		if _, err := io.Copy(h, r); err != nil {
			return fmt.Errorf("listed object %s: %w", l.Key, err)
		}
		if err := r.Close(); err != nil {
			return err
		}
		inv.blobs[l.Key] = [32]byte(h.Sum(nil))
	}
	return nil
}
