package archive_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

func TestAnExpiredStoryGoesToColdVerifiedAndHotIsErased(t *testing.T) {
	h := open(t)
	items := h.expire(h.story(3), h.story(0), h.story(1))
	failures, err := h.archive(7, items...)
	if err != nil || len(failures) > 0 {
		t.Fatal(failures, err)
	}
	for _, item := range h.rows(items) {
		if item.State != mayfly.Cold || item.Run != 7 || item.Keys.Hot != 0 {
			t.Fatalf("%+v", item)
		}
		h.readable(item.ID, hydrate.Cold)
	}
	if hot, cold := h.objects(h.real.Hot), h.objects(h.real.Cold); hot != 0 || cold != 4 {
		t.Fatalf("%d objects are hot and %d cold", hot, cold)
	}
}

func TestMediaAreReadableAtEveryMomentOfTheArchive(t *testing.T) {
	h := open(t)
	items := h.expire(h.story(2))
	moments := 0
	h.set.Ledger = &transitions{Ledger: h.real.Ledger, after: func(int) { moments++; h.readable(items[0].ID, 0) }}
	h.set.Hot = deleting{h.real.Hot, func() { moments++; h.readable(items[0].ID, 0) }}
	if failures, err := h.archive(7, items...); err != nil || len(failures) > 0 {
		t.Fatal(failures, err)
	}
	h.readable(items[0].ID, hydrate.Cold)
	if moments < 4 {
		t.Fatalf("only %d moments were looked at", moments)
	}
}

type deleting struct {
	store.Blobs
	after func()
}

func (d deleting) Delete(ctx context.Context, keys ...mayfly.BlobKey) error {
	err := d.Blobs.Delete(ctx, keys...)
	d.after()
	return err
}

// liar is a cold tier that says yes and does something else.
type liar struct {
	store.Blobs
	lie func(data []byte) []byte // what it stores instead; nil stores nothing
}

func (l liar) Put(ctx context.Context, key mayfly.BlobKey, r io.Reader) (store.Object, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return store.Object{}, err
	}
	if data = l.lie(data); data == nil {
		return store.Object{Key: key, Size: 1}, nil
	}
	return l.Blobs.Put(ctx, key, bytes.NewReader(data))
}

func TestHotIsNeverErasedBehindALyingColdTier(t *testing.T) {
	for name, lie := range map[string]func([]byte) []byte{
		"wrong bytes":             func(b []byte) []byte { return bytes.Repeat([]byte{'x'}, len(b)) },
		"truncated":               func(b []byte) []byte { return b[:len(b)-1] },
		"one bit":                 func(b []byte) []byte { b[17] ^= 1; return b },
		"success without writing": func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			items := h.expire(h.story(1), h.story(2))
			h.set.Cold = liar{h.real.Cold, lie}
			failures, err := h.archive(7, items...)
			if err != nil || len(failures) != 2 {
				t.Fatalf("%d failures, %v", len(failures), err)
			}
			for _, item := range h.rows(items) {
				if item.State != mayfly.Archiving || item.Keys.Cold != 0 {
					t.Fatalf("%+v", item)
				}
				h.readable(item.ID, hydrate.Hot)
			}
			h.set.Cold = h.real.Cold // it tells the truth again: another worker takes over
			if failures, err := h.archive(8, h.rows(items)...); err != nil || len(failures) > 0 {
				t.Fatal(failures, err)
			}
			for _, item := range items {
				h.readable(item.ID, hydrate.Cold)
			}
			if hot, cold := h.objects(h.real.Hot), h.objects(h.real.Cold); hot != 0 || cold != 3 {
				t.Fatalf("%d objects are hot and %d cold: the first claim left something", hot, cold)
			}
		})
	}
}

// change changes a row directly, as another process would.
func (h *fixture) change(id mayfly.ID, c mayfly.Change) {
	h.Helper()
	item := h.row(id)
	c.ID, c.From, c.Generation, c.Nonce, c.At = id, item.State, item.Generation, 99, h.now
	if c.To == 0 {
		c.To = item.State
	}
	outcomes, err := h.real.Ledger.Transition(context.Background(), []mayfly.Change{c})
	h.must(err)
	if outcomes[0].Result != store.Applied {
		h.Fatalf("%+v", outcomes[0])
	}
}

