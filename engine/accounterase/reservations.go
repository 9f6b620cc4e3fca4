package erase

import (
	"context"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// eraseReservations removes the user's reserved uploads with the media that have
// arrived (ST14).
func (e *Erase) eraseReservations(ctx context.Context, r *Receipt) error {
	return e.partition(ctx, store.Reservations, string(r.User[:]), func(page []store.Row) error {
		for _, row := range page {
			if err := e.eraseReservation(ctx, r, row); err != nil {
				return err
			}
		}
		r.count(store.Reservations, len(page))
		return nil
	})
}

// eraseReservation removes one: its objects first, because the row is what finds
// them, and once more whenever the row has changed, because a medium has arrived.
// What arrives behind the row its own request takes back, by Abandon.
func (e *Erase) eraseReservation(ctx context.Context, r *Receipt, row store.Row) error {
	if len(row.Clustering) != len(mayfly.ID{}) {
		return mayfly.Errorf(mayfly.Corrupt, "a key of %d bytes", len(row.Clustering))
	}
	key, old := store.Key{Partition: string(r.User[:]), Clustering: row.Clustering}, row.Value
	for range rounds {
		gone, err := e.abandon(ctx, mayfly.ID([]byte(row.Clustering)))
		if err != nil {
			return err
		}
		r.Objects += gone
		swapped, current, err := e.set.Rows.Swap(ctx, store.Reservations, key, old, nil, 0)
		if errors.Is(err, mayfly.Unknown) {
			var found [][]byte
			if found, err = e.set.Rows.Get(ctx, store.Reservations, key); err == nil {
				current = found[0]
			}
		}
		if err != nil || swapped || current == nil {
			return err
		}
		old = current
	}
	return mayfly.Errorf(mayfly.Unavailable, "%s: the row keeps changing", store.Reservations)
}

// Abandon erases the media of an upload that will not be published: its
// reservation has gone. What an item names is left alone.
func (e *Erase) Abandon(ctx context.Context, upload mayfly.ID) error {
	if _, err := e.abandon(ctx, upload); err != nil {
		return fmt.Errorf("abandon: %w", err)
	}
	return nil
}

// abandon erases every object that an upload can have, unless an item names it,
// and answers how many there were. Nothing is said about which have arrived: the
// keys can be computed (L11), and one may be on its way.
func (e *Erase) abandon(ctx context.Context, upload mayfly.ID) (int, error) {
	named, err := e.set.Rows.Get(ctx, store.Uploads, store.UploadKey(upload))
	if err != nil {
		return 0, fmt.Errorf("upload %s: %w", upload, err)
	}
	if named[0] != nil {
		return 0, nil
	}
	var keys []mayfly.BlobKey
	for n := range mayfly.MaxMedia {
		keys = append(keys, mayfly.UploadKey(upload, n), mayfly.RawKey(upload, n))
	}
	there := 0
	for _, key := range keys {
		switch _, err := e.set.Hot.Stat(ctx, key); {
		case errors.Is(err, mayfly.NotFound):
		case err != nil:
			return 0, fmt.Errorf("upload %s: look for %s: %w", upload, key, err)
		default:
			there++
		}
	}
	if err := deleteAll(ctx, e.set.Hot, keys); err != nil {
		return 0, fmt.Errorf("upload %s: %w", upload, err)
	}
	return there, nil
}
