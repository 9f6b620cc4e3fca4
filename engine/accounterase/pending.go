package accounterase

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

// Pending lists the accounts that have a pass to come, by the hour in which it is
// due. Entries are never deleted one by one, because each would be a tombstone that
// the next read goes over: an hour is dropped when the watermark has left it.
var Pending = store.DeclareTable(store.Declaration{
	Name: "erasures", Number: 22, Purpose: "hour → accounts whose erasure has a pass to come, by instant",
	Mode: store.Plain, Erasure: store.Kept, NotByServer: true,
})

// Tables returns the tables that this package declares.
func Tables() []store.Table { return []store.Table{Pending} }

const (
	pendingFormat = 1
	pendingSize   = 8 + len(mayfly.UserID{})
)

// entry is an account with a pass to come.
type entry struct {
	due    mayfly.Instant
	user   mayfly.UserID
	listed mayfly.Instant // for the first time
}

func hourOf(at mayfly.Instant) uint64 { return uint64(at) / uint64(time.Hour.Milliseconds()) }

func pendingPartition(hour uint64) string { return string(binary.BigEndian.AppendUint64(nil, hour)) }

func instantKey(at mayfly.Instant) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(at)))
}

func readEntry(row store.Row) (entry, error) {
	if len(row.Clustering) != pendingSize || len(row.Value) != 9 || row.Value[0] != pendingFormat {
		return entry{}, mayfly.Errorf(mayfly.Corrupt, "pending erasure with key %x has an unknown format", row.Clustering)
	}
	key := []byte(row.Clustering)
	return entry{
		due: mayfly.Instant(binary.BigEndian.Uint64(key)), user: mayfly.UserID(key[8:]),
		listed: mayfly.Instant(binary.BigEndian.Uint64(row.Value[1:])),
	}, nil
}

// list adds the account to those that have a pass to come.
func (e *Eraser) list(ctx context.Context, user mayfly.UserID, due, listed mayfly.Instant) error {
	key := store.Key{Partition: pendingPartition(hourOf(due)), Clustering: instantKey(due) + string(user[:])}
	var b store.Batch
	b.Put(Pending, key, binary.BigEndian.AppendUint64([]byte{pendingFormat}, uint64(listed)), 0)
	if err := e.set.Writer.Commit(ctx, &b); err != nil {
		return fmt.Errorf("list the account: %w", err)
	}
	return nil
}

// maxHours is how many hours one call of RunDue goes through (I17).
const maxHours = 1_000

// idleSave is how often the watermark is written while nothing is due.
const idleSave = 10 * time.Minute

// due calls do with every entry that is due at now, behind a durable watermark: the
// entries up to there are done or were written again for later. The watermark stays
// Settle behind now, because a slow write may still land there: until it has passed
// an entry, each call hands the entry out. Before it passes one, the account is
// listed for later if do says so. Errors of do do not stop the others.
func (e *Eraser) due(ctx context.Context, now mayfly.Instant, do func(entry) (later mayfly.Instant, err error)) error {
	// Of the shard only the watermark is used. Without one the walk begins as early as
	// one call can look.
	shard := walk.NewShard(e.set.Rows, 0, "accounts", time.Second, max(0, now.Add(-(maxHours-1)*time.Hour)))
	mark, err := walk.LoadWatermark(ctx, e.set.Rows, Pending.String(), shard)
	if err != nil {
		return fmt.Errorf("load the watermark: %w", err)
	}
	from := min(mark.At, now.Add(-e.o.Settle)) // behind now, also if a clock was ahead
	end, to := hourOf(now), now.Add(-e.o.Settle)
	if most := hourOf(from) + maxHours; end > most {
		end, to = most, mayfly.Instant((most+1)*uint64(time.Hour.Milliseconds())-1)
	}
	var failed error
	passed := 0
	for hour := hourOf(from); hour <= end; hour++ {
		r := store.Range{Partition: pendingPartition(hour), From: instantKey(from + 1), To: instantKey(now + 1)}
		err := e.rows(ctx, r, Pending, func(page []store.Row) error {
			for _, row := range page {
				entry, err := readEntry(row)
				later := mayfly.Instant(0)
				if err == nil {
					later, err = do(entry)
				}
				failed = errors.Join(failed, err)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if later != 0 && entry.due <= to {
					if err := e.list(ctx, entry.user, later, entry.listed); err != nil {
						return err
					}
				}
			}
			passed += len(page)
			return nil
		})
		if err != nil {
			return errors.Join(failed, err)
		}
	}
	if to <= mark.At || passed == 0 && to.Sub(mark.At) < idleSave {
		return failed
	}
	if err := e.drop(ctx, hourOf(from), hourOf(to+1)); err != nil {
		return errors.Join(failed, err)
	}
	if err := mark.Move(ctx, e.set.Rows, to, 0); err != nil && !errors.Is(err, mayfly.Conflict) { // another node has moved it
		return errors.Join(failed, fmt.Errorf("move the watermark: %w", err))
	}
	return failed
}

// drop removes the entries of whole hours.
func (e *Eraser) drop(ctx context.Context, first, end uint64) error {
	var b store.Batch
	for hour := first; hour < end; hour++ {
		found, err := e.set.Rows.Range(ctx, Pending, store.Range{Partition: pendingPartition(hour), Limit: 1})
		if err != nil {
			return fmt.Errorf("look for finished erasures: %w", err)
		}
		if len(found) > 0 {
			b.DeletePartition(Pending, pendingPartition(hour))
		}
	}
	if len(b.Stages()) == 0 {
		return nil
	}
	if err := e.set.Writer.Commit(ctx, &b); err != nil {
		return fmt.Errorf("drop finished erasures: %w", err)
	}
	return nil
}
