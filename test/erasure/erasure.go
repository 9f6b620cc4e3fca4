// Package erasure is the fixture of the tests of erase, accounterase, collect and
// scrub: test/fixture with stories in every state, what others know of them, and
// faults around the calls that erase.
package erasure

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/accounterase"
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
	"github.com/mayflyhq/mayfly/store/diskfs"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/pace"
)

const (
	Day = 24 * time.Hour
	// Soon is when the reminders of an operation are due and settled.
	Soon = 2*time.Minute + 30*time.Second
	// Fast is a rate of a scrub that does not wait.
	Fast = 1 << 40
)

// Fixture is the store of a test. A test may wrap what is in Set before it makes an
// eraser.
type Fixture struct {
	*fixture.Engine
	Origin mayfly.Instant // before which no reminder is looked for
}

func on(e *fixture.Engine) *Fixture { return &Fixture{e, fixture.Start.Add(-time.Minute)} }

// Open opens a fixture that is closed with the test.
func Open(t testing.TB) *Fixture {
	t.Helper()
	return on(fixture.Open(t))
}

// With opens a fixture for the duration of do.
func With(t testing.TB, do func(fx *Fixture)) {
	t.Helper()
	WithOn(t, vfs.NewMem(), do)
}

// WithOn opens a fixture on a file system for the duration of do.
func WithOn(t testing.TB, fs diskfs.FS, do func(fx *Fixture)) {
	t.Helper()
	fixture.With(t, fs, func(e *fixture.Engine) { do(on(e)) })
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

// AuditLog opens an audit log.
func (fx *Fixture) AuditLog() *audit.Log {
	fx.Helper()
	l, err := audit.Open(context.Background(), fx.Real.Rows, "test", fx.Now)
	fx.Must(err)
	return l
}

// Accounts returns an account eraser over Set with an audit log and a deletion
// ledger.
func (fx *Fixture) Accounts() *accounterase.Eraser {
	fx.Helper()
	return fx.AccountsWith(accounterase.Options{Audit: fx.AuditLog(), Deletions: fx.Real.Deletions})
}

// AccountsWith returns an account eraser over Set with options.
func (fx *Fixture) AccountsWith(o accounterase.Options) *accounterase.Eraser {
	fx.Helper()
	e, err := accounterase.New(fx.Set, fx.Eraser(), o)
	fx.Must(err)
	e.Add(account.ErasePart(fx.Set.Rows))
	return e
}

// Collector returns a collector over Set with an audit log.
func (fx *Fixture) Collector() *collect.Collector {
	fx.Helper()
	c, err := collect.New(fx.Set, fx.Eraser(), collect.Options{Audit: fx.AuditLog()})
	fx.Must(err)
	return c
}

// Collect makes one run of the collector.
func (fx *Fixture) Collect(dry bool) collect.Report {
	fx.Helper()
	report, err := fx.Collector().Orphans(context.Background(), collect.Run{
		Erase: !dry, Now: fx.Now, By: audit.Actor{Subject: "ops"}, Reason: "test",
	})
	fx.Must(err)
	return report
}

// Missing looks for the objects of the rows that the passes before have not passed.
func (fx *Fixture) Missing(limit int) collect.MissingReport {
	fx.Helper()
	report, err := fx.Collector().Missing(context.Background(), collect.MissingRun{From: fixture.Start, To: fx.Now, Cap: limit})
	fx.Must(err)
	return report
}

// Orphan stores an object of an item of which nothing is known.
func (fx *Fixture) Orphan(n int) mayfly.BlobKey {
	fx.Helper()
	key := mayfly.Item{ID: fx.NewID(fixture.Ana())}.MediaKey(2, n)
	fx.Put(fx.Real.Hot, key)
	return key
}

// Scrubber returns a scrubber over Set.
func (fx *Fixture) Scrubber() *scrub.Scrubber {
	fx.Helper()
	s, err := scrub.New(fx.Set, 0)
	fx.Must(err)
	return s
}

// Scrub reads the cold copies at so many bytes a second.
func (fx *Fixture) Scrub(rate int64) scrub.Report {
	fx.Helper()
	r, err := fx.Scrubber().All(fx.Context(), scrub.Run{Rows: walk.Span{From: fixture.Start, To: fixture.Start.Add(2 * time.Hour)}, Now: fx.Now, BytesPerSecond: rate})
	fx.Must(err)
	return r
}

// Forever publishes a story that never expires.
func (fx *Fixture) Forever(owner mayfly.UserID, media int) mayfly.Item {
	fx.Helper()
	return fx.publish(func(d *intake.Draft) { d.Owner, d.Lifetime = owner, mayfly.Never }, media)
}

// Purge publishes a story for an hour that expiry deletes.
func (fx *Fixture) Purge(owner mayfly.UserID, media int) mayfly.Item {
	fx.Helper()
	return fx.publish(func(d *intake.Draft) { d.Owner, d.Fate = owner, mayfly.Purge }, media)
}

func (fx *Fixture) publish(change func(*intake.Draft), media int) mayfly.Item {
	fx.Helper()
	d := fx.Draft()
	d.Lifetime = fixture.Lifetime(fx, time.Hour)
	change(&d)
	return fx.Engine.Publish(d, fx.Now, fixture.Media(media)...)
}

// Expire moves the rows of items as the sweep does, at their deadline at the earliest.
func (fx *Fixture) Expire(items ...mayfly.Item) {
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

// MoveToCold expires and archives items.
func (fx *Fixture) MoveToCold(items ...mayfly.Item) {
	fx.Helper()
	fx.Expire(items...)
	fx.Now = max(fx.Now, fixture.Start.Add(150*time.Minute))
	for _, item := range items {
		fx.Archive(fx.Now, 2, item.ID)
	}
}

// Act erases items as a reminder would.
func (fx *Fixture) Act(items ...mayfly.Item) {
	fx.Helper()
	fx.WantActed(fx.Eraser().Act(context.Background(), walk.Batch{Items: items, Now: fx.Now, Repeat: true}))
}

// Tidy removes the tombstones of items.
func (fx *Fixture) Tidy(items ...mayfly.Item) {
	fx.Helper()
	fx.WantActed(fx.Eraser().Tidy().Act(context.Background(), walk.Batch{Items: items, Now: fx.Now, Run: 9}))
}

// Put stores an object that no item names.
func (fx *Fixture) Put(tier store.Blobs, key mayfly.BlobKey) {
	fx.Helper()
	_, err := tier.Put(context.Background(), key, strings.NewReader("planted"))
	fx.Must(err)
}

// Spoil replaces an object by other bytes.
func (fx *Fixture) Spoil(tier store.Blobs, key mayfly.BlobKey, how func(string) string) {
	fx.Helper()
	_, err := tier.Put(context.Background(), key, strings.NewReader(how(fixture.Medium(1))))
	fx.Must(err)
}

// Traces lists where an item is still named or stored, beside its tombstone.
func (fx *Fixture) Traces(item mayfly.Item) (all []string) {
	fx.Helper()
	note := func(what string, there bool) {
		if there {
			all = append(all, what)
		}
	}
	note("body", fx.HasBody(item.ID))
	note("owners", fx.HasRow(engine.Owners, engine.OwnerKey(item.Owner, item.ID)))
	if item.Media > 0 {
		note("uploads", fx.HasRow(engine.Uploads, engine.UploadKey(item.Upload)))
	}
	for name, tier := range map[string]store.Blobs{"hot": fx.Real.Hot, "cold": fx.Real.Cold} {
		for _, key := range fx.Objects(tier) {
			note(name+" "+string(key), strings.Contains(string(key), item.ID.Short()) || item.Media > 0 && strings.Contains(string(key), item.Upload.Short()))
		}
	}
	return all
}

// WantIntact wants everything of an item that is not erased, byte for byte.
func (fx *Fixture) WantIntact(item mayfly.Item) {
	fx.Helper()
	fx.Readable(fx.Row(item.ID))
	if !fx.HasBody(item.ID) {
		fx.Fatalf("LOST: the content of %s", item.ID)
	}
}

// Appended counts the events with a verb in the log, by item.
func (fx *Fixture) Appended(verb mayfly.Verb) map[mayfly.ID]int {
	fx.Helper()
	counts := map[mayfly.ID]int{}
	for key, n := range fx.CountEvents(mayfly.Ends, verb) {
		counts[key.ID] += n
	}
	return counts
}

// Remind walks every reminder that is due at now, with the steps of e.
func (fx *Fixture) Remind(e *erase.Erase, now mayfly.Instant) {
	fx.Helper()
	ctx, nothing := context.Background(), func(context.Context, walk.Batch) ([]walk.Failure, error) { return nil, nil }
	acts := remind.Acts{remind.Erase: e.Act, remind.Tidy: e.TidyAct, remind.Expire: nothing, remind.Archive: nothing, remind.Announce: nothing}
	for shard := range mayfly.Shards {
		s := walk.NewShard(fx.Set.Rows, mayfly.Shard(shard), fmt.Sprintf("test-%d", rand.Uint64()), time.Millisecond, fx.Origin)
		w, err := remind.New(fx.Set, s, acts, remind.Options{Timeout: 10 * time.Minute})
		fx.Must(err)
		for more := true; more; {
			more, err = w.Pass(ctx, now)
			fx.Must(err)
		}
		fx.Must(s.Release(ctx))
	}
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
	cold, purged := fx.StoryOf(user, 2), fx.Purge(user, 1)
	expired := fx.publish(func(d *intake.Draft) { d.Owner, d.Key = user, "a key of the user's" }, 1)
	fx.MoveToCold(cold)
	fx.Expire(expired, purged)
	deleted, active := fx.StoryOf(user, 1), fx.StoryOf(user, 3)
	_, err := fx.Eraser().Delete(context.Background(), deleted.ID, mayfly.ByUser, fx.Now)
	fx.Must(err)
	all := []mayfly.Item{cold, expired, purged, deleted, active, fx.Forever(user, 1)}
	fx.acquaint(user, all)
	return all
}

// acquaint gives a user with items something in every table that others' rows
// are in too: relations both ways, views both ways, tokens, uploads under way.
func (fx *Fixture) acquaint(user mayfly.UserID, items []mayfly.Item) {
	fx.Helper()
	other := Follower(user)
	fx.Relate(user, other)
	fx.Relate(other, user)
	fx.SwapIn(account.Families, store.Key{Partition: string(user[:]), Clustering: "a family"})
	fx.Reserve(user, fx.NewID(user))
	fx.SwapIn(upload.OpenUploads, store.Key{Partition: string(user[:])})
	for _, item := range items {
		fx.View(item, other)
	}
	fx.View(fx.StoryOf(other, 0), user)
}

// NewID returns an id of an item of the owner, born now, for a day.
func (fx *Fixture) NewID(owner mayfly.UserID) mayfly.ID {
	fx.Helper()
	id, err := mayfly.NewID(fx.Now, fixture.Lifetime(fx, Day), owner.Trace(), uint64(fx.Now))
	fx.Must(err)
	return id
}

// Follower returns a user who follows the given user.
func Follower(of mayfly.UserID) mayfly.UserID { return fixture.User("follower of " + of.String()) }

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

// Reserve writes the row of an upload whose media arrive one by one.
func (fx *Fixture) Reserve(user mayfly.UserID, id mayfly.ID) store.Key {
	fx.Helper()
	key := store.Key{Partition: string(user[:]), Clustering: string(id[:])}
	fx.SwapIn(upload.Reservations, key)
	return key
}

// Uploaded stores media of Ana that are not published.
func (fx *Fixture) Uploaded(media int) *upload.Upload {
	fx.Helper()
	return fx.Upload(fixture.Ana(), fx.Now, fixture.Media(media)...)
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

// Some returns half of the faults, chosen at random; all of them in a long run.
func Some(faults []storetest.Fault, random *rand.Rand) []storetest.Fault {
	if pace.Long() {
		return faults
	}
	random.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	return faults[:(len(faults)+1)/2]
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

// Wrap returns set with the stopper around its tiers and its ledger.
func (s *Stopper) Wrap(set store.Set) store.Set {
	plan := func(storetest.BlobCall) storetest.BlobFault { return s.asked() }
	set.Hot, set.Cold, set.Ledger = storetest.FaultyBlobs(set.Hot, plan), storetest.FaultyBlobs(set.Cold, plan), stoppingLedger{set.Ledger, s}
	return set
}

type stoppingLedger struct {
	store.Ledger
	s *Stopper
}

func (l stoppingLedger) stop(do func() error) error {
	stopped := mayfly.Errorf(mayfly.Unavailable, "stopped by plan")
	fault := l.s.asked()
	if fault == storetest.Before {
		return stopped
	}
	err := do()
	if fault != storetest.NoFault {
		return stopped
	}
	return err
}

func (l stoppingLedger) EraseBody(ctx context.Context, ids ...mayfly.ID) error {
	return l.stop(func() error { return l.Ledger.EraseBody(ctx, ids...) })
}

func (l stoppingLedger) Remove(ctx context.Context, ids ...mayfly.ID) error {
	return l.stop(func() error { return l.Ledger.Remove(ctx, ids...) })
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
	pace.Heavy(t, "crashes, one goroutine at a time")
	const enough = 20
	every := 3
	if pace.Long() {
		every = 1
	}
	points, states := 0, map[string]bool{}
	for round := 0; round < 9 && (points < enough || len(states) < 3); round++ {
		points += o.powerLoss(t, rng, every, states)
	}
	storetest.Proof(t, name, "crash points", points)
	storetest.Proof(t, name, "distinct states", len(states))
	if points < enough || len(states) < 3 {
		t.Fatalf("%d crash points and %d states prove little", points, len(states))
	}
}

func (o Operation) powerLoss(t *testing.T, rng *rand.Rand, every int, states map[string]bool) (points int) {
	t.Helper()
	cam := &storetest.Crashes[int]{Disk: vfs.NewCrashableMem(), RNG: rng, Every: every, First: rng.IntN(5)}
	var photos []storetest.Crash[int]
	var now mayfly.Instant
	WithOn(t, cam.FS(), func(fx *Fixture) {
		o.Prepare(fx)
		var acked atomic.Int64
		cam.On(func() int { return int(acked.Load()) })
		o.Do(fx, func() { acked.Add(1) })
		photos, _ = cam.Off()
		now = fx.Now
	})
	for i, p := range photos {
		at := fixture.Located{TB: t, Where: func() string { return fmt.Sprintf("crash %d of %d, %s", i, len(photos), p) }}
		WithOn(at, p.FS, func(fx *Fixture) {
			fx.Now = now
			states[o.After(fx, p.Known)] = true
		})
	}
	return len(photos)
}
