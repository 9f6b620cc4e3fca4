package sim

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	rowtables "github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// tally is a tally of the verifier with how many rows it compared and where the
// faults were found.
type tally struct {
	verify.Tally
	checked int
	where   []string
}

func newTally() *tally { return &tally{} }

func (t *tally) merge(other *tally, where string) {
	t.checked += other.checked
	t.Merge(&other.Tally)
	if !other.Clean() && len(t.where) < 3 {
		t.where = append(append(t.where, where), other.where...)
	}
}

// zero fails the test unless all seven are zero, and prints them.
func (t *tally) zero(tb testing.TB, proof string) {
	tb.Helper()
	if !t.Clean() {
		tb.Errorf("%s\n%s\nat %s", t, strings.Join(t.Faults(), "\n"), strings.Join(t.where, "; "))
	}
	storetest.Proof(tb, proof, "verdict", t.String())
}

// audit adds to the verifier what only a simulation knows: which wish a row grants,
// when it was tried, and what the store has acknowledged to the engine. settled says
// that every walk has passed all deadlines before now for good.
type audit struct {
	*verify.Report
	record  *record
	inv     *inventory
	now     mayfly.Instant
	settled bool

	granting map[int][]mayfly.ID // rows by the wish that they grant
	owner    map[mayfly.ID]mayfly.ID
	events   map[mayfly.EventKey]bool
}

// forever is long enough that the verifier calls no step late: no simulation erases or
// archives, and whether a sweep is late depends on its watermark.
const forever = 50 * 365 * 24 * time.Hour

// inspect verifies the engine at now.
func inspect(ctx context.Context, h *engine, b *record, now mayfly.Instant, settled bool) (*tally, *inventory, error) {
	inv, err := takeInventory(ctx, h.raw, b, now)
	if err != nil {
		return nil, nil, err
	}
	a := &audit{record: b, inv: inv, now: now, settled: settled, granting: map[int][]mayfly.ID{}, owner: map[mayfly.ID]mayfly.ID{}, events: map[mayfly.EventKey]bool{}}
	for _, e := range inv.events {
		a.events[e.Key()] = true
	}
	a.Report, err = verify.Run(ctx, h.raw, verify.Options{
		Now: now, Late: forever, Window: forever, Bytes: true, Objects: true, Group: "audit", Gate: h.gate, Record: a.expected(), Each: a.each,
	})
	if err != nil {
		return nil, nil, err
	}
	a.granted()
	a.acknowledged()
	found := &tally{checked: int(a.Items)}
	found.Merge(&a.Tally)
	return found, inv, nil
}

