package sim

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/mayflyhq/mayfly"
	rowtables "github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// inventory is everything that an engine holds, read through the contracts. An audit
// fills rows and bodies.
type inventory struct {
	rows      map[mayfly.ID]mayfly.Item
	bodies    map[mayfly.ID]mayfly.Body
	tables    []string // rows of owner index, claims, uploads, watermarks and leases
	reminders []remind.Reminder
	events    []mayfly.Event
	objects   []mayfly.BlobKey
}

func lifetimeOf(ms int64) (mayfly.Lifetime, error) {
	if ms == 0 {
		return mayfly.Never, nil
	}
	return mayfly.LifetimeOf(time.Duration(ms) * time.Millisecond)
}

// takeInventory reads all that the wishes of the record can have led to.
func takeInventory(ctx context.Context, set store.Set, b *record, now mayfly.Instant) (*inventory, error) {
	inv := &inventory{rows: map[mayfly.ID]mayfly.Item{}, bodies: map[mayfly.ID]mayfly.Body{}}
	err := inv.readTables(ctx, set, b)
	if err == nil {
		err = inv.readReminders(ctx, set, b, now)
	}
	for _, stream := range []mayfly.Stream{mayfly.Births, mayfly.Ends} {
		if err == nil {
			var events []mayfly.Event
			events, err = readStream(ctx, set.Log, stream)
			inv.events = append(inv.events, events...)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("inventory: %w", err)
	}
	listed, err := set.Hot.List(ctx, "", "", 1_000_000)
	for _, l := range listed {
		inv.objects = append(inv.objects, l.Key)
	}
	return inv, err
}

func (inv *inventory) readTables(ctx context.Context, set store.Set, b *record) error {
	type part struct {
		table     store.Table
		partition string
	}
	parts := map[part]bool{{walk.Watermarks, "sweep"}: true, {walk.Leases, "walk"}: true}
	for _, w := range b.wishes {
		if !w.owner.IsZero() { // the zero user has no tables
			parts[part{rowtables.Owners, string(w.owner[:])}], parts[part{intake.Idempotency, string(w.owner[:])}] = true, true
		}
	}
	for upload := range b.uploads {
		parts[part{rowtables.Uploads, string(upload[:])}] = true
	}
	for p := range parts {
		found, err := set.Rows.Range(ctx, p.table, store.Range{Partition: p.partition, Limit: 1_000_000})
		if err != nil {
			return err
		}
		for _, row := range found {
			inv.tables = append(inv.tables, fmt.Sprintf("%s %x %x %x", p.table, p.partition, row.Clustering, row.Value))
		}
	}
	return nil
}

// readReminders reads all that can have been written until now: each is due a
// few minutes after that.
func (inv *inventory) readReminders(ctx context.Context, set store.Set, b *record, now mayfly.Instant) error {
	for minute := genesis.Minute(); minute <= now.Minute()+3; minute++ {
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

// digest tells states apart: of ledger, bodies, tables, log and objects.
func (inv *inventory) digest() [32]byte {
	lines := slices.Clone(inv.tables)
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for id, item := range inv.rows {
		add("row %x %v", id, item)
	}
	for id, body := range inv.bodies {
		add("body %x %v", id, body)
	}
	for _, e := range inv.events {
		add("event %v", e)
	}
	add("%v %v", inv.reminders, inv.objects)
	slices.Sort(lines)
	h := sha256.New()
	for _, line := range lines {
		fmt.Fprintln(h, line)
	}
	return [32]byte(h.Sum(nil))
}
