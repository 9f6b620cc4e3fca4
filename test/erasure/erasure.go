// Package erasure is the fixture of the tests of erase, accounterase, collect and
// scrub: the embedded store with stories in every state, and faults around it.
package erasure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/collect"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/scrub"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskstore"
	"github.com/mayflyhq/mayfly/store/memstore"
	"github.com/mayflyhq/mayfly/store/pebblestore"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/tables"
)

// Times of the fixture.
const (
	Born mayfly.Instant = 1_800_000_000_000
	Day                 = 24 * time.Hour
	// Soon is when the reminders of an operation are due and settled.
	Soon = 2*time.Minute + 30*time.Second
)

// Ana and Ben are users.
func Ana() mayfly.UserID { return mayfly.UserOf("test", "ana") }
func Ben() mayfly.UserID { return mayfly.UserOf("test", "ben") }

// Fixture is the embedded store on a memory file system. A test may wrap what is
// in Set before it makes an eraser.
type Fixture struct {
	testing.TB
	Set       store.Set // with the faults of the test
	Real      store.Set // without them
	Deletions store.Blobs
	Now       mayfly.Instant
	Origin    mayfly.Instant // before which no reminder is looked for
	Random    *rand.Rand     // of ids; nil: crypto
	Close     func() error
}

// Open opens a fixture that is closed with the test.
func Open(t testing.TB) *Fixture {
	t.Helper()
	fx := OpenOn(t, vfs.NewMem())
	t.Cleanup(func() {
		if err := fx.Close(); err != nil {
			t.Error(err)
		}
	})
	return fx
}

