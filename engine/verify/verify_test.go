package verify_test

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// healthy is a store at rest with one story that serves and one that is cold, the
// record of the client that published both, and a gate that has opened the live one.
type healthy struct {
	*fixture.Engine
	live, cold mayfly.Item
	now        mayfly.Instant
	gate       *gate.Gate
	record     verify.Record
	rowsOnly   bool
	own        store.Table // of items, declared by this test
}

func open(t *testing.T) *healthy {
	own := store.DeclareTable(store.Declaration{Name: "own", Number: 231, Purpose: "item → x", Mode: store.Plain, Erasure: store.PartitionIsItem})
	h := &healthy{Engine: fixture.Open(t, own), now: fixture.Start.Add(5 * time.Hour), own: own}
	short := h.Draft()
	short.Lifetime = fixture.Lifetime(t, time.Hour)
	h.cold = h.Publish(short, fixture.Start, fixture.Media(2)...)
	h.Sweep(h.cold.ID.Deadline(), 1, h.cold.ID)
	h.Archive(h.cold.ID.Deadline(), 2, h.cold.ID)
	h.live = h.Publish(h.Draft(), fixture.Start.Add(2*time.Hour), fixture.Media(2)...)
	var err error
	h.gate, err = gate.New(t.Context(), h.Real, gate.Options{Elapsed: func() time.Duration { return 0 }})
	h.Must(err)
	t.Cleanup(func() { h.Must(h.gate.Close()) })
	_, err = h.gate.Open(t.Context(), h.live.ID, mayfly.Viewer{}, h.now)
	h.Must(err)
	text := "sea"
	published := verify.Expected{Text: &text}
	for _, m := range fixture.Media(2) {
		published.Media = append(published.Media, sha256.Sum256([]byte(m)))
	}
	h.record.Items = map[mayfly.ID]verify.Expected{h.live.ID: published, h.cold.ID: published}
	return h
}

func (h *healthy) verify() *verify.Report {
	h.Helper()
	r, err := verify.Run(h.Context(), h.Real, verify.Options{
		Now: h.now, Bytes: true, Objects: !h.rowsOnly, Group: "verify", Gate: h.gate, Record: &h.record,
	})
	h.Must(err)
	return r
}

func (h *healthy) put(t store.Table, key store.Key, value []byte) {
	h.Helper()
	var b store.Batch
	b.Put(t, key, value, 0)
	h.Must(h.Real.Writer.Commit(h.Context(), &b))
}

// insert writes a birth without an event, as no intake does.
func (h *healthy) insert(birth mayfly.Instant) mayfly.Item {
	h.Helper()
	id, err := mayfly.NewID(birth, fixture.Lifetime(h, 24*time.Hour), fixture.Ana().Trace(), 99)
	h.Must(err)
	item := h.live
	item.ID, item.Media, item.Upload, item.Keys = id, 0, mayfly.ID{}, mayfly.Keys{}
	h.put(engine.Owners, engine.OwnerKey(item.Owner, id), []byte{byte(mayfly.Story)})
	h.InsertItem(item, mayfly.Body{Text: "sea"})
	return item
}

func (h *healthy) expect(id mayfly.ID, change func(*verify.Expected)) {
	e := h.record.Items[id]
	change(&e)
	h.record.Items[id] = e
}

func TestAHealthyStoreHasSevenZeros(t *testing.T) {
	h := open(t)
	r := h.verify()
	if !r.Clean() {
		t.Errorf("%s\n%s", r, strings.Join(r.Faults(), "\n"))
	}
	if r.Items != 2 || r.Media != 4 || r.Bytes == 0 || r.Objects != 4 || r.Events < 4 || r.States["active"] != 1 || r.States["cold"] != 1 {
		t.Errorf("%+v", r)
	}
	if want := "LOST 0  RESURRECTED 0  EARLY 0  LATE 0  LEAK 0  DOUBLE 0  ORPHAN 0"; r.String() != want {
		t.Error(r)
	}
}

