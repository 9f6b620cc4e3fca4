package scrub_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/scrub"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
	"github.com/mayflyhq/mayfly/test/erasure"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// L9: a scrub erases nothing, wherever it stops; a row that it has moved has its
// reminder, and the archive copies again from hot.
func TestPowerLossWhileScrubbingLosesNoCopyAndNoReminder(t *testing.T) {
	var good, bad, stuck, held mayfly.Item
	var hot, cold []mayfly.BlobKey
	rows := func(fx *erasure.Fixture) []mayfly.Item { return fx.Rows(good.ID, bad.ID, held.ID) }
	var before []mayfly.Item
	var was mayfly.Item
	round := func(fx *erasure.Fixture) (found scrub.Report) {
		for range 50 {
			r, err := fx.Scrubber().Next(context.Background(), scrub.Run{
				Rows: walk.Span{From: fixture.Start, To: fixture.Start.Add(4 * time.Hour)}, Now: fx.Now, BytesPerSecond: erasure.Fast,
			}, erasure.Day)
			fx.Must(err)
			found.BadObjects, found.Again = found.BadObjects+r.BadObjects, found.Again+r.Again
			if r.Whole {
				return found
			}
		}
		fx.Fatalf("the scrub comes to no end")
		return found
	}
	erasure.PowerLoss(t, "power loss, scrub", fixture.Seeded(t), erasure.Operation{
		Prepare: func(fx *erasure.Fixture) {
			good, bad = fx.Story(2), fx.StoryOf(fixture.Ben(), 2)
			fx.MoveToCold(good, bad)
			fx.Now = fx.Now.Add(10 * time.Minute)
			stuck, held = fx.Story(1), fx.Story(1)
			fx.Now = fx.Now.Add(2 * time.Hour)
			fx.Expire(stuck, held)
			for _, item := range []mayfly.Item{stuck, held} { // as a worker leaves them that stopped before it erased hot
				row := fx.Change(item.ID, mayfly.Change{To: mayfly.Archiving, Cause: mayfly.ByArchive})
				fx.Put(fx.Real.Cold, row.MediaKey(row.Generation, 0))
				fx.Change(item.ID, mayfly.Change{To: mayfly.Archiving, Cause: mayfly.ByArchive, Keys: &mayfly.Keys{Hot: 1, Cold: row.Generation}})
			}
			fx.Hold(held.ID)
			row := fx.Row(bad.ID)
			fx.Spoil(fx.Real.Cold, row.MediaKey(row.Keys.Cold, 0), func(b string) string { return b[1:] })
			fx.Now = fx.Now.Add(10 * time.Minute)
			hot, cold, before, was = fx.Objects(fx.Real.Hot), fx.Objects(fx.Real.Cold), rows(fx), fx.Row(stuck.ID)
		},
		Do: func(fx *erasure.Fixture, ack func()) {
			if r := round(fx); r.BadObjects != 3 || r.Again != 1 {
				fx.Fatalf("%+v", r)
			}
			ack()
		},
		After: func(fx *erasure.Fixture, acked int) string {
			same := func() {
				if !slices.Equal(fx.Objects(fx.Real.Hot), hot) || !slices.Equal(fx.Objects(fx.Real.Cold), cold) || !slices.Equal(rows(fx), before) {
					fx.Fatalf("LOST: a scrub changed something:\n%v\n%v\n%+v", fx.Objects(fx.Real.Hot), fx.Objects(fx.Real.Cold), rows(fx))
				}
			}
			same()
			row := fx.Row(stuck.ID)
			if moved := row != was; moved && (row.Keys != mayfly.Keys{Hot: 1} || !reminded(fx, row.ID)) {
				fx.Fatalf("LOST: it was moved, and no reminder comes back to it: %+v", row)
			} else if acked > 0 && !moved {
				fx.Fatalf("what was answered is not there: %+v", row)
			}
			state := fmt.Sprint(row.Generation, reminded(fx, row.ID), acked)
			round(fx) // goes on with the round that stopped
			fx.Now = fx.Now.Add(erasure.Day)
			if r := round(fx); r.BadObjects != 2 {
				fx.Fatalf("the next round finds %+v", r)
			}
			same()
			a, err := archive.New(fx.Real, archive.Options{})
			fx.Must(err)
			fx.WantActed(a.Act(context.Background(), walk.Batch{Items: fx.Rows(stuck.ID), Now: fx.Now, Repeat: true}))
			if fx.Row(stuck.ID).State != mayfly.Cold {
				fx.Fatalf("%+v", fx.Row(stuck.ID))
			}
			fx.WantIntact(stuck)
			fx.WantIntact(good)
			return state
		},
	})
}

