package restore

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/store"
)

const (
	heldPage = 200
	// heldScan is how many entries one page of the list reads at most: what was released
	// and is still listed makes pages short instead of slow (I17).
	heldScan = 2_000
	// heldSettled is how long after its hour no write of a hold or of its end can land any
	// more.
	heldSettled = 2 * time.Hour
)

// HeldItem is an item that is held, and since when.
type HeldItem struct {
	mayfly.Item
	Since mayfly.Instant
}

// Held returns a page of the items of any product that are held, by the hour in which
// they were, the oldest first; next is the cursor of the next page, empty on the last. A
// page may be short without being the last. Errors: Invalid (the cursor), Corrupt,
// Unavailable.
func (r *Restore) Held(ctx context.Context, cursor string, limit int) (all []HeldItem, next string, err error) {
	hour, after, err := readHeldCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	scanned := 0
	err = r.eachHeldHour(ctx, hour, func(partition string) (more bool, err error) {
		rows := store.Range{Partition: partition, Limit: heldPage}
		if partition == hour && after != "" {
			rows.From = after + "\x00"
		}
		for {
			page, items, err := r.heldIn(ctx, rows)
			if err != nil {
				return false, err
			}
			for i, row := range page {
				if len(all) == limit || scanned == heldScan {
					next = base64.RawURLEncoding.EncodeToString([]byte(hour + after))
					return false, nil
				}
				hour, after = partition, row.Clustering
				if scanned++; engine.HeldKey(items[i]) == (store.Key{Partition: partition, Clustering: row.Clustering}) && items[i].Held {
					all = append(all, HeldItem{items[i], sinceHeld(items[i])})
				}
			}
			if len(page) < rows.Limit {
				return true, nil
			}
			rows.From = after + "\x00"
		}
	})
	return all, next, err
}

func sinceHeld(item mayfly.Item) mayfly.Instant {
	if item.Hold.At != 0 {
		return item.Hold.At
	}
	return item.ID.Birth()
}

// readHeldCursor reads the hour and the entry after which a page begins.
func readHeldCursor(cursor string) (hour, after string, err error) {
	if cursor == "" {
		return "", "", nil
	}
	at, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if hour := len(engine.HeldHour(0)); err == nil && len(at) == hour+engine.HeldKeyBytes {
		return string(at[:hour]), string(at[hour:]), nil
	}
	return "", "", mayfly.Errorf(mayfly.Invalid, "the cursor is not one of this list").WithHint("send next of the page before, unchanged, or begin again without a cursor")
}

// eachHeldHour calls do with the hours that have entries, from one on, until it returns
// false.
func (r *Restore) eachHeldHour(ctx context.Context, from string, do func(partition string) (bool, error)) error {
	hours := store.Range{Partition: engine.HeldHours, From: from, Limit: heldPage}
	for {
		page, err := r.set.Rows.Range(ctx, engine.Held, hours)
		if err != nil {
			return fmt.Errorf("hours with holds: %w", err)
		}
		for _, row := range page {
			if more, err := do(row.Clustering); err != nil || !more {
				return err
			}
			hours.From = row.Clustering + "\x00"
		}
		if len(page) < hours.Limit {
			return nil
		}
	}
}

// heldIn returns entries of an hour, and for each the row that it names.
func (r *Restore) heldIn(ctx context.Context, rows store.Range) ([]store.Row, []mayfly.Item, error) {
	page, err := r.set.Rows.Range(ctx, engine.Held, rows)
	if err != nil || len(page) == 0 {
		return nil, nil, err
	}
	ids := make([]mayfly.ID, len(page))
	for i, row := range page {
		if len(row.Clustering) != engine.HeldKeyBytes {
			return nil, nil, mayfly.Errorf(mayfly.Corrupt, "an entry of the list of holds cannot be read: %x", row.Clustering)
		}
		ids[i] = mayfly.ID([]byte(row.Clustering[:len(mayfly.ID{})]))
	}
	found, err := r.set.Ledger.Get(ctx, ids...)
	if err != nil {
		return nil, nil, fmt.Errorf("rows of the list of holds: %w", err)
	}
	items := make([]mayfly.Item, len(page))
	for i := range found {
		items[i] = found[i].Item
	}
	return page, items, nil
}

// TidyHeld removes entries of the list whose holds have ended or never were, and hours
// that have none, when no write of them can land any more. It may be repeated, by
// several nodes.
func (r *Restore) TidyHeld(ctx context.Context, now mayfly.Instant) error {
	settled := engine.HeldHour(now.Add(-heldSettled - time.Hour))
	return r.eachHeldHour(ctx, "", func(partition string) (bool, error) {
		if partition >= settled {
			return false, nil
		}
		kept, rows := 0, store.Range{Partition: partition, Limit: heldPage}
		for {
			page, items, err := r.heldIn(ctx, rows)
			if err != nil {
				return false, err
			}
			var b store.Batch
			for i, row := range page {
				rows.From = row.Clustering + "\x00"
				if key := (store.Key{Partition: partition, Clustering: row.Clustering}); items[i].Held && engine.HeldKey(items[i]) == key {
					kept++
				} else {
					b.Delete(engine.Held, key)
				}
			}
			if len(page) < rows.Limit && kept == 0 {
				b.Delete(engine.Held, store.Key{Partition: engine.HeldHours, Clustering: partition})
			}
			if err := r.set.Writer.Commit(ctx, &b); err != nil {
				return false, err
			}
			if len(page) < rows.Limit {
				return true, nil
			}
		}
	})
}