// Each violation is planted alone in a healthy store. It is found by its word, and
// by no other.
func TestEveryPlantedViolationIsFoundByItsWord(t *testing.T) {
	found := map[verify.Word]int{}
	for name, tc := range map[string]struct {
		word  verify.Word
		times int
		plant func(t *testing.T, h *healthy)
	}{
		"a medium is gone": {verify.Lost, 1, func(t *testing.T, h *healthy) {
			h.Must(h.Real.Hot.Delete(t.Context(), h.live.MediaKey(mayfly.Born, 0)))
		}},
		"a cold medium has changed": {verify.Lost, 1, func(t *testing.T, h *healthy) {
			row := h.Row(h.cold.ID)
			_, err := h.Real.Cold.Put(t.Context(), row.MediaKey(row.Keys.Cold, 1), strings.NewReader("else"))
			h.Must(err)
		}},
		"an acknowledged birth has no row and no event": {verify.Lost, 2, func(t *testing.T, h *healthy) {
			id, err := mayfly.NewID(fixture.Start, fixture.Lifetime(t, time.Hour), fixture.Ana().Trace(), 77)
			h.Must(err)
			h.record.Items[id] = verify.Expected{}
		}},
		"the log has no event of a birth": {verify.Lost, 1, func(_ *testing.T, h *healthy) {
			h.record.Items[h.insert(fixture.Start.Add(3*time.Hour)).ID] = verify.Expected{}
		}},
		"the text is another": {verify.Lost, 1, func(_ *testing.T, h *healthy) {
			text := "lake"
			h.expect(h.live.ID, func(e *verify.Expected) { e.Text = &text })
		}},
		"the media are others": {verify.Lost, 1, func(_ *testing.T, h *healthy) {
			h.expect(h.cold.ID, func(e *verify.Expected) { e.Media = [][32]byte{{1}, {2}} })
		}},
		"a hold is gone": {verify.Lost, 1, func(_ *testing.T, h *healthy) {
			h.expect(h.live.ID, func(e *verify.Expected) { e.Held = verify.Yes })
		}},
		"an acknowledged delete is undone": {verify.Resurrected, 1, func(_ *testing.T, h *healthy) {
			h.expect(h.live.ID, func(e *verify.Expected) { e.Deleted = verify.Yes })
		}},
		"an erased account has items": {verify.Resurrected, 2, func(t *testing.T, h *healthy) {
			_, _, err := h.Real.Rows.Swap(t.Context(), engine.Erased, engine.ErasedKey(fixture.Ana()), nil, []byte("x"), 0)
			h.Must(err)
		}},
		"the log is ahead of the row": {verify.Resurrected, 1, func(t *testing.T, h *healthy) {
			e := mayfly.EventOf(h.live, mayfly.WasHeld)
			e.Generation = 7
			h.Must(h.Real.Log.Append(t.Context(), e))
		}},
		"a row expired before its deadline": {verify.Early, 1, func(_ *testing.T, h *healthy) {
			h.Change(h.live.ID, mayfly.Change{To: mayfly.ExpiredHot, At: h.live.ID.Deadline()})
		}},
		"the log has an archiving before the deadline": {verify.Early, 1, func(t *testing.T, h *healthy) {
			e := mayfly.EventOf(h.live, mayfly.WasArchived)
			e.At = e.ID.Deadline() - 1
			h.Must(h.Real.Log.Append(t.Context(), e))
		}},
		"a client was refused before the deadline": {verify.Early, 1, func(_ *testing.T, h *healthy) {
			h.record.Reads = []verify.Read{{ID: h.live.ID, Asked: h.now, Answered: h.now}}
		}},
		"an item is not where it should be by now": {verify.Late, 1, func(_ *testing.T, h *healthy) {
			h.expect(h.live.ID, func(e *verify.Expected) { e.State = mayfly.Cold })
		}},
		"a delete did not erase the content": {verify.Late, 1, func(_ *testing.T, h *healthy) {
			item := h.Publish(h.Draft(), fixture.Start)
			h.record.Items[item.ID] = verify.Expected{Deleted: verify.Maybe}
			h.Change(item.ID, mayfly.Change{To: mayfly.Deleted, Cause: mayfly.ByUser, At: item.ID.Birth()})
		}},
		"nothing has ended an item": {verify.Late, 1, func(_ *testing.T, h *healthy) {
			short := h.Draft()
			short.Lifetime = fixture.Lifetime(h, time.Minute)
			h.record.Items[h.Publish(short, fixture.Start).ID] = verify.Expected{}
		}},
		"a client was served past the deadline": {verify.Late, 1, func(_ *testing.T, h *healthy) {
			end := h.cold.ID.Deadline()
			h.record.Reads = []verify.Read{{ID: h.cold.ID, Asked: end, Answered: end, Served: true}, {ID: h.cold.ID, Asked: end - 1, Answered: end, Served: true}}
		}},
		"the gate serves from its cache what is held": {verify.Leak, 2, func(t *testing.T, h *healthy) {
			h.Hold(h.live.ID)
			h.expect(h.live.ID, func(e *verify.Expected) { e.Held = verify.Yes })
			h.Must(h.Real.Log.Append(t.Context(), mayfly.EventOf(h.Row(h.live.ID), mayfly.WasHeld)))
		}},
		"an upload belongs to two items": {verify.Double, 1, func(_ *testing.T, h *healthy) {
			h.put(engine.Uploads, engine.UploadKey(h.live.Upload), h.cold.ID[:])
			h.rowsOnly = true // its objects do not belong to the other item either
		}},
		"no client knows of a row": {verify.Double, 1, func(_ *testing.T, h *healthy) {
			h.insert(fixture.Start.Add(3 * time.Hour))
		}},
		"an item expired twice": {verify.Double, 1, func(t *testing.T, h *healthy) {
			e := mayfly.EventOf(h.Row(h.cold.ID), mayfly.WasExpired)
			h.Must(h.Real.Log.Append(t.Context(), e))
		}},
		"an item that was held expired twice": {verify.Double, 1, func(t *testing.T, h *healthy) {
			held := mayfly.EventOf(h.Hold(h.cold.ID), mayfly.WasHeld)
			e := mayfly.EventOf(h.Release(h.cold.ID), mayfly.WasExpired)
			h.Must(h.Real.Log.Append(t.Context(), held, e))
		}},
		"an item was deleted twice": {verify.Double, 1, func(t *testing.T, h *healthy) {
			item := h.Publish(h.Draft(), fixture.Start)
			h.record.Items[item.ID] = verify.Expected{Deleted: verify.Maybe}
			first := mayfly.EventOf(h.Change(item.ID, mayfly.Change{To: mayfly.Deleted, Cause: mayfly.ByUser, At: h.now}), mayfly.WasDeleted)
			second := first
			second.Generation--
			h.Must(h.Real.Log.Append(t.Context(), first, second))
		}},
		"the log has an item that no client knows of": {verify.Double, 1, func(t *testing.T, h *healthy) {
			stranger := h.live
			stranger.ID[15] ^= 0x10
			h.Must(h.Real.Log.Append(t.Context(), mayfly.EventOf(stranger, mayfly.WasCreated)))
		}},
		"two events have one key": {verify.Double, 1, func(t *testing.T, h *healthy) {
			e := mayfly.EventOf(h.Row(h.cold.ID), mayfly.WasArchived)
			e.At++
			h.Must(h.Real.Log.Append(t.Context(), e))
		}},
		"the log has no event of a restore": {verify.Lost, 1, func(_ *testing.T, h *healthy) {
			h.Change(h.cold.ID, mayfly.Change{To: mayfly.Active, Cause: mayfly.BySupport, At: h.now.Add(-time.Hour), ServesUntil: h.now - 1})
		}},
		"an object of an upload that was not published": {verify.Orphan, 1, func(t *testing.T, h *healthy) {
			id, err := mayfly.NewID(fixture.Start, fixture.Lifetime(t, time.Hour), 0, 1)
			h.Must(err)
			_, err = h.Real.Hot.Put(t.Context(), mayfly.UploadKey(id, 0), strings.NewReader("x"))
			h.Must(err)
		}},
		"an object of an older generation": {verify.Orphan, 1, func(t *testing.T, h *healthy) {
			_, err := h.Real.Hot.Put(t.Context(), h.cold.MediaKey(mayfly.Born, 0), strings.NewReader("x"))
			h.Must(err)
		}},
		"a row of an erased item in a table that a product declares": {verify.Orphan, 1, func(t *testing.T, h *healthy) {
			item := h.Publish(h.Draft(), fixture.Start)
			h.record.Items[item.ID] = verify.Expected{Deleted: verify.Yes}
			h.Change(item.ID, mayfly.Change{To: mayfly.Deleted, Cause: mayfly.ByUser, At: item.ID.Birth()})
			h.Must(h.Real.Log.Append(t.Context(), mayfly.EventOf(h.Row(item.ID), mayfly.WasDeleted)))
			h.Must(h.Real.Ledger.EraseBody(t.Context(), item.ID))
			if r := h.verify(); !r.Clean() {
				t.Errorf("before the row is there: %s", r)
			}
			h.put(h.own, store.Key{Partition: string(item.ID[:])}, []byte("x"))
		}},
		"an item that its owner's index does not have": {verify.Orphan, 1, func(t *testing.T, h *healthy) {
			var b store.Batch
			b.Delete(engine.Owners, engine.OwnerKey(h.live.Owner, h.live.ID))
			h.Must(h.Real.Writer.Commit(t.Context(), &b))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			tc.plant(t, h)
			r := h.verify()
			if r.Count(tc.word) != tc.times || total(r) != tc.times {
				t.Errorf("%s, want %s %d\n%s", r, tc.word, tc.times, strings.Join(r.Faults(), "\n"))
			}
		})
		found[tc.word]++
	}
	for w := range verify.Words {
		if found[w] == 0 {
			t.Errorf("no violation of %s is planted", w)
		}
	}
}