func TestAScrubFindsEveryColdCopyThatIsNotWhatWasUploaded(t *testing.T) {
	fx := erasure.Open(t)
	items := []mayfly.Item{fx.Story(3), fx.Story(3), fx.Story(3), fx.Story(0)}
	fx.MoveToCold(items...)
	if r := fx.Scrub(erasure.Fast); r.Items != 3 || r.Objects != 9 || r.BadObjects != 0 || r.Bytes != 9*int64(len(fixture.Medium(0))) {
		t.Fatalf("of a healthy tier: %+v", r)
	}
	key := func(i, n int) mayfly.BlobKey { row := fx.Row(items[i].ID); return row.MediaKey(row.Keys.Cold, n) }
	fx.Spoil(fx.Real.Cold, key(0, 1), func(b string) string { return b[:17] + "x" + b[18:] })
	fx.Spoil(fx.Real.Cold, key(1, 1), func(b string) string { return b[:len(b)-1] })
	fx.Must(fx.Real.Cold.Delete(t.Context(), key(2, 0)))
	before, held := rowsOf(fx, items), contents(fx, fx.Real.Cold)
	r := fx.Scrub(erasure.Fast)
	bad := map[mayfly.BlobKey]bool{}
	for _, b := range r.Bad {
		bad[b.Key] = true
	}
	if r.BadObjects != 3 || len(bad) != 3 || !bad[key(0, 1)] || !bad[key(1, 1)] || !bad[key(2, 0)] || r.Again != 0 {
		t.Fatalf("%+v", r)
	}
	for i, row := range rowsOf(fx, items) {
		if row != before[i] {
			t.Fatal("a row was moved")
		}
	}
	if !maps.Equal(contents(fx, fx.Real.Cold), held) {
		t.Fatal("a scrub wrote to what is cold")
	}
}

func TestAScrubLetsTheArchiveCopyAgainWhereHotIsWhole(t *testing.T) {
	fx := erasure.Open(t)
	whole, gone := fx.Story(1), fx.Story(1)
	fx.Expire(whole, gone)
	fx.Now = fixture.Start.Add(150 * time.Minute)
	for _, item := range []mayfly.Item{whole, gone} { // as a worker leaves them that stopped before it erased hot
		row := fx.Change(item.ID, mayfly.Change{To: mayfly.Archiving, Cause: mayfly.ByArchive})
		fx.Put(fx.Real.Cold, row.MediaKey(row.Generation, 0))
		fx.Change(item.ID, mayfly.Change{To: mayfly.Archiving, Cause: mayfly.ByArchive, Keys: &mayfly.Keys{Hot: 1, Cold: row.Generation}})
	}
	fx.Must(fx.Real.Hot.Delete(t.Context(), gone.MediaKey(1, 0)))
	before := fx.Row(gone.ID)
	fx.Now = fx.Now.Add(10*time.Minute - 1)
	if r := fx.Scrub(erasure.Fast); r.BadObjects != 2 || r.Again != 0 {
		t.Fatalf("while the worker may be about to erase hot: %+v", r)
	}
	fx.Now++
	if r := fx.Scrub(erasure.Fast); r.BadObjects != 2 || r.Again != 1 {
		t.Fatalf("%+v", r)
	}
	if fx.Row(gone.ID) != before {
		t.Fatal("the row of one whose hot copy is gone was moved")
	}
	due := fx.Now.Add(2 * time.Minute)
	notes, err := fx.Real.Rows.Range(t.Context(), remind.Reminders, store.Range{Partition: remind.Partition(due.Minute(), whole.ID.Shard()), Limit: 9})
	fx.Must(err)
	if note, err := remind.Read(notes[0]); err != nil || len(notes) != 1 || note.ID != whole.ID || note.Step != remind.Archive {
		t.Fatalf("%+v, %v", note, err)
	}
	a, err := archive.New(fx.Real, archive.Options{})
	fx.Must(err)
	fx.WantActed(a.Act(t.Context(), walk.Batch{Items: fx.Rows(whole.ID), Now: fx.Now, Repeat: true}))
	if r := fx.Scrub(erasure.Fast); r.BadObjects != 1 || fx.Row(whole.ID).State != mayfly.Cold {
		t.Fatalf("after the archive: %+v, %+v", r, fx.Row(whole.ID))
	}
}

