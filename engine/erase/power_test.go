package erase_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// deed is something long that a power loss breaks off: what is there before it,
// how it is done, and what must be true on the disk of a crash, at once and when
// it has been done again.
type deed struct {
	prepare func(h *house)
	do      func(h *house, ack func()) // ack counts what was acknowledged
	after   func(h *house, acked int) (state string)
}

// crashed does a deed, and recovers from a power loss at every write of it. A small
// deed is done again, with other shares surviving: how many writes it takes is left
// to how they are grouped.
func crashed(t *testing.T, name string, rng *rand.Rand, d deed) {
	t.Helper()
	const enough = 20
	points, states := 0, map[string]bool{}
	for round := 0; round < 3 && points < enough; round++ {
		points += crashedOnce(t, rng, d, states)
	}
	storetest.Proof(t, name, "crash points", points)
	storetest.Proof(t, name, "distinct states", len(states))
	if points < enough || len(states) < 3 {
		t.Fatalf("%d crash points and %d states prove little", points, len(states))
	}
}

func crashedOnce(t *testing.T, rng *rand.Rand, d deed, states map[string]bool) (points int) {
	t.Helper()
	cam := &storetest.Camera[int]{Disk: vfs.NewCrashableMem(), RNG: rng, First: rng.IntN(5)}
	h := openOn(t, cam.FS())
	d.prepare(h)
	var acked atomic.Int64
	cam.On(func() int { return int(acked.Load()) })
	d.do(h, func() { acked.Add(1) })
	photos, _ := cam.Off()
	h.must(h.close())
	for i, p := range photos {
		again := openOn(t, p.FS)
		again.now, again.TB = h.now, named{t, fmt.Sprintf("%d of %d, %s", i, len(photos), p)}
		states[d.after(again, p.Known)] = true
		again.must(again.close())
	}
	return len(photos)
}

// whole wants everything of an item that is not erased, byte for byte.
func (h *house) whole(item mayfly.Item) {
	h.Helper()
	row := h.row(item.ID)
	tier, g := h.real.Hot, row.Keys.Hot
	if row.Keys.Cold != 0 {
		tier, g = h.real.Cold, row.Keys.Cold
	}
	for n := range int(row.Media) {
		r, _, err := tier.Open(context.Background(), row.MediaKey(g, n), store.Span{})
		if err != nil {
			h.Fatalf("LOST: medium %d of %+v: %v", n, row, err)
		}
		b, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil || !bytes.Equal(b, content(n)) {
			h.Fatalf("LOST: medium %d of %+v: %d bytes, %v", n, row, len(b), err)
		}
	}
	if !h.hasBody(item.ID) {
		h.Fatalf("LOST: the content of %s", item.ID)
	}
}

// ST14: what was answered stays erased, what never began is whole, and what is
// held or another's stays.
func TestPowerLossWhileAnAccountIsErasedBringsNothingBack(t *testing.T) {
	var mine, others []mayfly.Item
	var held mayfly.Item
	crashed(t, "power loss, account erasure", seeded(t), deed{
		prepare: func(h *house) {
			mine, others = h.belongings(ana()), h.belongings(ben())
			held = h.story(1)
			h.hold(held.ID)
		},
		do: func(h *house, ack func()) {
			e := h.accounted()
			_, err := e.Account(h.Context(), ana(), "support", "asked to", h.now)
			h.must(err)
			ack()
			h.now = h.now.Add(time.Minute)
			_, err = e.Accounts(h.Context(), h.now)
			h.must(err)
			ack()
		},
		after: func(h *house, acked int) string {
			e, ctx := h.accounted(), context.Background()
			_, err := e.Replay(ctx, h.now) // as a start does, before the first read
			h.must(err)
			_, err = erase.ReceiptOf(ctx, h.real.Rows, ana())
			began := err == nil
			switch {
			case !began && !errors.Is(err, mayfly.NotFound):
				h.Fatal(err)
			case !began && acked > 0:
				h.Fatalf("RESURRECTED: the account, whose erasure was answered")
			case !began && h.scan(ana()).Count < 22:
				h.Fatalf("LOST: it never began, and %+v is left", h.scan(ana()))
			}
			state := fmt.Sprint(began, acked, h.scan(ana()).Count)
			if began {
				for range 2 {
					h.now = h.now.Add(time.Minute)
					_, err = e.Accounts(ctx, h.now)
					h.must(err)
				}
				h.must(h.reminders(e, h.now.Add(soon)))
				if left := h.scan(ana()); left.Count != 0 {
					h.Fatalf("RESURRECTED: %+v", left)
				}
				for _, item := range mine {
					if left := h.traces(item); len(left) > 0 {
						h.Fatalf("ORPHAN: %v", left)
					}
				}
			}
			h.whole(held)
			if !h.row(held.ID).Held {
				h.Fatalf("the hold is gone: %+v", h.row(held.ID))
			}
			for _, item := range others {
				if h.found(item.ID).Item.State != mayfly.Deleted {
					h.whole(item)
				}
			}
			return state
		},
	})
}

