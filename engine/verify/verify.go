// Package verify checks whether the store and the answers of a server are right.
// Its result has seven words, one for each thing that must never happen. It reads
// the store, the event log and the record of clients, and never writes.
package verify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
)

// Options say what Run looks at.
type Options struct {
	Now      mayfly.Instant
	Late     time.Duration     // how long after it was due a step is LATE; default 2 h
	Window   time.Duration     // the archive's; default 90 min
	Bytes    bool              // read and hash every medium; else only its size and stored hash are compared
	Progress func(minutes int) // gets how many minutes of deadlines are read; may be nil

	// Each is called for every row, for checks that only the caller can make; it adds
	// what it finds to the report. May be nil.
	Each func(ctx context.Context, r *Report, item mayfly.Item, body store.FoundBody) error

	Objects bool       // list both tiers and look for objects that no row owns, and for rows of erased items
	Group   string     // read the whole event log for this group; empty does not
	Gate    *gate.Gate // ask what a stranger and the author get of every item; may be nil
	Record  *Record    // what clients know; may be nil
}

func (o Options) withDefaults() Options {
	if o.Late == 0 {
		o.Late = 2 * time.Hour
	}
	if o.Window == 0 {
		o.Window = mayfly.DefaultArchiveAfter
	}
	if o.Progress == nil {
		o.Progress = func(int) {}
	}
	return o
}

// Report is what Run has looked at and found.
type Report struct {
	Tally
	Items, Media, Bytes, Objects, Events int64
	States                               map[string]int64

	Strange    int // objects whose keys mayfly does not make; without a Record they are left alone
	Unanswered int // rows that no client knows of, which the Record allows
	Unfinished int // objects of uploads that were never published, which the Record allows
}

// Run verifies a store. It reads while others write: then an item can be seen in
// the middle of a step, so that a Record is compared only with a store at rest.
func Run(ctx context.Context, set store.Set, o Options) (*Report, error) {
	c := &check{set: set, o: o.withDefaults(), report: &Report{States: map[string]int64{}}, logged: map[mayfly.ID][]mayfly.Event{}}
	if o.Record != nil {
		c.seen = map[mayfly.ID]mayfly.Generation{}
	}
	if o.Gate == nil {
		c.report.Unmeasured(Leak, "no gate was asked")
	}
	if !o.Objects {
		c.report.Unmeasured(Orphan, "the stored objects were not listed")
	}
	if o.Group == "" {
		c.report.Unmeasured(Double, "the event log was not read")
	}
	for _, look := range []func(context.Context) error{c.log, c.ledger, c.missing, c.objects} {
		if err := look(ctx); err != nil {
			return nil, fmt.Errorf("verify: %w", err)
		}
	}
	return c.report, nil
}

// check is a verification under way.
type check struct {
	set    store.Set
	o      Options
	report *Report
	logged map[mayfly.ID][]mayfly.Event    // by item, each key once
	seen   map[mayfly.ID]mayfly.Generation // rows that were found; only with a Record
	mu     sync.Mutex                      // guards the report while objects are looked at
}

func (c *check) find(w Word, id mayfly.ID, format string, args ...any) {
	c.report.Add(w, "%s  %s", id, fmt.Sprintf(format, args...))
}

const page = 500

// ledger reads every row, however far away its deadline is.
func (c *check) ledger(ctx context.Context) error {
	minutes, last := 0, mayfly.Minute(0)
	err := store.EachMinute(ctx, c.set.Ledger, 0, math.MaxUint32, func(minute mayfly.Minute, shard mayfly.Shard) error {
		if minute != last {
			minutes, last = minutes+1, minute
			c.o.Progress(minutes)
		}
		return c.minute(ctx, minute, shard)
	})
	if err != nil {
		return err
	}
	for shard := range mayfly.Shard(mayfly.Shards) {
		if err := c.eternal(ctx, shard); err != nil {
			return err
		}
	}
	return nil
}

func (c *check) minute(ctx context.Context, minute mayfly.Minute, shard mayfly.Shard) error {
	s := store.Stretch{Minute: minute, Shard: shard, To: (minute + 1).Start() - 1}
	for {
		items, err := c.set.Ledger.Walk(ctx, s, page)
		if err != nil {
			return err
		}
		if err := c.items(ctx, items); err != nil || len(items) < page {
			return err
		}
		s.After = store.PositionOf(items[len(items)-1])
	}
}

func (c *check) eternal(ctx context.Context, shard mayfly.Shard) error {
	var after mayfly.ID
	for {
		items, err := c.set.Ledger.Eternal(ctx, shard, after, page)
		if err != nil {
			return err
		}
		if err := c.items(ctx, items); err != nil || len(items) < page {
			return err
		}
		after = items[len(items)-1].ID
	}
}

