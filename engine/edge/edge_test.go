package edge_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/edge"
	"github.com/mayflyhq/mayfly/engine/logread"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
	"github.com/mayflyhq/mayfly/test/fixture"
)

func varnish(t *testing.T, caches ...*fixture.Cache) *edge.Varnish {
	t.Helper()
	o := edge.VarnishOptions{Secret: fixture.PurgeSecret}
	for _, c := range caches {
		o.URLs = append(o.URLs, c.URL)
	}
	v, err := edge.NewVarnish(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

// purger returns a purger that reads the log at the start of the fixture.
func purger(e *fixture.Engine, o edge.Options, caches ...*fixture.Cache) *edge.Purger {
	e.Helper()
	now := fixture.Start
	return purgerAt(e, &now, o, caches...)
}

func purgerAt(e *fixture.Engine, now *mayfly.Instant, o edge.Options, caches ...*fixture.Cache) *edge.Purger {
	e.Helper()
	p, err := edge.New(e.Set, varnish(e.TB.(*testing.T), caches...), func() mayfly.Instant { return *now }, o)
	e.Must(err)
	return p
}

// end returns the event of the end of an item, of which the numbers differ.
func end(e *fixture.Engine, number int, verb mayfly.Verb) mayfly.Event {
	e.Helper()
	id, err := mayfly.NewID(fixture.Start.Add(-time.Hour), fixture.Lifetime(e, time.Hour), fixture.Ana().Trace(), uint64(number))
	e.Must(err)
	return mayfly.Event{ID: id, Generation: 2, Product: mayfly.Story, Verb: verb, At: fixture.Start.Add(-time.Second), Owner: fixture.Ana()}
}

func unverified(e *fixture.Engine) (all []edge.Purge) {
	e.Helper()
	for p, err := range edge.List(e.Context(), e.Real.Rows, at(time.Hour), "") {
		e.Must(err)
		all = append(all, p)
	}
	return all
}

// logged returns the events of the stream of ends.
func logged(e *fixture.Engine) (all []mayfly.Event) {
	e.Helper()
	r, err := e.Real.Log.Reader(e.Context(), mayfly.Ends, "test")
	e.Must(err)
	defer r.Close()
	lag, err := r.Lag(e.Context())
	e.Must(err)
	for int64(len(all)) < lag {
		page, err := r.Next(e.Context(), 1000)
		e.Must(err)
		for _, record := range page {
			all = append(all, record.Event)
		}
	}
	return all
}

func at(d time.Duration) mayfly.Instant { return fixture.Start.Add(d) }

func TestAnEarlyEndIsPurgedAtOnceAndVerifiedWhenItHasSettled(t *testing.T) {
	for _, verb := range []mayfly.Verb{mayfly.WasDeleted, mayfly.WasHeld} {
		e, c := fixture.Open(t), fixture.NewCache(t)
		p := purger(e, edge.Options{}, c)
		ev := end(e, 1, verb)
		c.Fill(edge.ItemKey(ev.ID), edge.ItemKey(ev.ID), "i-another", edge.OwnerKey(ev.Owner))
		e.Must(p.Reader().Batch(t.Context(), []mayfly.Event{ev}))
		if got := c.Keys(); !slices.Equal(got, []string{"i-another", edge.OwnerKey(ev.Owner)}) {
			t.Fatalf("%s: still cached: %v", verb, got)
		}
		for _, late := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			e.Must(p.Pass(t.Context(), at(late)))
			if left := unverified(e); len(left) != 1 || len(logged(e)) != 0 || left[0].Reason != "" {
				t.Fatalf("%s: after %s %+v, logged %+v", verb, late, left, logged(e))
			}
		}
		e.Must(p.Pass(t.Context(), at(8*time.Second)))
		if left := unverified(e); len(left) != 0 {
			t.Errorf("%s: unverified %+v", verb, left)
		}
		want := ev
		want.Verb = mayfly.WasPurged
		if got := logged(e); !slices.Equal(got, []mayfly.Event{want}) || got[0].Type() != "purge.done" {
			t.Errorf("%s: logged %+v", verb, got)
		}
		if s := p.Stats(); s != (edge.Stats{Verified: 1}) {
			t.Errorf("%s: %+v", verb, s)
		}
	}
}

// An answer that left the server before the end arrives at the edge after the purge.
func TestAnAnswerThatArrivesAfterItsPurgeIsDropped(t *testing.T) {
	e, c := fixture.Open(t), fixture.NewCache(t)
	p := purger(e, edge.Options{}, c)
	ev := end(e, 1, mayfly.WasDeleted)
	e.Must(p.Reader().Batch(t.Context(), []mayfly.Event{ev}))
	for i, late := range []time.Duration{time.Second, 2 * time.Second, 10 * time.Second} {
		c.Fill(edge.ItemKey(ev.ID))
		e.Must(p.Pass(t.Context(), at(late)))
		if got := c.Keys(); len(got) != 0 {
			t.Fatalf("after %s: cached %v", late, got)
		}
		if verified := len(unverified(e)) == 0 && len(logged(e)) == 1; verified != (i == 2) {
			t.Fatalf("after %s: unverified %+v, logged %+v", late, unverified(e), logged(e))
		}
	}
}

func TestAPurgeIsVerifiedOnlyWhenTheEdgeHasNothingLeft(t *testing.T) {
	e, c := fixture.Open(t), fixture.NewCache(t)
	p := purger(e, edge.Options{}, c)
	ev := end(e, 1, mayfly.WasDeleted)
	c.Fill(edge.ItemKey(ev.ID))
	c.SetStuck(true)
	e.Must(p.Reader().Batch(t.Context(), []mayfly.Event{ev, end(e, 2, mayfly.WasExpired)}))
	for _, late := range []time.Duration{10 * time.Second, time.Minute, time.Hour} {
		e.Must(p.Pass(t.Context(), at(late)))
		left := unverified(e)
		if len(left) != 1 || left[0].Reason != "1 answers are cached under 1 keys after a purge" || left[0].Since != at(0) {
			t.Fatalf("after %s: %+v", late, left)
		}
	}
	if s := p.Stats(); s != (edge.Stats{Verified: 1, Unverified: 1, Oldest: at(0)}) {
		t.Errorf("%+v", s)
	}
	c.SetStuck(false)
	e.Must(p.Pass(t.Context(), at(2*time.Hour)))
	if got := logged(e); len(got) != 2 || len(unverified(e)) != 0 {
		t.Errorf("logged %+v", got)
	}
}

// An event may be read twice, and a crash repeats what was not committed: what is
// appended then is the same event, with the same key and time (I13).
func TestARepeatedPurgeAppendsTheSameEvent(t *testing.T) {
	for _, verb := range []mayfly.Verb{mayfly.WasExpired, mayfly.WasDeleted} {
		e, c := fixture.Open(t), fixture.NewCache(t)
		now := at(0)
		p := purgerAt(e, &now, edge.Options{}, c)
		ev := end(e, 1, verb)
		for range 2 {
			e.Must(p.Reader().Batch(t.Context(), []mayfly.Event{ev}))
			now = now.Add(time.Minute)
			e.Must(p.Pass(t.Context(), now))
		}
		if got := logged(e); len(got) != 2 || got[0] != got[1] {
			t.Errorf("%s: logged %+v", verb, got)
		}
	}
}

// Nothing that is cached outlives an item that expires, so that one look is enough,
// and no row is written for it.
func TestThePurgeOfAnExpiredItemIsVerifiedAtOnce(t *testing.T) {
	e, c := fixture.Open(t), fixture.NewCache(t)
	p := purger(e, edge.Options{}, c)
	events := []mayfly.Event{end(e, 1, mayfly.WasExpired), end(e, 2, mayfly.WasDeleted), end(e, 3, mayfly.WasExpired)}
	e.Must(p.Reader().Batch(t.Context(), events))
	if left := unverified(e); len(left) != 1 || left[0].Event != events[1] {
		t.Errorf("unverified %+v", left)
	}
	if got := logged(e); len(got) != 2 || got[0].ID == got[1].ID {
		t.Errorf("logged %+v", got)
	}
}

func TestEventsThatEndNothingAreNotPurged(t *testing.T) {
	e, c := fixture.Open(t), fixture.NewCache(t)
	p := purger(e, edge.Options{}, c)
	old := end(e, 1, mayfly.WasDeleted)
	old.At = at(-25 * time.Hour) // nothing is cached so long
	e.Must(p.Reader().Batch(t.Context(), []mayfly.Event{old, end(e, 2, mayfly.WasArchived), end(e, 3, mayfly.WasRestored), end(e, 4, mayfly.WasPurged)}))
	if c.Requests() != 0 || len(unverified(e)) != 0 || len(logged(e)) != 0 {
		t.Errorf("%d requests, unverified %+v, logged %+v", c.Requests(), unverified(e), logged(e))
	}
}

func TestAnEdgeThatIsDownLosesNoPurge(t *testing.T) {
	e, c, other := fixture.Open(t), fixture.NewCache(t), fixture.NewCache(t)
	p := purger(e, edge.Options{}, c, other)
	c.SetDown(true)
	var events []mayfly.Event
	for i, verb := range []mayfly.Verb{mayfly.WasExpired, mayfly.WasDeleted, mayfly.WasHeld} {
		ev := end(e, i, verb)
		events = append(events, ev)
		c.Fill(edge.ItemKey(ev.ID))
		other.Fill(edge.ItemKey(ev.ID))
	}
	gone := mayfly.UserDeleted(fixture.Ben(), at(0))
	c.Fill(edge.OwnerKey(fixture.Ben()))
	e.Must(p.Reader().Batch(t.Context(), append(events, gone)))
	if got := other.Keys(); len(got) != 0 {
		t.Errorf("the other server still has %v", got)
	}
	err := p.Pass(t.Context(), at(time.Minute))
	left := unverified(e)
	if !errors.Is(err, mayfly.Unavailable) || len(left) != 3 || len(logged(e)) != 0 {
		t.Fatalf("%v, unverified %+v", err, left)
	}
	for _, u := range left {
		if !strings.Contains(u.Reason, "answered 502") || u.Tries < 1 || u.Tries > 2 || u.Next <= at(time.Minute) {
			t.Errorf("%+v", u)
		}
	}
	of := 0
	for u, err := range edge.Of(t.Context(), e.Real.Rows, at(time.Minute), events[1].ID) {
		e.Must(err)
		of++
		if u.Event != events[1] {
			t.Errorf("%+v is not of the item", u)
		}
	}
	if of != 1 {
		t.Errorf("%d purges of one item", of)
	}
	c.SetDown(false)
	e.Must(p.Pass(t.Context(), at(2*time.Minute)))
	if got := c.Keys(); !slices.Equal(got, []string{edge.ItemKey(events[0].ID)}) { // it expired: no cache serves it
		t.Errorf("cached %v", got)
	}
	if got := logged(e); len(got) != 2 || len(unverified(e)) != 0 { // the end of a user is no item's, and an expiry is not kept
		t.Errorf("logged %+v, unverified %+v", got, unverified(e))
	}
}

// An outage of an hour costs no request a second, and the list says what is wrong.
func TestAnEdgeThatIsDownIsAskedAtGrowingPauses(t *testing.T) {
	e, c := fixture.Open(t), fixture.NewCache(t)
	p := purger(e, edge.Options{}, c)
	ev := end(e, 1, mayfly.WasDeleted)
	e.Must(p.Reader().Batch(t.Context(), []mayfly.Event{ev})) // the first purge works
	c.SetDown(true)
	before, failed := c.Requests(), 0
	for second := 1; second <= 3600; second++ {
		now := at(time.Duration(second) * time.Second)
		if err := p.Pass(t.Context(), now); err != nil {
			failed++
		}
		left := unverified(e)
		if len(left) != 1 || !strings.Contains(left[0].Reason, "answered 502") || left[0].Tries != failed || left[0].Since != at(0) {
			t.Fatalf("after %d s and %d failures: %+v", second, failed, left)
		}
		if pause := left[0].Next.Sub(now); pause <= 0 || pause > time.Minute {
			t.Fatalf("after %d s it is asked again in %s", second, pause)
		}
	}
	if asked := c.Requests() - before; asked != failed || asked < 60 || asked > 70 {
		t.Errorf("%d requests in an hour, %d failures", asked, failed)
	}
	c.SetDown(false)
	e.Must(p.Pass(t.Context(), at(time.Hour+time.Minute)))
	if left := unverified(e); len(left) != 0 || len(logged(e)) != 1 {
		t.Errorf("unverified %+v, logged %+v", left, logged(e))
	}
}

// Nothing that expired is served by a cache that missed its purge (E2), so an outage
// of a cache does not fill the list with it.
func TestAnExpiryIsNotKeptForACacheThatIsDown(t *testing.T) {
	e, c := fixture.Open(t), fixture.NewCache(t)
	p := purger(e, edge.Options{}, c)
	c.SetDown(true)
	e.Must(p.Reader().Batch(t.Context(), []mayfly.Event{end(e, 1, mayfly.WasExpired), end(e, 2, mayfly.WasDeleted)}))
	if left := unverified(e); len(left) != 1 || left[0].Event.Verb != mayfly.WasDeleted || len(logged(e)) != 0 {
		t.Errorf("unverified %+v, logged %+v", left, logged(e))
	}
	c.SetDown(false)
	c.SetStuck(true)
	late := end(e, 3, mayfly.WasExpired)
	c.Fill(edge.ItemKey(late.ID))
	e.Must(p.Reader().Batch(t.Context(), []mayfly.Event{late}))
	if left := unverified(e); len(left) != 1 || len(logged(e)) != 0 {
		t.Errorf("unverified %+v, logged %+v", left, logged(e))
	}
}

// The reader of the log goes on however many purges wait for the cache that is down.
func TestACacheThatIsDownDelaysNoPurgeOfTheOthers(t *testing.T) {
	const most, deletions = 10, 40
	e, c, other := fixture.Open(t), fixture.NewCache(t), fixture.NewCache(t)
	now := at(0)
	p := purgerAt(e, &now, edge.Options{MaxUnverified: most}, c, other)
	c.SetDown(true)
	purge := func(first int) {
		t.Helper()
		for i := range deletions {
			events := []mayfly.Event{end(e, first+2*i, mayfly.WasExpired), end(e, first+2*i+1, mayfly.WasDeleted)}
			other.Fill(edge.ItemKey(events[0].ID), edge.ItemKey(events[1].ID))
			e.Must(p.Reader().Batch(t.Context(), events))
			if got := other.Keys(); len(got) != 0 {
				t.Fatalf("after %d deletions the other cache still has %v", i+1, got)
			}
		}
	}
	purge(0)
	first := unverified(e)
	if len(first) != most {
		t.Fatalf("%d purges wait, want %d", len(first), most)
	}
	late := edge.ItemKey(first[most-1].Event.ID) // an answer that was on its way to the cache that is up
	other.Fill(late)
	if err := p.Pass(t.Context(), at(time.Second)); !errors.Is(err, mayfly.Unavailable) || len(other.Keys()) != 0 {
		t.Errorf("%v, and the other cache has %v", err, other.Keys())
	}
	if left := unverified(e); len(left) != most {
		t.Errorf("%d purges wait, want %d", len(left), most)
	}
	// No cache has anything of them any more: there is room for others.
	now = at(15 * time.Minute)
	if err := p.Pass(t.Context(), now); !errors.Is(err, mayfly.Unavailable) || len(unverified(e)) != 0 || len(logged(e)) != 0 {
		t.Errorf("%v, unverified %+v, logged %+v", err, unverified(e), logged(e))
	}
	purge(2 * deletions)
	c.SetDown(false)
	e.Must(p.Pass(t.Context(), at(time.Hour)))
	if left := unverified(e); len(left) != 0 || len(logged(e)) != most {
		t.Errorf("unverified %+v, %d logged, want %d", left, len(logged(e)), most)
	}
}

func TestEveryPageOfPurgesIsVerifiedWhileACacheIsDown(t *testing.T) {
	const purges = 1_200 // more than are verified at once
	e, c, other := fixture.Open(t), fixture.NewCache(t), fixture.NewCache(t)
	p := purger(e, edge.Options{}, c, other)
	c.SetDown(true)
	var events []mayfly.Event
	for i := range purges {
		events = append(events, end(e, i, mayfly.WasDeleted))
	}
	e.Must(p.Reader().Batch(t.Context(), events))
	for _, ev := range events {
		other.Fill(edge.ItemKey(ev.ID))
	}
	err := p.Pass(t.Context(), at(time.Second))
	if !errors.Is(err, mayfly.Unavailable) || len(other.Keys()) != 0 {
		t.Errorf("%v, and the other cache has %d of %d", err, len(other.Keys()), purges)
	}
}

// An event is committed when its purge is done or kept, and not before.
func TestAnEventWhosePurgeIsNeitherDoneNorKeptIsReadAgain(t *testing.T) {
	e, c := fixture.Open(t), fixture.NewCache(t)
	p := purger(e, edge.Options{}, c)
	ev := end(e, 1, mayfly.WasDeleted)
	e.Must(e.Real.Log.Append(t.Context(), ev))
	c.SetDown(true)
	e.Hooks.Commit = fixture.FailCommit(mayfly.Unavailable)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	failed, committed := loop.NewSignal[error](), loop.NewSignal[mayfly.Stream]()
	run := func(wait func() error) {
		o := p.Reader()
		o.Now, o.Committed = func() mayfly.Instant { return at(0) }, committed
		o.Failed = func(_ mayfly.Stream, err error, _ int) { failed.Send(err) }
		r, err := logread.New(e.Set, o)
		e.Must(err)
		r.Start(t.Context())
		e.Must(wait())
		e.Must(r.Stop(t.Context()))
	}
	run(func() error { _, err := failed.Wait(ctx); return err })
	if left := unverified(e); len(left) != 0 {
		t.Fatalf("unverified %+v", left)
	}
	e.Hooks.Commit = nil
	run(func() error { _, err := committed.Wait(ctx); return err })
	if left := unverified(e); len(left) != 1 || left[0].Event != ev {
		t.Errorf("unverified %+v", left)
	}
}

func TestEverythingOfAUserIsPurgedSoon(t *testing.T) {
	e, c := fixture.Open(t), fixture.NewCache(t)
	p := purger(e, edge.Options{}, c)
	c.Fill(edge.OwnerKey(fixture.Ana()), edge.OwnerKey(fixture.Ben()))
	e.Must(p.Owner(t.Context(), fixture.Ana(), at(0)))
	e.Must(p.Owner(t.Context(), fixture.Ana(), at(time.Millisecond))) // each is a purge of its own
	e.Must(p.Pass(t.Context(), at(time.Second+time.Millisecond)))
	if got := c.Keys(); !slices.Equal(got, []string{edge.OwnerKey(fixture.Ben())}) || len(unverified(e)) != 2 {
		t.Errorf("cached %v, unverified %+v", got, unverified(e))
	}
	e.Must(p.Pass(t.Context(), at(time.Minute)))
	if len(unverified(e)) != 0 || len(logged(e)) != 0 {
		t.Errorf("unverified %+v, logged %+v", unverified(e), logged(e))
	}
}

// The queue of purges lies in Cassandra, where a row that was deleted slows down, and
// at last fails, every read of its partition for a day.
func TestPurgesThatAreVerifiedLeaveNothingToReadOver(t *testing.T) {
	const ends = 300
	e, c := fixture.Open(t), fixture.NewCache(t)
	graves := fixture.NewGraves(&e.Set)
	rows := &counting{Rows: e.Set.Rows}
	e.Set.Rows = rows
	now := at(0)
	p := purgerAt(e, &now, edge.Options{}, c)
	most := 0
	for second := range ends + 60 {
		now = at(time.Duration(second) * 10 * time.Second) // an hour
		if second < ends {
			e.Must(p.Reader().Batch(t.Context(), []mayfly.Event{end(e, second, mayfly.WasDeleted)}))
		}
		rows.read = 0
		e.Must(p.Pass(t.Context(), now))
		most = max(most, rows.read)
	}
	if left := unverified(e); len(left) != 0 || len(logged(e)) != ends {
		t.Errorf("unverified %+v, %d logged", left, len(logged(e)))
	}
	stored := 0
	for slice := now.Add(-24 * time.Hour); slice <= now.Add(time.Hour); slice = slice.Add(10 * time.Minute) {
		partition := binary.BigEndian.AppendUint64(nil, uint64(slice)/uint64((10*time.Minute).Milliseconds()))
		stored += len(e.Partition(edge.Unverified, string(partition)))
	}
	if graves.Read() != 0 || most > 20 || stored > 60 {
		t.Errorf("%d tombstones read, %d rows in a pass, %d rows stored", graves.Read(), most, stored)
	}
}

// counting counts the rows that ranges return.
type counting struct {
	store.Rows
	read int
}

func (c *counting) Range(ctx context.Context, t store.Table, r store.Range) ([]store.Row, error) {
	found, err := c.Rows.Range(ctx, t, r)
	c.read += len(found)
	return found, err
}

// What only its author may read is never cached, whatever became of it.
func TestAnEndOfWhatIsNotForEveryoneIsNotKept(t *testing.T) {
	e, c := fixture.Open(t), fixture.NewCache(t)
	p := purger(e, edge.Options{}, c)
	var want []mayfly.Event
	for _, audience := range []mayfly.Audience{mayfly.Everyone, mayfly.Followers, mayfly.CloseFriends, mayfly.OnlyAuthor} {
		draft := e.Draft()
		draft.Audience = audience
		item := e.Publish(draft, fixture.Start)
		ev := mayfly.Event{ID: item.ID, Generation: 2, Product: item.Product, Verb: mayfly.WasDeleted, At: at(0), Owner: item.Owner}
		e.Must(p.Reader().Batch(t.Context(), []mayfly.Event{ev}))
		if audience == mayfly.Everyone {
			want = append(want, ev)
		}
	}
	e.Hooks.LedgerGet = func(context.Context, []mayfly.ID, func() ([]store.Found, error)) ([]store.Found, error) {
		return nil, mayfly.Errorf(mayfly.Unavailable, "the store is away")
	}
	unknown := end(e, 1, mayfly.WasDeleted)
	e.Must(p.Reader().Batch(t.Context(), []mayfly.Event{unknown}))
	want = append(want, unknown)
	got := map[mayfly.Event]bool{}
	for _, u := range unverified(e) {
		got[u.Event] = true
	}
	if len(got) != len(want) || !got[want[0]] || !got[want[1]] {
		t.Errorf("unverified %v, want %v", got, want)
	}
}

// A pass that is stopped at any write repeats purges and loses none, and it does not
// multiply them.
func TestAPassThatIsStoppedLosesNoPurgeAndDoublesNone(t *testing.T) {
	stops := stopPasses(t, 1) + stopPasses(t, 40) // in time, and so late that the watermark moves at once
	if t.Logf("%d stops", stops); stops < 5 {
		t.Errorf("only %d stops", stops)
	}
}

func stopPasses(t *testing.T, begin int) (stops int) {
	t.Helper()
	const purges = 5
	for stop := 1; ; stop++ {
		e, c := fixture.Open(t), fixture.NewCache(t)
		now := at(0)
		p := purgerAt(e, &now, edge.Options{}, c)
		var events []mayfly.Event
		for i := range purges {
			events = append(events, end(e, i, mayfly.WasDeleted))
		}
		e.Must(p.Reader().Batch(t.Context(), events))
		commits, stopped := 0, false
		e.Hooks.Commit = func(ctx context.Context, b *store.Batch, do func() error) error {
			if commits++; commits == stop {
				stopped = true
				var first store.Batch // of several stages only the first
				for _, put := range b.Stages()[0].Puts {
					first.Put(put.Table, put.Key, put.Value, put.ReclaimAt)
				}
				return errors.Join(mayfly.Errorf(mayfly.Unknown, "stopped"), e.Real.Writer.Commit(ctx, &first))
			}
			return do()
		}
		for second := begin; second <= 100; second++ {
			now = at(time.Duration(second) * time.Second)
			if err := p.Pass(t.Context(), now); err != nil && !errors.Is(err, mayfly.Unknown) {
				t.Fatal(err)
			}
			if left := unverified(e); len(left) > 2*purges {
				t.Fatalf("stop %d: %d rows for %d purges", stop, len(left), purges)
			}
		}
		done := map[mayfly.ID]bool{}
		for _, ev := range logged(e) {
			done[ev.ID] = true
		}
		if left := unverified(e); len(left) != 0 || len(done) != purges {
			t.Errorf("stop %d: unverified %+v, %d of %d verified", stop, left, len(done), purges)
		}
		if !stopped {
			return stops
		}
		stops++
	}
}

// A write that took so long that the watermark may be past it is made again.
func TestAPurgeThatWasWrittenTooLateIsWrittenAgain(t *testing.T) {
	e, c := fixture.Open(t), fixture.NewCache(t)
	now := at(0)
	p := purgerAt(e, &now, edge.Options{}, c)
	e.Hooks.Commit = func(_ context.Context, _ *store.Batch, do func() error) error {
		now = now.Add(10 * time.Second)
		return do()
	}
	if err := p.Reader().Batch(t.Context(), []mayfly.Event{end(e, 1, mayfly.WasDeleted)}); !errors.Is(err, mayfly.Unavailable) {
		t.Errorf("the end of an item: %v", err)
	}
	if err := p.Owner(t.Context(), fixture.Ana(), now); !errors.Is(err, mayfly.Unavailable) {
		t.Errorf("a block: %v", err)
	}
}

func TestKeysAreSentInRequestsThatVarnishTakes(t *testing.T) {
	c := fixture.NewCache(t)
	v := varnish(t, c)
	var keys []string
	for i := range 1_000 {
		keys = append(keys, fmt.Sprintf("i-%036d", i))
	}
	c.Fill(keys...)
	n, err := v.Cached(t.Context(), keys)
	if err != nil || n != 1_000 || len(c.Keys()) != 0 || c.Requests() > 10 {
		t.Errorf("%d purged, %v, %d requests", n, err, c.Requests())
	}
}

func TestAServerThatDoesNotPurgeIsFound(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "welcome") }))
	defer plain.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, o := range map[string]edge.VarnishOptions{
		"another server":   {URLs: []string{plain.URL}, Secret: fixture.PurgeSecret},
		"the wrong secret": {URLs: []string{fixture.NewCache(t).URL}, Secret: "other"},
		"no server":        {URLs: []string{gone.URL}, Secret: fixture.PurgeSecret},
	} {
		v, err := edge.NewVarnish(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Purge(t.Context(), []string{"i-1"}); !errors.Is(err, mayfly.Unavailable) || strings.Contains(err.Error(), o.Secret.Reveal()) {
			t.Errorf("%s: %v", name, err)
		}
		v.Close()
	}
	for name, o := range map[string]edge.VarnishOptions{
		"no server": {Secret: fixture.PurgeSecret}, "no secret": {URLs: []string{"http://127.0.0.1"}}, "no URL": {URLs: []string{"127.0.0.1"}, Secret: fixture.PurgeSecret},
	} {
		if _, err := edge.NewVarnish(o); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
