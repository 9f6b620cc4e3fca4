package upload

import (
	"context"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/store"
)

// Abandon erases the media of an upload that will not be published, and returns
// how many objects there were. Objects that an item names are left alone. It
// erases every key that the upload can have (L11), because a medium may be on its
// way. Errors: Unavailable.
func Abandon(ctx context.Context, set store.Set, upload mayfly.ID) (objects int, err error) {
	named, err := set.Rows.Get(ctx, engine.Uploads, engine.UploadKey(upload))
	if err != nil {
		return 0, fmt.Errorf("abandon upload %s: %w", upload, err)
	}
	if named[0] != nil {
		return 0, nil
	}
	var keys []mayfly.BlobKey
	for n := range mayfly.MaxMedia {
		keys = append(keys, mayfly.UploadKey(upload, n), mayfly.RawKey(upload, n))
	}
	for _, key := range keys {
		switch _, err := set.Hot.Stat(ctx, key); {
		case errors.Is(err, mayfly.NotFound):
		case err != nil:
			return 0, fmt.Errorf("abandon upload %s: look for %s: %w", upload, key, err)
		default:
			objects++
		}
	}
	if err := set.Hot.Delete(ctx, keys...); err != nil {
		return 0, fmt.Errorf("abandon upload %s: %w", upload, err)
	}
	return objects, nil
}

// erasePage is how many reservations are read at once.
const erasePage = 100

// EraseOf removes every reservation of a user with the media that have arrived,
// and returns how many rows and objects there were (ST14). Errors: Corrupt,
// Unavailable.
func EraseOf(ctx context.Context, set store.Set, user mayfly.UserID) (rows, objects int, err error) {
	r := store.Range{Partition: string(user[:]), Limit: erasePage}
	for {
		page, err := set.Rows.Range(ctx, Reservations, r)
		if err != nil {
			return rows, objects, fmt.Errorf("erase reservations: %w", err)
		}
		for _, row := range page {
			n, err := eraseReservation(ctx, set, store.Key{Partition: r.Partition, Clustering: row.Clustering}, row.Value)
			if err != nil {
				return rows, objects, fmt.Errorf("erase reservations: %w", err)
			}
			rows, objects = rows+1, objects+n
		}
		if len(page) < r.Limit {
			return rows, objects, nil
		}
		r.From = page[len(page)-1].Clustering + "\x00"
	}
}

// eraseReservation removes one: its objects first, because the row is what finds
// them, and again whenever the row has changed, because then a medium has arrived.
// What arrives after the row is gone is removed by the request that put it.
func eraseReservation(ctx context.Context, set store.Set, key store.Key, old []byte) (objects int, err error) {
	if len(key.Clustering) != len(mayfly.ID{}) {
		return 0, mayfly.Errorf(mayfly.Corrupt, "the key of a reservation has %d bytes", len(key.Clustering))
	}
	_, err = store.UpdateFrom(ctx, set.Rows, Reservations, key, old, 0, func(old []byte) ([]byte, error) {
		if old == nil {
			return nil, nil
		}
		n, err := Abandon(ctx, set, mayfly.ID([]byte(key.Clustering)))
		objects += n
		return nil, err
	})
	return objects, err
}