func (c *check) items(ctx context.Context, items []mayfly.Item) error {
	if len(items) == 0 {
		return nil
	}
	ids := make([]mayfly.ID, len(items))
	for i, item := range items {
		ids[i] = item.ID
	}
	bodies, err := c.set.Ledger.Body(ctx, ids...)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i, item := range items {
		if err := c.row(ctx, item, bodies[i]); err != nil {
			return errors.Join(err, g.Wait())
		}
		g.Go(func() error { return c.item(ctx, item, bodies[i]) })
	}
	return g.Wait()
}

// atOnce is how many items or objects are looked up concurrently.
const atOnce = 16

// row compares a row with the time, the log and the Record.
func (c *check) row(ctx context.Context, item mayfly.Item, body store.FoundBody) error {
	c.report.Items++
	c.report.States[item.Shown(c.o.Now)]++
	c.onTime(item, body)
	c.events(item)
	c.expected(item, body)
	if c.o.Each == nil {
		return nil
	}
	return c.o.Each(ctx, c.report, item, body)
}

// item compares a row with what the store has of its item.
func (c *check) item(ctx context.Context, item mayfly.Item, body store.FoundBody) error {
	if err := c.served(ctx, item); err != nil {
		return err
	}
	if item.State == mayfly.Deleted && !item.Held {
		return c.erased(ctx, item, body)
	}
	if err := c.owned(ctx, item); err != nil {
		return err
	}
	if !body.Found {
		c.find(Lost, item.ID, "its content is gone, and it is %s", item.State)
		return nil
	}
	for n, medium := range body.Body.Media {
		atomic.AddInt64(&c.report.Media, 1)
		if err := c.medium(ctx, item, n, medium); err != nil {
			return err
		}
	}
	return nil
}

// onTime compares the state with the time.
func (c *check) onTime(item mayfly.Item, body store.FoundBody) {
	now := c.o.Now
	late := now.Add(-c.o.Late)
	moved := item.State == mayfly.ExpiredHot || item.State == mayfly.Archiving || item.State == mayfly.Cold
	switch {
	case item.Cause == mayfly.ByExpiry && item.Changed < item.ID.Deadline():
		c.find(Early, item.ID, "it expired at %s, before its deadline %s", item.Changed, item.ID.Deadline())
	case moved && item.Changed < item.ID.Deadline():
		c.find(Early, item.ID, "it is %s since %s, before its deadline %s", item.State, item.Changed, item.ID.Deadline())
	case item.Held:
	case moved && !item.EndedAt(now):
		c.find(Early, item.ID, "it is %s, and serves until %s", item.State, item.End())
	case item.State == mayfly.Active && item.ID.Expires() && item.EndedAt(late):
		c.find(Late, item.ID, "its end was at %s, and nothing has ended it", item.End())
	case (item.State == mayfly.ExpiredHot || item.State == mayfly.Archiving) && item.EndedAt(late.Add(-c.o.Window)) && item.Changed < late:
		c.find(Late, item.ID, "it is %s since %s", item.State, item.Changed)
	case item.State == mayfly.Deleted && body.Found && item.Changed < late:
		c.find(Late, item.ID, "deleted at %s, and its content is still there", item.Changed)
	}
}

// owned looks for items of an erased account, and for an upload that is not the
// item's.
func (c *check) owned(ctx context.Context, item mayfly.Item) error {
	if !item.Owner.IsZero() && item.State != mayfly.Deleted {
		erased, err := c.set.Rows.Get(ctx, engine.Erased, engine.ErasedKey(item.Owner))
		if err != nil {
			return err
		}
		if erased[0] != nil && !item.Held && item.ID.Birth() < c.o.Now.Add(-c.o.Late) {
			c.find(Resurrected, item.ID, "its owner's account is erased, and it is %s", item.State)
		}
		indexed, err := c.set.Rows.Get(ctx, engine.Owners, engine.OwnerKey(item.Owner, item.ID))
		if err != nil {
			return err
		}
		if indexed[0] == nil {
			c.find(Orphan, item.ID, "it is not in the index of its owner")
		}
	}
	if item.Media == 0 {
		return nil
	}
	found, err := c.set.Rows.Get(ctx, engine.Uploads, engine.UploadKey(item.Upload))
	if err != nil {
		return err
	}
	if string(found[0]) != string(item.ID[:]) {
		c.find(Double, item.ID, "its upload %s is owned by %x", item.Upload, found[0])
	}
	return nil
}