// What a client does not know, or what broke on the way, is no violation.
func TestARecordAllowsWhatItsClientsDoNotKnow(t *testing.T) {
	h := open(t)
	h.insert(fixture.Start.Add(3 * time.Hour))
	upload, err := mayfly.NewID(fixture.Start, fixture.Lifetime(t, time.Hour), 0, 1)
	h.Must(err)
	_, err = h.Real.Hot.Put(t.Context(), mayfly.UploadKey(upload, 0), strings.NewReader("x"))
	h.Must(err)
	h.record.Unanswered, h.record.Unfinished = 1, 1
	h.record.MayBe = func(b mayfly.Body) bool { return b.Text == "sea" }
	h.record.Broken = func(id mayfly.ID) bool { return id == upload }
	h.expect(h.live.ID, func(e *verify.Expected) { e.Deleted, e.Held = verify.Maybe, verify.Maybe })
	if r := h.verify(); !r.Clean() || r.Unanswered != 1 || r.Unfinished != 1 {
		t.Errorf("%s\n%s", r, strings.Join(r.Faults(), "\n"))
	}
	h.record.MayBe = func(mayfly.Body) bool { return false }
	h.record.Broken = func(mayfly.ID) bool { return false }
	if r := h.verify(); total(r) != 2 || r.Count(verify.Double) != 1 || r.Count(verify.Orphan) != 1 {
		t.Errorf("%s\n%s", r, strings.Join(r.Faults(), "\n"))
	}
	h.record.Since = h.now
	if r := h.verify(); r.Count(verify.Double) != 0 || r.Count(verify.Orphan) != 0 {
		t.Errorf("what was born before the record begins: %s", r)
	}
}