func TestChangesByOthersMeanwhileAreKept(t *testing.T) {
	for call := 1; call <= 2; call++ { // after the claim, and after the cold keys are in the row
		h := open(t)
		deleted, held := h.story(1), h.story(1)
		items := h.expire(deleted, held)
		h.set.Ledger = &transitions{Ledger: h.real.Ledger, after: func(n int) {
			if n == call {
				h.change(deleted.ID, mayfly.Change{To: mayfly.Deleted, Cause: mayfly.ByUser})
				h.change(held.ID, mayfly.Change{Hold: mayfly.SetHold, Cause: mayfly.BySupport})
			}
		}}
		if _, err := h.archive(7, items...); err != nil {
			t.Fatal(err)
		}
		if row := h.row(deleted.ID); row.State != mayfly.Deleted {
			t.Fatalf("after call %d the deleted one is %s", call, row.State)
		}
		if row := h.row(held.ID); row.State != mayfly.Archiving || !row.Held {
			t.Fatalf("after call %d the held one is %s", call, row.State)
		}
		h.readable(held.ID, 0)
	}
}

func TestAHeldItemIsLeftAlone(t *testing.T) {
	h := open(t)
	items := h.expire(h.story(1))
	h.change(items[0].ID, mayfly.Change{Hold: mayfly.SetHold})
	before := h.row(items[0].ID)
	if failures, err := h.archive(7, before); err != nil || len(failures) > 0 {
		t.Fatal(failures, err)
	}
	if h.row(items[0].ID) != before {
		t.Fatal("the row was moved")
	}
	h.readable(items[0].ID, hydrate.Hot)
}

func TestAStaleWorkerWritesNothingAndDeletesOnlyWhatIsDead(t *testing.T) {
	h := open(t)
	items := h.expire(h.story(1))
	h.set.Ledger = &transitions{Ledger: h.real.Ledger, after: func(n int) {
		if n != 1 { // it stops after its claim; another worker does it all
			return
		}
		real := *h
		real.set = h.real
		if failures, err := real.archive(8, h.rows(items)...); err != nil || len(failures) > 0 {
			t.Fatal(failures, err)
		}
	}}
	if _, err := h.archive(7, items...); err != nil {
		t.Fatal(err)
	}
	if row := h.row(items[0].ID); row.State != mayfly.Cold || row.Run != 8 {
		t.Fatalf("%+v", row)
	}
	h.readable(items[0].ID, hydrate.Cold)
}

func TestArchivingTwiceTellsTheLogAgainAndMovesNothing(t *testing.T) {
	h := open(t)
	items := h.expire(h.story(1))
	for range 2 {
		if failures, err := h.archive(7, h.rows(items)...); err != nil || len(failures) > 0 {
			t.Fatal(failures, err)
		}
	}
	r, err := h.real.Log.Reader(context.Background(), mayfly.Ends, "test")
	h.must(err)
	records, err := r.Next(context.Background(), 100)
	h.must(errors.Join(err, r.Close()))
	announced := map[mayfly.EventKey]int{}
	for _, record := range records {
		if record.Event.Verb == mayfly.WasArchived {
			announced[record.Event.Key()]++
		}
	}
	if len(announced) != 1 {
		t.Fatalf("%v", announced)
	}
}

// What served once more has its safety window behind the second end, also where the
// walk is late and passes it then (L9).
func TestWhatServedOnceMoreIsNotArchivedBeforeItsWindowIsOver(t *testing.T) {
	h := open(t)
	item := h.expire(h.story(1))[0]
	h.change(item.ID, mayfly.Change{To: mayfly.Active, Cause: mayfly.BySupport, ServesUntil: h.now.Add(time.Hour)})
	h.now = h.row(item.ID).ServesUntil
	if failures, err := h.sweep().Act(t.Context(), h.batch(2, h.row(item.ID))); err != nil || len(failures) > 0 {
		t.Fatal(failures, err)
	}
	item = h.row(item.ID)
	for _, left := range []time.Duration{90 * time.Minute, time.Millisecond, 0} {
		h.now = item.ServesUntil.Add(90*time.Minute - left)
		if failures, err := h.archive(7, h.row(item.ID)); err != nil || len(failures) > 0 {
			t.Fatal(failures, err)
		}
		if row := h.row(item.ID); (row.State == mayfly.Cold) != (left == 0) {
			t.Errorf("%s before its window is over it is %s", left, row.State)
		}
	}
}