// I15, I16: nothing that is named, held or young goes; what went stays away; the
// rest goes with the next runs.
func TestPowerLossWhileOrphansAreCollectedTakesNothingThatAnybodyNames(t *testing.T) {
	var stay []mayfly.Item
	var held mayfly.Item
	var young mayfly.BlobKey
	const orphans = 14 + 2
	crashed(t, "power loss, orphan collector", seeded(t), deed{
		prepare: func(h *house) {
			stay = []mayfly.Item{h.story(2), h.story(1), h.story(3)}
			h.archive(stay[:2]...)
			held = h.story(1)
			h.hold(held.ID)
			h.upload(9)
			h.upload(5)
			h.put(h.real.Hot, stay[0].MediaKey(1, 1)) // a born object behind its archiving
			h.put(h.real.Cold, h.row(stay[1].ID).MediaKey(2, 0))
			h.put(h.real.Cold, h.row(held.ID).MediaKey(2, 0)) // of a held item: nobody's
			h.now = h.now.Add(2 * day)
			young = mayfly.UploadKey(h.upload(1).ID, 0)
		},
		do: func(h *house, ack func()) {
			for range 2 { // ten, and the rest
				h.collect(false)
				ack()
			}
		},
		after: func(h *house, acked int) string {
			left := h.collect(true).Orphans
			if left > orphans-min(10*acked, orphans) {
				h.Fatalf("RESURRECTED: %d orphans are there after %d runs", left, acked)
			}
			for range 3 {
				if r := h.collect(false); r.Deleted > 10 || r.Missing > 0 {
					h.Fatalf("%+v", r)
				}
			}
			if r := h.collect(true); r.Orphans > 0 {
				h.Fatalf("ORPHAN: %+v", r)
			}
			for _, item := range append(stay, held) {
				h.whole(item)
			}
			hot, cold := h.keys(h.real.Hot), h.keys(h.real.Cold)
			if !slices.Contains(hot, young) || len(hot) != 3+1+1 || len(cold) != 3+1 {
				h.Fatalf("hot has %v, cold has %v", hot, cold)
			}
			return fmt.Sprint(left, acked)
		},
	})
}