// OpenOn opens the store on a file system; the caller closes it.
func OpenOn(t testing.TB, fs vfs.FS) *Fixture {
	t.Helper()
	fuse := store.NewFuse()
	db, err := pebblestore.Open(pebblestore.Options{Tables: tables.All(), FS: fs, Dir: "db", Fuse: fuse, MemtableBytes: 256 << 10, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	set := store.Set{Writer: db.Writer(), Ledger: db.Ledger(), Rows: db.Rows(), Log: db.Log(), Signals: memstore.NewSignals(), Fuse: fuse}
	closers := []func() error{db.Close}
	tier := func(name string) store.Blobs {
		s, err := diskstore.Open(diskstore.Options{FS: fs, Dir: name, Fuse: fuse, MemtableBytes: 256 << 10, CacheBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		closers = append(closers, s.Close)
		return s
	}
	set.Hot, set.Cold = tier("hot"), tier("cold")
	fx := &Fixture{TB: t, Set: set, Real: set, Deletions: tier("deletions"), Now: Born, Origin: Born.Add(-time.Minute)}
	fx.Close = func() error {
		var all error
		for i := len(closers) - 1; i >= 0; i-- {
			all = errors.Join(all, closers[i]())
		}
		return all
	}
	return fx
}

// Seeded returns a source of randomness and logs its seed; MAYFLY_SEED sets it.
func Seeded(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("MAYFLY_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// Must fails the test on an error.
func (fx *Fixture) Must(err error) {
	fx.Helper()
	if err != nil {
		fx.Fatal(err)
	}
}

// Eraser returns an Erase over Set.
func (fx *Fixture) Eraser() *erase.Erase { return fx.EraserWith(erase.Options{}) }

// EraserWith returns an Erase over Set with options.
func (fx *Fixture) EraserWith(o erase.Options) *erase.Erase {
	fx.Helper()
	e, err := erase.New(fx.Set, o)
	fx.Must(err)
	return e
}

// Content returns the bytes of medium n.
func Content(n int) []byte { return bytes.Repeat([]byte(fmt.Sprintf("medium %d ", n)), 100) }

// Story publishes a story of Ana with so many media, for an hour.
func (fx *Fixture) Story(media int) mayfly.Item {
	return fx.Publish(intake.Draft{Owner: Ana(), Fate: mayfly.Archive}, media)
}

// Publish publishes a draft with so many media.
func (fx *Fixture) Publish(d intake.Draft, media int) mayfly.Item {
	fx.Helper()
	o := intake.Options{}
	if fx.Random != nil {
		o.Random = bits{fx.Random}
	}
	in, err := intake.New(fx.Real, o)
	fx.Must(err)
	d.Product, d.Audience, d.Text = mayfly.Story, mayfly.Everyone, "a story"
	if d.Lifetime == mayfly.Never {
		d.Lifetime, err = mayfly.LifetimeOf(time.Hour)
		fx.Must(err)
	}
	if d.Lifetime == Eternal {
		d.Lifetime = mayfly.Never
	}
	if media > 0 {
		uploads, err := upload.New(fx.Real, upload.Options{Random: o.Random})
		fx.Must(err)
		d.Upload, err = uploads.Begin(d.Owner, fx.Now)
		fx.Must(err)
	}
	for n := range media {
		_, err := d.Upload.Add(context.Background(), bytes.NewReader(Content(n)))
		fx.Must(err)
	}
	p, err := in.Publish(context.Background(), d, fx.Now)
	fx.Must(err)
	return p.Item
}

// Eternal stands for Never in a draft, whose zero is an hour here.
const Eternal = mayfly.Lifetime(0xffff)

// bits is a reader of random bits that a seed decides.
type bits struct{ *rand.Rand }

func (b bits) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b.Uint32())
	}
	return len(p), nil
}

// Sweep expires items at an hour after their birth, as the sweep does.
func (fx *Fixture) Sweep(items ...mayfly.Item) {
	fx.Helper()
	for _, item := range items {
		fx.Now = max(fx.Now, item.ID.Deadline())
		to := mayfly.ExpiredHot
		if item.Fate == mayfly.Purge {
			to = mayfly.Deleted
		}
		fx.Change(item.ID, mayfly.Change{To: to, Cause: mayfly.ByExpiry, Run: 1})
	}
}

// Archive moves items to cold.
func (fx *Fixture) Archive(items ...mayfly.Item) {
	fx.Helper()
	fx.Sweep(items...)
	fx.Now = max(fx.Now, Born.Add(150*time.Minute))
	a, err := archive.New(fx.Real, archive.Options{Window: time.Nanosecond}) // some have ended just now
	fx.Must(err)
	fx.Acted(a.Act(context.Background(), walk.Batch{Items: fx.Rows(items), Now: fx.Now, Run: 2}))
}

// Acted fails the test on an error or a failure of an act.
func (fx *Fixture) Acted(failures []walk.Failure, err error) {
	fx.Helper()
	fx.Must(err)
	if len(failures) > 0 {
		fx.Fatalf("failures: %v", failures)
	}
}

// Change changes a row as another process would.
func (fx *Fixture) Change(id mayfly.ID, c mayfly.Change) mayfly.Item {
	fx.Helper()
	item := fx.Row(id)
	c.ID, c.From, c.Generation, c.Nonce, c.At = id, item.State, item.Generation, 99, fx.Now
	if c.To == 0 {
		c.To = item.State
	}
	outcomes, err := fx.Real.Ledger.Transition(context.Background(), []mayfly.Change{c})
	fx.Must(err)
	if outcomes[0].Result != store.Applied {
		fx.Fatalf("%+v", outcomes[0])
	}
	return outcomes[0].Current
}

// Hold holds an item.
func (fx *Fixture) Hold(id mayfly.ID) {
	fx.Change(id, mayfly.Change{Hold: mayfly.SetHold, Cause: mayfly.BySupport})
}

// Release releases an item.
func (fx *Fixture) Release(id mayfly.ID) {
	fx.Change(id, mayfly.Change{Hold: mayfly.ReleaseHold, Cause: mayfly.BySupport})
}

// Found reads a row that may not exist.
func (fx *Fixture) Found(id mayfly.ID) store.Found {
	fx.Helper()
	found, err := fx.Real.Ledger.Get(context.Background(), id)
	fx.Must(err)
	return found[0]
}

// Row reads a row that must exist.
func (fx *Fixture) Row(id mayfly.ID) mayfly.Item {
	fx.Helper()
	f := fx.Found(id)
	if !f.Found {
		fx.Fatalf("there is no row of %s", id)
	}
	return f.Item
}

// Rows reads the rows of items.
func (fx *Fixture) Rows(items []mayfly.Item) []mayfly.Item {
	fx.Helper()
	rows := make([]mayfly.Item, len(items))
	for i, item := range items {
		rows[i] = fx.Row(item.ID)
	}
	return rows
}

// HasBody reports whether the body of an item exists.
func (fx *Fixture) HasBody(id mayfly.ID) bool {
	fx.Helper()
	found, err := fx.Real.Ledger.Body(context.Background(), id)
	fx.Must(err)
	return found[0].Found
}

// Act erases items as a reminder would.
func (fx *Fixture) Act(items ...mayfly.Item) {
	fx.Helper()
	fx.Acted(fx.Eraser().Act(context.Background(), walk.Batch{Items: items, Now: fx.Now, Repeat: true}))
}

// Keys lists the objects of a tier.
func (fx *Fixture) Keys(tier store.Blobs) []mayfly.BlobKey {
	fx.Helper()
	listed, err := tier.List(context.Background(), "", "", 10_000)
	fx.Must(err)
	keys := make([]mayfly.BlobKey, len(listed))
	for i, l := range listed {
		keys[i] = l.Key
	}
	return keys
}

// Put stores an object that no item names.
func (fx *Fixture) Put(tier store.Blobs, key mayfly.BlobKey) {
	fx.Helper()
	_, err := tier.Put(context.Background(), key, bytes.NewReader([]byte("planted")))
	fx.Must(err)
}

// Traces lists where an item is still named or stored, beside its tombstone.
func (fx *Fixture) Traces(item mayfly.Item) []string {
	fx.Helper()
	ctx, all := context.Background(), []string(nil)
	note := func(what string, there bool) {
		if there {
			all = append(all, what)
		}
	}
	get := func(t store.Table, key store.Key) bool {
		found, err := fx.Real.Rows.Get(ctx, t, key)
		fx.Must(err)
		return found[0] != nil
	}
	note("body", fx.HasBody(item.ID))
	note("owners", get(engine.Owners, engine.OwnerKey(item.Owner, item.ID)))
	if item.Media > 0 {
		note("uploads", get(engine.Uploads, engine.UploadKey(item.Upload)))
	}
	for name, tier := range map[string]store.Blobs{"hot": fx.Real.Hot, "cold": fx.Real.Cold} {
		for _, key := range fx.Keys(tier) {
			note(name+" "+string(key), bytes.Contains([]byte(key), []byte(item.ID.Short())) ||
				item.Media > 0 && bytes.Contains([]byte(key), []byte(item.Upload.Short())))
		}
	}
	return all
}

// Appended counts the events with a verb in the log, by item.
func (fx *Fixture) Appended(verb mayfly.Verb) map[mayfly.ID]int {
	fx.Helper()
	ctx := context.Background()
	r, err := fx.Real.Log.Reader(ctx, mayfly.Ends, "test")
	fx.Must(err)
	defer func() { fx.Must(r.Close()) }()
	counts := map[mayfly.ID]int{}
	for {
		lag, err := r.Lag(ctx)
		fx.Must(err)
		if lag == 0 {
			return counts
		}
		records, err := r.Next(ctx, 100)
		fx.Must(err)
		for _, record := range records {
			if record.Event.Verb == verb {
				counts[record.Event.ID]++
			}
		}
	}
}

// Reminders walks every reminder that is due at now, with the steps of e.
func (fx *Fixture) Reminders(e *erase.Erase, now mayfly.Instant) error {
	fx.Helper()
	ctx := context.Background()
	acts := remind.Acts{remind.Erase: e.Act, remind.Tidy: e.TidyAct, remind.Expire: nothing, remind.Archive: nothing, remind.Announce: nothing}
	for shard := range mayfly.Shards {
		s := walk.NewShard(fx.Set.Rows, mayfly.Shard(shard), fmt.Sprintf("test-%d", rand.Uint64()), time.Millisecond, fx.Origin)
		w, err := remind.New(fx.Set, s, acts, remind.Options{})
		fx.Must(err)
		for more := true; more; {
			if more, err = w.Pass(ctx, now); err != nil {
				return err
			}
		}
		if err := s.Release(ctx); err != nil {
			return err
		}
	}
	return nil
}

func nothing(context.Context, walk.Batch) ([]walk.Failure, error) { return nil, nil }

// Scan counts what is left of a user.
func (fx *Fixture) Scan(user mayfly.UserID) accounterase.References {
	fx.Helper()
	r, err := fx.Accounts().Scan(context.Background(), user)
	fx.Must(err)
	return r
}

// Belongings gives a user something in every state and every table.
func (fx *Fixture) Belongings(user mayfly.UserID) []mayfly.Item {
	fx.Helper()
	draft := intake.Draft{Owner: user, Fate: mayfly.Archive}
	keyed := draft
	keyed.Key = "a key of the user's"
	forever := draft
	forever.Lifetime = Eternal
	cold, expired, purged := fx.Publish(draft, 2), fx.Publish(keyed, 1), fx.Publish(intake.Draft{Owner: user, Fate: mayfly.Purge}, 1)
	fx.Archive(cold)
	fx.Sweep(expired, purged)
	deleted, active := fx.Publish(draft, 1), fx.Publish(draft, 3)
	_, err := fx.Eraser().Delete(context.Background(), deleted.ID, mayfly.ByUser, fx.Now)
	fx.Must(err)
	all := []mayfly.Item{cold, expired, purged, deleted, active, fx.Publish(forever, 1)}
	fx.Acquaint(user, all)
	return all
}

// WantAudited wants a valid audit log of so many records.
func (fx *Fixture) WantAudited(t *testing.T, want int) {
	t.Helper()
	report, err := audit.Verify(t.Context(), fx.Real.Rows, func(r audit.Record) error {
		if r.Entry.Verb != audit.EraseAccount || r.Entry.Subject.User != Ana() {
			t.Errorf("%+v", r.Entry)
		}
		return nil
	})
	if err != nil || len(report.Findings) > 0 || report.Records != want {
		t.Fatalf("%+v, %v", report, err)
	}
}

// NewID returns an id of an item of the owner, born now, for a day.
func (fx *Fixture) NewID(owner mayfly.UserID) mayfly.ID {
	fx.Helper()
	lifetime, err := mayfly.LifetimeOf(24 * time.Hour)
	fx.Must(err)
	id, err := mayfly.NewID(fx.Now, lifetime, owner.Trace(), uint64(fx.Now))
	fx.Must(err)
	return id
}

// Follower returns a user who follows the given user.
func Follower(of mayfly.UserID) mayfly.UserID {
	return mayfly.UserOf("test", "follower of "+of.String())
}

// SwapIn writes a row of a swapped table that must not exist yet.
func (fx *Fixture) SwapIn(t store.Table, key store.Key) {
	fx.Helper()
	swapped, _, err := fx.Real.Rows.Swap(context.Background(), t, key, nil, []byte{1, byte(mayfly.Follower)}, 0)
	if fx.Must(err); !swapped {
		fx.Fatalf("%s: there is a row already", t)
	}
}

// Relate makes other a follower of owner, in both directions.
func (fx *Fixture) Relate(owner, other mayfly.UserID) {
	fx.Helper()
	fx.SwapIn(account.Related, account.RelatedKey(other, owner))
	fx.SwapIn(account.Relations, account.RelationKey(owner, other))
}

// PutRows writes rows of plain tables.
func (fx *Fixture) PutRows(rows map[store.Table]store.Key) {
	fx.Helper()
	var b store.Batch
	for t, key := range rows {
		b.Put(t, key, []byte{1}, 0)
	}
	fx.Must(fx.Real.Writer.Commit(context.Background(), &b))
}

// View records that viewer has seen the item.
func (fx *Fixture) View(item mayfly.Item, viewer mayfly.UserID) {
	fx.Helper()
	fx.PutRows(map[store.Table]store.Key{story.Views: story.ViewKey(item.ID, viewer), story.Seen: story.SeenKey(viewer, item.ID)})
}

// Acquaint gives a user with items something in every table that others' rows
// are in too: relations both ways, views both ways, tokens, uploads under way.
func (fx *Fixture) Acquaint(user mayfly.UserID, items []mayfly.Item) {
	fx.Helper()
	other := Follower(user)
	fx.Relate(user, other)
	fx.Relate(other, user)
	fx.SwapIn(account.Families, store.Key{Partition: string(user[:]), Clustering: "a family"})
	fx.Reserve(user, fx.NewID(user))
	for _, item := range items {
		fx.View(item, other)
	}
	theirs := fx.Publish(intake.Draft{Owner: other, Fate: mayfly.Archive}, 0)
	fx.View(theirs, user)
}

// Count returns the number of rows in a partition.
func (fx *Fixture) Count(t store.Table, partition string) int {
	fx.Helper()
	rows, err := fx.Real.Rows.Range(context.Background(), t, store.Range{Partition: partition, Limit: 10_000})
	fx.Must(err)
	return len(rows)
}

// Reserve writes the row of an upload whose media arrive one by one.
func (fx *Fixture) Reserve(user mayfly.UserID, id mayfly.ID) store.Key {
	fx.Helper()
	key := store.Key{Partition: string(user[:]), Clustering: string(id[:])}
	fx.SwapIn(upload.Reservations, key)
	return key
}

// Accounts returns an account eraser over Set with an audit log and a deletion
// ledger.
func (fx *Fixture) Accounts() *accounterase.Eraser {
	fx.Helper()
	return fx.AccountsWith(accounterase.Options{Audit: fx.AuditLog(), Deletions: fx.Deletions})
}

// AccountsWith returns an account eraser over Set with options.
func (fx *Fixture) AccountsWith(o accounterase.Options) *accounterase.Eraser {
	fx.Helper()
	e, err := accounterase.New(fx.Set, fx.Eraser(), o)
	fx.Must(err)
	return e
}

// AuditLog opens an audit log.
func (fx *Fixture) AuditLog() *audit.Log {
	fx.Helper()
	l, err := audit.Open(context.Background(), fx.Real.Rows, "test", fx.Now)
	fx.Must(err)
	return l
}

// Collector returns a collector over Set with an audit log.
func (fx *Fixture) Collector() *collect.Collector {
	fx.Helper()
	c, err := collect.New(fx.Set, fx.Eraser(), collect.Options{Audit: fx.AuditLog()})
	fx.Must(err)
	return c
}

// Scrubber returns a scrubber over Set.
func (fx *Fixture) Scrubber() *scrub.Scrubber {
	fx.Helper()
	s, err := scrub.New(fx.Set, 0)
	fx.Must(err)
	return s
}

// Upload stores objects that are not published.
func (fx *Fixture) Upload(media int) *upload.Upload {
	fx.Helper()
	uploads, err := upload.New(fx.Real, upload.Options{})
	fx.Must(err)
	u, err := uploads.Begin(Ana(), fx.Now)
	fx.Must(err)
	for n := range media {
		_, err := u.Add(context.Background(), bytes.NewReader(Content(n)))
		fx.Must(err)
	}
	return u
}

// Collect makes one run of the collector.
func (fx *Fixture) Collect(dry bool) collect.Report {
	fx.Helper()
	report, err := fx.Collector().Orphans(context.Background(), collect.Run{
		Erase: !dry, Now: fx.Now, By: "ops", Reason: "test", Rows: walk.Span{From: Born, To: min(fx.Now, Born.Add(4*time.Hour)), Eternal: true},
	})
	fx.Must(err)
	return report
}

// Long reports whether the long run of the tests was asked for.
func Long() bool { return os.Getenv("MAYFLY_LONG") != "" }

// Some returns half of the faults, chosen at random; all of them in a long run.
func Some(faults []storetest.Fault, random *rand.Rand) []storetest.Fault {
	if Long() {
		return faults
	}
	random.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	return faults[:(len(faults)+1)/2]
}

// With opens a fixture for the duration of do.
func With(t *testing.T, f func(fx *Fixture)) {
	t.Helper()
	fx := OpenOn(t, vfs.NewMem())
	f(fx)
	fx.Must(fx.Close())
}

// Stopper stops the process at its n-th erasing call: before it, after it, or
// with half of a bulk delete done.
type Stopper struct {
	mu    sync.Mutex
	calls int

	At      int // which call
	How     storetest.BlobFault
	Stopped bool
}

func errStopped() error { return mayfly.Errorf(mayfly.Unavailable, "stopped by plan") }

func (s *Stopper) asked() storetest.BlobFault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Stopped {
		return storetest.Before
	}
	s.calls++
	if s.calls != s.At {
		return storetest.NoFault
	}
	s.Stopped = true
	return s.How
}

func (s *Stopper) tier(b store.Blobs) store.Blobs {
	return storetest.FaultyBlobs(b, func(storetest.BlobCall) storetest.BlobFault { return s.asked() })
}

type stoppingLedger struct {
	store.Ledger
	s *Stopper
}

func (l stoppingLedger) stop(do func() error) error {
	fault := l.s.asked()
	if fault == storetest.Before {
		return errStopped()
	}
	err := do()
	if fault != storetest.NoFault {
		return errStopped()
	}
	return err
}

func (l stoppingLedger) EraseBody(ctx context.Context, ids ...mayfly.ID) error {
	return l.stop(func() error { return l.Ledger.EraseBody(ctx, ids...) })
}

func (l stoppingLedger) Remove(ctx context.Context, ids ...mayfly.ID) error {
	return l.stop(func() error { return l.Ledger.Remove(ctx, ids...) })
}

// Wrap returns set with the stopper around its tiers and its ledger.
func (s *Stopper) Wrap(set store.Set) store.Set {
	set.Hot, set.Cold, set.Ledger = s.tier(set.Hot), s.tier(set.Cold), stoppingLedger{set.Ledger, s}
	return set
}

// Located adds to every failure where the crash was.
type Located struct {
	testing.TB
	Where string
}

// Fatalf fails the test and says where the crash was.
func (n Located) Fatalf(format string, args ...any) {
	n.Helper()
	n.TB.Fatalf("crash, %s: "+format, append([]any{n.Where}, args...)...)
}

// Deaf is signals that reach no subscriber.
type Deaf struct{ store.Signals }

// Publish fails.
func (Deaf) Publish(context.Context, store.Signal) error {
	return mayfly.Errorf(mayfly.Unavailable, "no subscriber is reached")
}

// Mute is a log that cannot be appended to.
type Mute struct{ store.Log }

// Append fails.
func (Mute) Append(context.Context, ...mayfly.Event) error {
	return mayfly.Errorf(mayfly.Unavailable, "the log is away")
}

// Nudge claims the row for the archive, as a worker that takes over does.
func (fx *Fixture) Nudge(id mayfly.ID) {
	row := fx.Row(id)
	_, err := fx.Real.Ledger.Transition(context.Background(), []mayfly.Change{{
		ID: id, From: row.State, Generation: row.Generation, To: mayfly.Archiving, Nonce: 7, Cause: mayfly.ByArchive, At: fx.Now,
	}})
	if err != nil {
		fx.Error(err)
	}
}

// Signals counts the signals about an item, by topic.
func (fx *Fixture) Signals(id mayfly.ID) map[store.Topic]int {
	fx.Helper()
	topics := map[store.Topic]int{}
	sub, err := fx.Real.Signals.Subscribe(fx.Context(), func(s store.Signal) {
		if s.ID == id {
			topics[s.Topic]++
		}
	})
	fx.Must(err)
	fx.Cleanup(func() { fx.Must(sub.Close()) })
	return topics
}

type described struct{ io.Reader }

func (described) Type() string              { return "image/png" }
func (described) Dimensions() (w, h uint32) { return 2000, 1000 }

// Picture publishes a story of two images.
func (fx *Fixture) Picture() mayfly.Item {
	fx.Helper()
	in, err := intake.New(fx.Real, intake.Options{})
	fx.Must(err)
	lifetime, err := mayfly.LifetimeOf(time.Hour)
	fx.Must(err)
	uploads, err := upload.New(fx.Real, upload.Options{})
	fx.Must(err)
	u, err := uploads.Begin(Ana(), fx.Now)
	fx.Must(err)
	for n := range 2 {
		_, err = u.Add(context.Background(), described{bytes.NewReader(Content(n))})
		fx.Must(err)
	}
	p, err := in.Publish(context.Background(), intake.Draft{
		Owner: Ana(), Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone, Lifetime: lifetime, Upload: u,
	}, fx.Now)
	fx.Must(err)
	return p.Item
}

// Renditions stores every rendition of an item in a tier, with its description.
func (fx *Fixture) Renditions(item mayfly.Item, tier store.Blobs, g mayfly.Generation) (keys []mayfly.BlobKey) {
	fx.Helper()
	var b store.Batch
	for m := range int(item.Media) {
		for _, longest := range []int{320, 1080} {
			n, _ := mayfly.RenditionOf(m, longest)
			key := item.MediaKey(g, n)
			fx.Put(tier, key)
			keys = append(keys, key)
			b.Put(upload.Renditions, upload.RenditionKey(item.ID, g, n), upload.AppendRendition(nil, mayfly.Medium{Type: "image/jpeg", Size: 7}), 0)
		}
	}
	fx.Must(fx.Real.Writer.Commit(context.Background(), &b))
	return keys
}

// Descriptions returns the number of described renditions of an item.
func (fx *Fixture) Descriptions(item mayfly.Item) int {
	fx.Helper()
	rows, err := fx.Real.Rows.Range(context.Background(), upload.Renditions, store.Range{Partition: string(item.ID[:]), Limit: 100})
	fx.Must(err)
	return len(rows)
}

// Operation is something long that a power loss interrupts: what exists before it,
// how it is done, and what must be true on the disk of a crash, at once and after
// it was done again.
type Operation struct {
	Prepare func(fx *Fixture)
	Do      func(fx *Fixture, ack func()) // ack counts what was acknowledged
	After   func(fx *Fixture, acked int) (state string)
}

// PowerLoss does an operation and recovers from a power loss at every write of it.
// A small operation is done again, with other parts surviving: how many writes it
// takes depends on how they are grouped.
func PowerLoss(t *testing.T, name string, rng *rand.Rand, o Operation) {
	t.Helper()
	const enough = 20
	points, states := 0, map[string]bool{}
	for round := 0; round < 3 && points < enough; round++ {
		points += powerLossOnce(t, rng, o, states)
	}
	storetest.Proof(t, name, "crash points", points)
	storetest.Proof(t, name, "distinct states", len(states))
	if points < enough || len(states) < 3 {
		t.Fatalf("%d crash points and %d states prove little", points, len(states))
	}
}

func powerLossOnce(t *testing.T, rng *rand.Rand, o Operation, states map[string]bool) (points int) {
	t.Helper()
	cam := &storetest.Camera[int]{Disk: vfs.NewCrashableMem(), RNG: rng, First: rng.IntN(5)}
	fx := OpenOn(t, cam.FS())
	o.Prepare(fx)
	var acked atomic.Int64
	cam.On(func() int { return int(acked.Load()) })
	o.Do(fx, func() { acked.Add(1) })
	photos, _ := cam.Off()
	fx.Must(fx.Close())
	for i, p := range photos {
		again := OpenOn(t, p.FS)
		again.Now, again.TB = fx.Now, Located{t, fmt.Sprintf("%d of %d, %s", i, len(photos), p)}
		states[o.After(again, p.Known)] = true
		again.Must(again.Close())
	}
	return len(photos)
}

// WantIntact wants everything of an item that is not erased, byte for byte.
func (fx *Fixture) WantIntact(item mayfly.Item) {
	fx.Helper()
	row := fx.Row(item.ID)
	tier, g := fx.Real.Hot, row.Keys.Hot
	if row.Keys.Cold != 0 {
		tier, g = fx.Real.Cold, row.Keys.Cold
	}
	for n := range int(row.Media) {
		r, _, err := tier.Open(context.Background(), row.MediaKey(g, n), store.Span{})
		if err != nil {
			fx.Fatalf("LOST: medium %d of %+v: %v", n, row, err)
		}
		b, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil || !bytes.Equal(b, Content(n)) {
			fx.Fatalf("LOST: medium %d of %+v: %d bytes, %v", n, row, len(b), err)
		}
	}
	if !fx.HasBody(item.ID) {
		fx.Fatalf("LOST: the content of %s", item.ID)
	}
}

// Reminded reports whether a reminder of the archive names an item.
func (fx *Fixture) Reminded(id mayfly.ID) bool {
	fx.Helper()
	for due := fx.Now.Minute(); due <= fx.Now.Add(10*time.Minute).Minute(); due++ {
		rows, err := fx.Real.Rows.Range(context.Background(), remind.Reminders, store.Range{Partition: remind.Partition(due, id.Shard()), Limit: 100})
		fx.Must(err)
		for _, row := range rows {
			if r, err := remind.Read(row); err == nil && r.ID == id && r.Step == remind.Archive {
				return true
			}
		}
	}
	return false
}

// HalfBirths is a ledger that writes a body before its row, and has bodies without
// a row, as cassandrastore does.
type HalfBirths struct {
	store.Ledger
	Bodies []mayfly.ID
	Named  func(mayfly.ID) bool // whether something still names a body
	Lost   bool                 // a body was erased after what named it
}

// EraseBody erases bodies.
func (l *HalfBirths) EraseBody(ctx context.Context, ids ...mayfly.ID) error {
	for _, id := range ids {
		l.Lost = l.Lost || !l.Named(id)
	}
	l.Bodies = slices.DeleteFunc(l.Bodies, func(id mayfly.ID) bool { return slices.Contains(ids, id) })
	return l.Ledger.EraseBody(ctx, ids...)
}

// HalfBorn returns a story with n media whose birth was interrupted before its row
// was written.
func (fx *Fixture) HalfBorn(n int) (mayfly.Item, *HalfBirths) {
	fx.Helper()
	item := fx.Story(n)
	fx.Change(item.ID, mayfly.Change{To: mayfly.Deleted, Cause: mayfly.ByUser})
	fx.Must(fx.Real.Ledger.Remove(context.Background(), item.ID))
	l := &HalfBirths{Ledger: fx.Set.Ledger, Bodies: []mayfly.ID{item.ID}}
	fx.Set.Ledger = l
	return item, l
}

// Tidy removes the tombstones of items.
func (fx *Fixture) Tidy(items ...mayfly.Item) {
	fx.Helper()
	fx.Acted(fx.Eraser().Tidy().Act(context.Background(), walk.Batch{Items: items, Now: fx.Now, Run: 9}))
}

// ForgetReminderWalk removes the watermarks of the reminder walk, so that it
// starts at Origin again.
func (fx *Fixture) ForgetReminderWalk() {
	fx.Helper()
	for shard := range mayfly.Shards {
		key := store.Key{Partition: remind.Name, Clustering: string([]byte{byte(shard)})}
		found, err := fx.Real.Rows.Get(context.Background(), walk.Watermarks, key)
		fx.Must(err)
		_, _, err = fx.Real.Rows.Swap(context.Background(), walk.Watermarks, key, found[0], nil, 0)
		fx.Must(err)
	}
}

// Scrub reads the cold copies at so many bytes a second.
func (fx *Fixture) Scrub(rate int64) scrub.Report {
	fx.Helper()
	r, err := fx.Scrubber().All(fx.Context(), scrub.Run{Rows: walk.Span{From: Born, To: Born.Add(2 * time.Hour)}, Now: fx.Now, BytesPerSecond: rate})
	fx.Must(err)
	return r
}

// Spoil replaces an object by other bytes.
func (fx *Fixture) Spoil(tier store.Blobs, key mayfly.BlobKey, how func([]byte) []byte) {
	fx.Helper()
	_, err := tier.Put(fx.Context(), key, bytes.NewReader(how(bytes.Clone(Content(1)))))
	fx.Must(err)
}

const Fast = 1 << 40

// Contents returns the objects of a tier with their bytes.
func (fx *Fixture) Contents(tier store.Blobs) map[mayfly.BlobKey]string {
	fx.Helper()
	all := map[mayfly.BlobKey]string{}
	for _, key := range fx.Keys(tier) {
		r, _, err := tier.Open(fx.Context(), key, store.Span{})
		fx.Must(err)
		b, err := io.ReadAll(r)
		fx.Must(errors.Join(err, r.Close()))
		all[key] = string(b)
	}
	return all
}