// Without a record an object may be of an upload that is still under way, or of a step
// that was cut off and is done again, until it is a day old.
func TestWithoutARecordYoungObjectsAndStrangeKeysAreLeftAlone(t *testing.T) {
	h := open(t)
	upload, err := mayfly.NewID(fixture.Start, fixture.Lifetime(t, 24*time.Hour), 0, 1)
	h.Must(err)
	put := func(tier store.Blobs, key mayfly.BlobKey) {
		_, err := tier.Put(t.Context(), key, strings.NewReader("x"))
		h.Must(err)
	}
	cold := h.Row(h.cold.ID)
	put(h.Real.Hot, mayfly.UploadKey(upload, 0))
	put(h.Real.Hot, h.cold.MediaKey(mayfly.Born, 0)) // is collected
	put(h.Real.Hot, cold.MediaKey(cold.Generation, 0))
	put(h.Real.Hot, "a/b")
	for later, want := range map[time.Duration]int{0: 0, 30 * time.Hour: 2} {
		now := h.now.Add(later)
		r, err := verify.Run(t.Context(), h.Real, verify.Options{Now: now, Late: 48 * time.Hour, Objects: true})
		if h.Must(err); r.Count(verify.Orphan) != want || total(r) != want || r.Strange != 1 {
			t.Errorf("%s later: %s, %d strange\n%s", later, r, r.Strange, strings.Join(r.Faults(), "\n"))
		}
	}
}