// L9: a scrub erases nothing, wherever it stops; a row that it has moved has its
// reminder, and the archive copies again from hot.
func TestPowerLossWhileScrubbingLosesNoCopyAndNoReminder(t *testing.T) {
	var good, bad, stuck, held mayfly.Item
	var hot, cold []mayfly.BlobKey
	rows := func(h *house) []mayfly.Item { return h.rows([]mayfly.Item{good, bad, held}) }
	var before []mayfly.Item
	var was mayfly.Item
	round := func(h *house) (found erase.ScrubReport) {
		for range 50 {
			r, err := h.eraser().ScrubOn(context.Background(), erase.ScrubRun{
				Rows: erase.Span{From: born, To: born.Add(4 * time.Hour)}, Now: h.now, BytesPerSecond: fast,
			}, day)
			h.must(err)
			found.BadObjects, found.Again = found.BadObjects+r.BadObjects, found.Again+r.Again
			if r.Whole {
				return found
			}
		}
		h.Fatalf("the scrub comes to no end")
		return found
	}
	crashed(t, "power loss, scrub", seeded(t), deed{
		prepare: func(h *house) {
			good, bad = h.story(2), h.publish(intake.Draft{Owner: ben(), Fate: mayfly.Archive}, 2)
			h.archive(good, bad)
			h.now = h.now.Add(10 * time.Minute)
			stuck, held = h.story(1), h.story(1)
			h.now = h.now.Add(2 * time.Hour)
			h.sweep(stuck, held)
			for _, item := range []mayfly.Item{stuck, held} { // as a worker leaves them that stopped before it erased hot
				row := h.change(item.ID, mayfly.Change{To: mayfly.Archiving, Cause: mayfly.ByArchive})
				h.put(h.real.Cold, row.MediaKey(row.Generation, 0))
				h.change(item.ID, mayfly.Change{To: mayfly.Archiving, Cause: mayfly.ByArchive, Keys: &mayfly.Keys{Hot: 1, Cold: row.Generation}})
			}
			h.hold(held.ID)
			row := h.row(bad.ID)
			h.spoil(h.real.Cold, row.MediaKey(row.Keys.Cold, 0), func(b []byte) []byte { return b[1:] })
			h.now = h.now.Add(10 * time.Minute)
			hot, cold, before, was = h.keys(h.real.Hot), h.keys(h.real.Cold), rows(h), h.row(stuck.ID)
		},
		do: func(h *house, ack func()) {
			if r := round(h); r.BadObjects != 3 || r.Again != 1 {
				h.Fatalf("%+v", r)
			}
			ack()
		},
		after: func(h *house, acked int) string {
			same := func() {
				if !slices.Equal(h.keys(h.real.Hot), hot) || !slices.Equal(h.keys(h.real.Cold), cold) || !slices.Equal(rows(h), before) {
					h.Fatalf("LOST: a scrub changed something:\n%v\n%v\n%+v", h.keys(h.real.Hot), h.keys(h.real.Cold), rows(h))
				}
			}
			same()
			row := h.row(stuck.ID)
			if moved := row != was; moved && (row.Keys != mayfly.Keys{Hot: 1} || !h.reminded(row.ID)) {
				h.Fatalf("LOST: it was moved, and nobody comes back to it: %+v", row)
			} else if acked > 0 && !moved {
				h.Fatalf("what was answered is not there: %+v", row)
			}
			state := fmt.Sprint(row.Generation, h.reminded(row.ID), acked)
			round(h) // goes on with the round that stopped
			h.now = h.now.Add(day)
			if r := round(h); r.BadObjects != 2 {
				h.Fatalf("the next round finds %+v", r)
			}
			same()
			a, err := archive.New(h.real, archive.Options{})
			h.must(err)
			h.acted(a.Act(context.Background(), walk.Batch{Items: h.rows([]mayfly.Item{stuck}), Now: h.now, Repeat: true}))
			if h.row(stuck.ID).State != mayfly.Cold {
				h.Fatalf("%+v", h.row(stuck.ID))
			}
			h.whole(stuck)
			h.whole(good)
			return state
		},
	})
}

// reminded says whether the archive will come back to an item.
func (h *house) reminded(id mayfly.ID) bool {
	h.Helper()
	for due := h.now.Minute(); due <= h.now.Add(10*time.Minute).Minute(); due++ {
		rows, err := h.real.Rows.Range(context.Background(), store.Reminders, store.Range{Partition: remind.Partition(due, id.Shard()), Limit: 100})
		h.must(err)
		for _, row := range rows {
			if r, err := remind.Read(row); err == nil && r.ID == id && r.Step == remind.Archive {
				return true
			}
		}
	}
	return false
}