// A batch that failed is tried again from the rows as they were read: what the
// failed try has claimed or archived already is not forgotten.
func TestATryThatFailedIsMadeGoodFromTheRowsAsTheyWereRead(t *testing.T) {
	away := mayfly.Errorf(mayfly.Unavailable, "away")
	for name, broken := range map[string]func(h *fixture){
		"after the claim": func(h *fixture) {
			h.set.Hot = storetest.FaultyBlobs(h.real.Hot, func(storetest.BlobCall) storetest.BlobFault { return storetest.Before })
		},
		"before hot is erased": func(h *fixture) {
			h.set.Hot = storetest.FaultyBlobs(h.real.Hot, func(c storetest.BlobCall) storetest.BlobFault {
				return map[bool]storetest.BlobFault{true: storetest.Before}[c.Op == "delete"]
			})
		},
		"before the event": func(h *fixture) { h.set.Log = silent{h.real.Log, away} },
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			items := h.expire(h.story(1), h.story(2))
			broken(h)
			if _, err := h.archive(7, items...); !errors.Is(err, mayfly.Unavailable) {
				t.Fatal(err)
			}
			h.set = h.real
			if failures, err := h.archive(7, items...); err != nil || len(failures) > 0 {
				t.Fatal(failures, err)
			}
			for _, item := range items {
				h.readable(item.ID, hydrate.Cold)
			}
			h.exact(items...)
			if announced := h.events(mayfly.WasArchived); len(announced) != 2 {
				t.Errorf("%v", announced)
			}
		})
	}
}

// silent is a log that is away.
type silent struct {
	store.Log
	err error
}

func (s silent) Append(context.Context, ...mayfly.Event) error { return s.err }

// Two workers that both believe to hold the shard archive every item once.
func TestWorkersThatRunAtTheSameTimeLoseNothing(t *testing.T) {
	h := open(t)
	var items []mayfly.Item
	for n := range 40 {
		items = append(items, h.story(n%3))
	}
	items = h.expire(items...)
	a := h.newArchive()
	parked := make([][]walk.Failure, 4)
	var wg sync.WaitGroup
	for n := range parked {
		wg.Go(func() {
			var err error
			if parked[n], err = a.Act(t.Context(), h.batch(mayfly.Run(n+1), items...)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, failures := range parked { // what is parked comes back by its reminder
		for _, f := range failures {
			if more, err := h.archive(0, h.row(f.Item.ID)); err != nil || len(more) > 0 {
				t.Fatal(more, err)
			}
		}
	}
	for _, item := range items {
		h.readable(item.ID, hydrate.Cold)
	}
	if n := h.left(items); n > 0 {
		t.Errorf("%d items are neither archived nor parked", n)
	}
	h.exact(items...)
}

// Claims and restores that crashed before their change have left objects under
// any generation that they could have had: they go with hot (L12).
func TestWhatCrashedClaimsAndRestoresLeftGoesWithHot(t *testing.T) {
	for takeovers := range 4 {
		h := open(t)
		items := h.expire(h.story(2))
		leave := func() { // as a claim or a restore of the row as it is would write it
			row := h.row(items[0].ID)
			for n := range int(row.Media) {
				for _, tier := range []store.Blobs{h.real.Hot, h.real.Cold} {
					_, err := tier.Put(t.Context(), row.MediaKey(row.Generation+1, n), bytes.NewReader(content(n)))
					h.must(err)
				}
			}
		}
		leave()
		for range takeovers {
			h.change(items[0].ID, mayfly.Change{To: mayfly.Archiving, Cause: mayfly.ByArchive})
			leave()
		}
		if failures, err := h.archive(7, h.rows(items)...); err != nil || len(failures) > 0 {
			t.Fatal(failures, err)
		}
		h.readable(items[0].ID, hydrate.Cold)
		h.exact(items...)
	}
}