// erased looks for rows of an erased item in every declared table of items. A table
// whose rows have a time to live is not looked at: a row may be written late there,
// and ends by itself.
func (c *check) erased(ctx context.Context, item mayfly.Item, body store.FoundBody) error {
	if !c.o.Objects || body.Found || item.Changed >= c.o.Now.Add(-c.o.Late) {
		return nil
	}
	for _, t := range c.set.Rows.Tables() {
		d := t.Declared()
		if d.Erasure != store.PartitionIsItem || d.TimeToLive > 0 || d.MayHave != nil && !d.MayHave(item) {
			continue
		}
		for _, partition := range t.ItemPartitions(item.ID) {
			left, err := c.set.Rows.Range(ctx, t, store.Range{Partition: partition, Limit: 1})
			if err != nil {
				return fmt.Errorf("table %s: %w", t, err)
			}
			if len(left) > 0 {
				c.find(Orphan, item.ID, "it is erased, and table %s has rows of it", t)
			}
		}
	}
	return nil
}

// medium looks for one whole copy where the row names one (I2).
func (c *check) medium(ctx context.Context, item mayfly.Item, n int, medium mayfly.Medium) error {
	type place struct {
		name  string
		tier  store.Blobs
		under mayfly.Generation
	}
	var why error
	for _, p := range []place{{"hot", c.set.Hot, item.Keys.Hot}, {"cold", c.set.Cold, item.Keys.Cold}} {
		if p.under == 0 {
			continue
		}
		err := c.read(ctx, p.tier, item.MediaKey(p.under, n), medium)
		if err == nil {
			return nil
		}
		if !errors.Is(err, mayfly.NotFound) && !errors.Is(err, mayfly.Corrupt) {
			return err
		}
		why = fmt.Errorf("%s: %w", p.name, err)
	}
	c.find(Lost, item.ID, "medium %d has no whole copy: %v", n, why)
	return nil
}

func (c *check) read(ctx context.Context, tier store.Blobs, key mayfly.BlobKey, medium mayfly.Medium) error {
	if !c.o.Bytes {
		object, err := tier.Stat(ctx, key)
		if err == nil && (object.Size != medium.Size || object.SHA256 != medium.SHA256) {
			err = mayfly.Errorf(mayfly.Corrupt, "%s is not what was uploaded", key)
		}
		return err
	}
	size, err := upload.ReadBack(ctx, tier, key, medium)
	atomic.AddInt64(&c.report.Bytes, size)
	return err
}

// served asks the gate what a stranger and the author get.
func (c *check) served(ctx context.Context, item mayfly.Item) error {
	if c.o.Gate == nil {
		return nil
	}
	ended, public := item.EndedAt(c.o.Now), item.Audience == mayfly.Everyone
	open := func(viewer mayfly.Viewer) (served bool, err error) {
		_, err = c.o.Gate.Open(ctx, item.ID, viewer, c.o.Now)
		if errors.Is(err, mayfly.NotFound) || errors.Is(err, mayfly.Gone) {
			return false, nil
		}
		return err == nil, err
	}
	served, err := open(mayfly.Viewer{})
	switch whole := item.State != mayfly.Deleted && !item.Held; {
	case err != nil:
		return err
	case served && ended:
		c.find(Late, item.ID, "a stranger is served at %s, and it ended at %s", c.o.Now, item.End())
	case served && (!public || !whole):
		c.find(Leak, item.ID, "a stranger is served what is for %s, held: %t, %s", item.Audience, item.Held, item.State)
	case !served && !ended && public && whole:
		c.find(Early, item.ID, "a stranger is refused at %s, before its end %s", c.o.Now, item.End())
	}
	if item.Owner.IsZero() {
		return nil
	}
	served, err = open(mayfly.ViewerOf(item.Owner))
	switch kept := item.State != mayfly.Deleted && !item.Held && !(ended && item.Fate == mayfly.Purge); {
	case err != nil:
		return err
	case served && !kept:
		c.find(Leak, item.ID, "its author is served, held: %t, %s", item.Held, item.State)
	case !served && kept:
		c.find(Lost, item.ID, "its author is refused, and it is %s", item.State)
	}
	return nil
}

// log reads every event that is kept. It commits nothing: the group stays where
// it is.
func (c *check) log(ctx context.Context) error {
	if c.o.Group == "" {
		return nil
	}
	if many, err := c.tooMany(ctx); err != nil || many {
		return err
	}
	same := map[mayfly.EventKey]mayfly.Event{}
	for _, stream := range []mayfly.Stream{mayfly.Births, mayfly.Ends} {
		if err := c.stream(ctx, stream, same); err != nil {
			return fmt.Errorf("read %s: %w", stream, err)
		}
	}
	return nil
}