func TestAScrubReadsNoFasterThanItMay(t *testing.T) {
	fx := erasure.Open(t)
	fx.MoveToCold(fx.Story(2))
	size := int64(2 * len(fixture.Medium(0)))
	took := loop.Measure(func() { fx.Scrub(size * 20) }) // 50 ms
	if took < 50*time.Millisecond {
		t.Fatalf("it took %s", took)
	}
}

// L9: in rounds behind a durable position, which another process goes on from.
func TestAScrubGoesOnWhereItStoppedAndBeginsAnewAfterItsTime(t *testing.T) {
	fx := erasure.Open(t)
	var items []mayfly.Item
	for range 6 {
		items = append(items, fx.Story(2))
		fx.Now = fx.Now.Add(7 * time.Minute)
	}
	fx.MoveToCold(items...)
	size := int64(len(fixture.Medium(0)))
	on := func() scrub.Report { // by an eraser that remembers nothing
		r, err := fx.Scrubber().Next(t.Context(), scrub.Run{
			Rows: walk.Span{From: fixture.Start, To: fixture.Start.Add(2 * time.Hour)}, Now: fx.Now, BytesPerSecond: erasure.Fast,
		}, erasure.Day)
		fx.Must(err)
		return r
	}
	round := func() (objects, calls int) {
		for ; calls < 100; calls++ {
			r := on()
			objects += r.Objects
			if r.Bytes != int64(r.Objects)*size {
				t.Fatalf("%+v", r)
			}
			if r.Whole {
				return objects, calls
			}
		}
		t.Fatal("it comes to no end")
		return 0, 0
	}
	if objects, calls := round(); objects != 12 || calls < 6 {
		t.Fatalf("%d objects in %d calls", objects, calls)
	}
	fx.Now = fx.Now.Add(erasure.Day - time.Millisecond)
	if objects, _ := round(); objects != 0 {
		t.Fatalf("%d objects were read again too erasure.Soon", objects)
	}
	fx.Now++
	row := fx.Row(items[3].ID)
	fx.Spoil(fx.Real.Cold, row.MediaKey(row.Keys.Cold, 1), func(b string) string { return b[1:] })
	bad := 0
	for r := on(); !r.Whole; r = on() {
		bad += r.BadObjects
	}
	if bad != 1 || fx.Row(items[3].ID) != row {
		t.Fatalf("%d bad objects were found", bad)
	}
}

// rowsOf returns the rows of items.
func rowsOf(fx *erasure.Fixture, items []mayfly.Item) (rows []mayfly.Item) {
	fx.Helper()
	for _, item := range items {
		rows = append(rows, fx.Row(item.ID))
	}
	return rows
}

// reminded reports whether a reminder of the archive names an item.
func reminded(fx *erasure.Fixture, id mayfly.ID) bool {
	fx.Helper()
	return slices.ContainsFunc(fx.Reminders(fx.Now, fx.Now.Add(10*time.Minute)), func(r remind.Reminder) bool {
		return r.ID == id && r.Step == remind.Archive
	})
}

// contents returns the objects of a tier with their bytes.
func contents(fx *erasure.Fixture, tier store.Blobs) map[mayfly.BlobKey]string {
	fx.Helper()
	all := map[mayfly.BlobKey]string{}
	for _, key := range fx.Objects(tier) {
		r, _, err := tier.Open(fx.Context(), key, store.Span{})
		fx.Must(err)
		b, err := io.ReadAll(r)
		fx.Must(errors.Join(err, r.Close()))
		all[key] = string(b)
	}
	return all
}