func TestTalliesAreMerged(t *testing.T) {
	var a, b verify.Tally
	for range 30 {
		a.Add(verify.Lost, "a")
		b.Add(verify.Orphan, "b")
	}
	b.Merge(&a)
	if b.Count(verify.Lost) != 30 || b.Count(verify.Orphan) != 30 || len(b.Faults()) != 20 || len(a.Faults()) != 20 {
		t.Errorf("%s, %d faults described", &b, len(b.Faults()))
	}
}

func total(r *verify.Report) (n int) {
	for w := range verify.Words {
		n += r.Count(w)
	}
	return n
}

// The ledger is read by the minutes that have rows, so that the longest lifetime
// costs no more than the shortest, and items that never expire are read too.
func TestEveryItemIsVerifiedHoweverLongItLives(t *testing.T) {
	e := fixture.Open(t)
	lives := []mayfly.Lifetime{fixture.Lifetime(t, time.Second), fixture.Lifetime(t, 49*time.Hour), fixture.Lifetime(t, 365*24*time.Hour), mayfly.Never}
	for _, lifetime := range lives {
		draft := e.Draft()
		draft.Lifetime = lifetime
		item := e.Publish(draft, fixture.Start, "media")
		e.Must(e.Real.Hot.Delete(t.Context(), item.MediaKey(mayfly.Born, 0)))
	}
	minutes := 0
	r, err := verify.Run(t.Context(), e.Real, verify.Options{Now: fixture.Start, Progress: func(n int) { minutes = n }})
	e.Must(err)
	if r.Items != int64(len(lives)) || r.Count(verify.Lost) != len(lives) || total(r) != len(lives) || minutes != len(lives)-1 {
		t.Errorf("%s, %+v, %d minutes", r, r, minutes)
	}
}

// A record says where the log may lack the event of a birth.
func TestARecordSaysWhichBirthsMayLackTheirEvent(t *testing.T) {
	h := open(t)
	quiet := h.insert(h.now.Add(-time.Hour))
	for _, allowed := range []bool{false, true} {
		h.record.Items[quiet.ID] = verify.Expected{Unannounced: allowed}
		r := h.verify()
		if want := map[bool]int{false: 1}[allowed]; r.Count(verify.Lost) != want || total(r) != want {
			t.Errorf("allowed %t: %s\n%s", allowed, r, strings.Join(r.Faults(), "\n"))
		}
	}
}

// A zero that nothing has measured is not printed as one.
func TestAWordThatIsNotMeasuredSaysSo(t *testing.T) {
	h := open(t)
	r, err := verify.Run(t.Context(), h.Real, verify.Options{Now: h.now})
	h.Must(err)
	if want := "LOST 0  RESURRECTED 0  EARLY 0  LATE 0  LEAK not measured  DOUBLE not measured  ORPHAN not measured"; r.String() != want || !r.Clean() {
		t.Error(r)
	}
	var all verify.Tally
	all.Merge(&r.Tally)
	if strings.Contains(all.String(), "not") {
		t.Errorf("measured by another tally: %s", &all)
	}
	r.Add(verify.Leak, "found by the caller")
	if !strings.Contains(r.String(), "LEAK 1") || r.WhyUnmeasured(verify.Double) == "" {
		t.Error(r)
	}
}