// maxEvents is how many events of the log are compared: they are kept in memory.
// With a Record it is the caller who bounds them.
const maxEvents = 4_000_000

// tooMany reports whether the log has more events than can be compared.
func (c *check) tooMany(ctx context.Context) (bool, error) {
	if c.o.Record != nil {
		return false, nil
	}
	all := int64(0)
	for _, stream := range []mayfly.Stream{mayfly.Births, mayfly.Ends} {
		r, err := c.set.Log.Reader(ctx, stream, c.o.Group)
		if err != nil {
			return false, err
		}
		err = r.Seek(ctx, 0)
		if err == nil {
			var lag int64
			lag, err = r.Lag(ctx)
			all += lag
		}
		if err := errors.Join(err, r.Close()); err != nil {
			return false, err
		}
	}
	if all <= maxEvents {
		return false, nil
	}
	c.report.Unmeasured(Double, fmt.Sprintf("the event log has %d events, and at most %d are compared", all, maxEvents))
	return true, nil
}

func (c *check) stream(ctx context.Context, stream mayfly.Stream, same map[mayfly.EventKey]mayfly.Event) (err error) {
	r, err := c.set.Log.Reader(ctx, stream, c.o.Group)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := r.Seek(ctx, 0); err != nil {
		return err
	}
	for {
		lag, err := r.Lag(ctx)
		if err != nil || lag == 0 {
			return err
		}
		records, err := r.Next(ctx, 10_000)
		if err != nil {
			return err
		}
		for _, record := range records {
			c.event(record.Event, same)
		}
	}
}

// event keeps one event of each key: events arrive at least once (I13).
func (c *check) event(e mayfly.Event, same map[mayfly.EventKey]mayfly.Event) {
	c.report.Events++
	if e.AboutUser() {
		return
	}
	other, again := same[e.Key()]
	switch {
	case again && other != e:
		c.find(Double, e.ID, "two different events %s of generation %d: %+v and %+v", e.Type(), e.Generation, other, e)
		return
	case again:
		return
	case (e.Verb == mayfly.WasExpired || e.Verb == mayfly.WasArchived) && e.ID.Expires() && e.At < e.ID.Deadline():
		c.find(Early, e.ID, "the log has %s at %s, before its deadline %s", e.Type(), e.At, e.ID.Deadline())
	}
	same[e.Key()] = e
	c.logged[e.ID] = append(c.logged[e.ID], e)
}

// events compares a row with the events about it.
func (c *check) events(item mayfly.Item) {
	if c.o.Group == "" {
		return
	}
	count := map[mayfly.Verb]int{}
	for _, e := range c.logged[item.ID] {
		count[e.Verb]++
		if e.Generation > item.Generation {
			c.find(Resurrected, item.ID, "the log has %s of generation %d, and the row has %d", e.Type(), e.Generation, item.Generation)
		}
	}
	var e Expected
	known := false // without a Record: what the log does not have may have been trimmed
	if c.o.Record != nil {
		e, known = c.o.Record.Items[item.ID]
	}
	restored := count[mayfly.WasRestored]
	if max(count[mayfly.WasExpired], count[mayfly.WasArchived]) > 1+restored || count[mayfly.WasDeleted] > 1 {
		c.find(Double, item.ID, "the log has %d expiries, %d archivings, %d restores and %d deletes of it",
			count[mayfly.WasExpired], count[mayfly.WasArchived], restored, count[mayfly.WasDeleted])
	}
	if !known || e.Moving {
		return // its birth or its last step may have been cut off anywhere
	}
	ends := max(1, e.Ends)
	switch {
	case item.State == mayfly.Cold && (count[mayfly.WasExpired] < ends || count[mayfly.WasArchived] < ends):
		c.find(Lost, item.ID, "it is cold, and the log has %d expiries and %d archivings of it", count[mayfly.WasExpired], count[mayfly.WasArchived])
	case count[mayfly.WasExpired] < restored || restored == 0 && item.ServesUntil != 0 && item.State != mayfly.Deleted:
		c.find(Lost, item.ID, "it was restored, and the log has %d expiries and %d restores of it", count[mayfly.WasExpired], restored)
	case item.State == mayfly.Deleted && e.Deleted == Yes && (item.Cause == mayfly.ByUser || item.Cause == mayfly.ByReader) && count[mayfly.WasDeleted] == 0:
		c.find(Lost, item.ID, "its delete was acknowledged, and the log does not have it")
	case item.Held && count[mayfly.WasHeld] == 0:
		c.find(Lost, item.ID, "it is held, and the log does not have that")
	}
}