// atRest verifies the store of a node that does nothing at the moment, and fails the
// test unless all seven words are zero.
func atRest(t testing.TB, set store.Set, now mayfly.Instant) {
	t.Helper()
	g, err := gate.New(t.Context(), set, gate.Options{Elapsed: func() time.Duration { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	found, err := verify.Run(t.Context(), set, verify.Options{
		Now: now, Late: forever, Window: forever, Bytes: true, Objects: true, Group: "audit", Gate: g,
	})
	if err := errors.Join(err, g.Close()); err != nil {
		t.Fatal(err)
	}
	if !found.Clean() {
		t.Errorf("%s\n%s", found, strings.Join(found.Faults(), "\n"))
	}
}

// expected returns what the callers of the engine know.
func (a *audit) expected() *verify.Record {
	r := &verify.Record{
		Items:      map[mayfly.ID]verify.Expected{},
		MayBe:      func(body mayfly.Body) bool { _, known := a.record.ofText(body.Text); return known },
		Unfinished: 1 << 30,
		Broken:     func(upload mayfly.ID) bool { _, known := a.record.uploads[upload]; return known },
	}
	for _, k := range a.record.acks {
		if k.row != nil || k.event != nil {
			continue
		}
		w := a.record.wishes[k.wish]
		e := verify.Expected{Text: &w.text, Unannounced: a.reminded(k.id, remind.Announce)}
		for _, medium := range w.media {
			e.Media = append(e.Media, sha256.Sum256(medium))
		}
		r.Items[k.id] = e
	}
	for _, tries := range a.record.tries {
		r.Unanswered += len(tries)
	}
	return r
}

// each holds a row against the wish that it grants, in plain numbers.
func (a *audit) each(_ context.Context, r *verify.Report, item mayfly.Item, body store.FoundBody) error {
	id := item.ID
	a.inv.rows[id] = item
	if !body.Found {
		return nil
	}
	a.inv.bodies[id] = body.Body
	w, known := a.record.ofText(body.Body.Text)
	if !known {
		return nil // the verifier counts it
	}
	a.granting[w.number] = append(a.granting[w.number], id)
	end := deadlineOf(w, id)
	switch {
	case !slices.Contains(a.record.tries[w.number], id.Birth()):
		r.Add(verify.Orphan, "%s: born at %s, when no try was made", id, id.Birth())
	case id.Expires() != (w.lifetime != 0) || id.Expires() && id.Deadline() != end:
		r.Add(verify.Early, "%s: its deadline is %s, want %s", id, id.Deadline(), end)
	case item.ServesUntil != 0:
		r.Add(verify.Late, "%s: it serves until %s, and nothing here restores", id, item.ServesUntil)
	case item.Audience != w.audience || item.Owner != w.owner:
		r.Add(verify.Leak, "%s: it is for %s by %s, want %s by %s", id, item.Audience, item.Owner, w.audience, w.owner)
	case item.Fate != w.fate || int(item.Media) != len(w.media):
		r.Add(verify.Lost, "%s: its fate is %s and it has %d media, want %s and %d", id, item.Fate, item.Media, w.fate, len(w.media))
	}
	if other, taken := a.owner[item.Upload]; taken && item.Media > 0 {
		r.Add(verify.Double, "upload %s belongs to %s and %s", item.Upload, other, id)
	}
	a.owner[item.Upload] = id
	return nil
}

// deadlineOf is the deadline in plain numbers: the birth that the id tells, which
// was checked against the tries, and the lifetime that was wished for.
func deadlineOf(w *wish, id mayfly.ID) mayfly.Instant {
	return id.Birth() + mayfly.Instant(w.lifetime)
}

// granted looks for wishes that were granted twice, and for events of items that are
// not there.
func (a *audit) granted() {
	for n, ids := range a.granting {
		if w := a.record.wishes[n]; w.key != "" && len(ids) > 1 || len(ids) > len(a.record.tries[n]) {
			a.Add(verify.Double, "wish %d with key %q was granted %d times: %v", n, w.key, len(ids), ids)
		}
	}
	for _, e := range a.inv.events {
		if _, found := a.inv.rows[e.ID]; !found {
			a.Add(verify.Orphan, "%s: %s of an item that is not there", e.ID, e.Type())
		}
	}
}

// acknowledged holds rows and events against what the store has acknowledged to the
// engine, and what has expired for good against its rows.
func (a *audit) acknowledged() {
	rows := map[mayfly.ID]mayfly.Item{}
	for _, k := range a.record.acks {
		switch {
		case k.row != nil:
			if k.row.Generation > rows[k.row.ID].Generation {
				rows[k.row.ID] = *k.row
			}
		case k.event != nil:
			if !a.events[k.event.Key()] {
				a.Add(verify.Lost, "%s: the event %s was acknowledged and is gone", k.event.ID, k.event.Type())
			}
		default:
			a.expired(a.record.wishes[k.wish], k.id)
		}
	}
	for id, was := range rows {
		is, found := a.inv.rows[id]
		switch {
		case !found:
			a.Add(verify.Lost, "%s: the row stood at %s and is gone", id, was.State)
		case is.Generation < was.Generation && was.State != mayfly.Active:
			a.Add(verify.Resurrected, "%s: was %s, generation %d, and is %s again", id, was.State, was.Generation, is.State)
		case is.Generation < was.Generation, is.Generation == was.Generation && is != was:
			a.Add(verify.Lost, "%s: was acknowledged as %+v and is %+v", id, was, is)
		}
	}
}

// expired wants an acknowledged item whose deadline every walk has passed to have
// ended, with an event, or with a reminder that does it.
func (a *audit) expired(w *wish, id mayfly.ID) {
	item, found := a.inv.rows[id]
	if !found || !a.settled || w.lifetime == 0 || a.now < deadlineOf(w, id)+mayfly.Instant(settle.Milliseconds()) || item.Held {
		return
	}
	want := mayfly.ExpiredHot
	if w.fate == mayfly.Purge {
		want = mayfly.Deleted
	}
	event := mayfly.EventKey{ID: id, Generation: item.Generation, Product: mayfly.Story, Verb: mayfly.WasExpired}
	switch reminded := a.reminded(id, remind.Expire); {
	case item.State != want && !reminded:
		a.Add(verify.Lost, "%s: its deadline has passed for good and it is %s (birth %s, wish %d)", id, item.State, id.Birth(), w.number)
	case item.Cause == mayfly.ByExpiry && !a.events[event] && !reminded:
		a.Add(verify.Lost, "%s: expired, and neither an event nor a reminder says so", id)
	}
}

func (a *audit) reminded(id mayfly.ID, step remind.Step) bool {
	return slices.ContainsFunc(a.inv.reminders, func(r remind.Reminder) bool { return r.ID == id && r.Step == step })
}

// Each violation is planted alone in a small life that has none.
func TestASimulationFindsEveryPlantedViolation(t *testing.T) {
	for word, plant := range map[verify.Word]func(t *testing.T, p *play, item mayfly.Item){
		verify.Lost: func(t *testing.T, p *play, item mayfly.Item) {
			must(t, p.engine.raw.Hot.Delete(t.Context(), item.MediaKey(mayfly.Born, 0)))
		},
		verify.Resurrected: func(_ *testing.T, p *play, item mayfly.Item) {
			item.State, item.Generation = mayfly.ExpiredHot, item.Generation+1
			p.record.write(ack{wish: -1, row: &item})
		},
		verify.Early: func(_ *testing.T, p *play, _ mayfly.Item) { p.record.wishes[0].lifetime++ },
		verify.Late: func(t *testing.T, p *play, item mayfly.Item) {
			for _, c := range []mayfly.Change{
				{From: mayfly.Active, To: mayfly.ExpiredHot, At: item.ID.Deadline(), Cause: mayfly.ByExpiry},
				{From: mayfly.ExpiredHot, To: mayfly.Active, At: item.ID.Deadline(), ServesUntil: item.ID.Deadline().Add(time.Hour), Cause: mayfly.BySupport},
			} {
				c.ID, c.Generation, c.Nonce = item.ID, item.Generation, 7
				outcomes, err := p.engine.raw.Ledger.Transition(t.Context(), []mayfly.Change{c})
				must(t, err)
				item = outcomes[0].Current
			}
		},
		verify.Leak: func(_ *testing.T, p *play, _ mayfly.Item) { p.record.wishes[0].audience = mayfly.Followers },
		verify.Double: func(t *testing.T, p *play, item mayfly.Item) {
			twin, text := item, p.record.wishes[0].text
			twin.ID[15] ^= 0x40
			twin.Media, twin.Upload, twin.Keys = 0, mayfly.ID{}, mayfly.Keys{}
			var b store.Batch
			b.Put(rowtables.Owners, rowtables.OwnerKey(twin.Owner, twin.ID), []byte{byte(mayfly.Story)}, 0)
			b.Insert(store.Birth{Item: twin, Body: mayfly.Body{Text: text}})
			must(t, p.engine.raw.Writer.Commit(t.Context(), &b))
		},
		verify.Orphan: func(t *testing.T, p *play, item mayfly.Item) {
			_, err := p.engine.raw.Hot.Put(t.Context(), item.MediaKey(item.Generation+7, 0), strings.NewReader("stray"))
			must(t, err)
		},
	} {
		t.Run(word.String(), func(t *testing.T) {
			p, err := newPlay(t.Context(), 1, storetest.Pass)
			must(t, err)
			defer p.engine.close()
			published, err := p.record.publish(t.Context(), p.engine.uploads, p.engine.intake, p.wishes()[0], p.at())
			must(t, err)
			before, _, err := inspect(t.Context(), p.engine, p.record, p.at(), false)
			must(t, err)
			before.zero(t, "nothing planted")
			plant(t, p, published.Item)
			found, _, err := inspect(t.Context(), p.engine, p.record, p.at(), false)
			must(t, err)
			if found.Count(word) == 0 {
				t.Errorf("it is not found: %s", found)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
