package sim

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskstore"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/pace"
)

// A whole life in minutes: what is years or days in the product is seconds here.
const (
	wholeLiving  = 120 * time.Second // while things are done
	wholeLongest = 60 * time.Second  // lifetime
	wholeArchive = 10 * time.Second
	wholeRetire  = 300 * time.Second
	wholeGrave   = 60 * time.Second // of a tombstone
	wholeSlack   = 20 * time.Second
	wholeRestore = 40 * time.Second // how long a restore lasts at most

	wholeCold = 245 * time.Second // since the beginning: everything is cold, nothing retired
	wholeOver = 680 * time.Second // everything is over
)

func wholeOptions() node.Options {
	cfg := config.Default()
	cfg.Births.Timeout, cfg.Births.RemindAfter = time.Second, 3*time.Second
	cfg.Walk.Cadence, cfg.Walk.Settle, cfg.Walk.Lateness = 4*time.Second, 2*time.Second, time.Second
	cfg.Ends.Reconcile, cfg.Ends.ReconcileLate = 20*time.Second, 60*time.Second
	cfg.Ends.ArchiveAfter, cfg.Ends.ArchiveLateness = wholeArchive, time.Second
	cfg.Ends.RetireAfter, cfg.Ends.Tombstone = wholeRetire, wholeGrave
	o := node.FromConfig(cfg)
	o.Tombstones.Slack, o.Restore.Timeout = wholeSlack, 5*time.Second
	o.Reconcile.Grace, o.Reconcile.Stuck = 20*time.Second, 20*time.Second
	o.Gate.CacheRows = 128
	return o
}

// estate is a node with everything that it does, on a disk, in a bubble.
type estate struct {
	*clock.Manual
	t      *testing.T
	node   *node.Node
	set    store.Set
	close  []io.Closer
	failed []error // what a loop could not do
}

func openEstate(t *testing.T, fs vfs.FS, now mayfly.Instant) *estate {
	t.Helper()
	e := &estate{Manual: clock.NewManual(now), t: t}
	db, hot, set, err := openSet(fs, 0)
	if err != nil {
		t.Fatal(err)
	}
	e.close = []io.Closer{hot, db}
	var cold, deletions *diskstore.Store
	for dir, tier := range map[string]**diskstore.Store{"cold": &cold, "erased": &deletions} {
		if *tier, err = openTier(fs, dir, set.Fuse, 0); err != nil {
			t.Fatal(err)
		}
		e.close = append([]io.Closer{*tier}, e.close...)
	}
	set.Cold, set.Deletions, set.Signals = cold, deletions, &fixture.Signals{}
	e.set = set
	o := wholeOptions()
	o.Source = e.Source()
	var mu sync.Mutex
	o.Problem = func(loop string, err error) {
		mu.Lock()
		defer mu.Unlock()
		e.failed = append(e.failed, fmt.Errorf("%s: %w", loop, err))
	}
	if e.node, err = node.Start(t.Context(), set, o); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *estate) stop() {
	e.t.Helper()
	err := e.node.Stop(e.t.Context())
	for _, c := range e.close {
		err = errors.Join(err, c.Close())
	}
	if err = errors.Join(append(e.failed, err)...); err != nil {
		e.t.Fatal(err)
	}
}

func (e *estate) now() mayfly.Instant { return e.node.Clock().Read().Steady }

// live lets time pass for clock and loops alike.
func (e *estate) live(d time.Duration) {
	const tick = time.Second
	for ; d > 0; d -= tick {
		e.Advance(min(tick, d))
		time.Sleep(min(tick, d)) // the bubble's
	}
	synctest.Wait()
}

// act is something that a user did to an item, with the pages of the diary on
// which it was begun and acknowledged; 0 is not at all.
type act struct {
	item         *wholeItem
	verb         string
	begun, acked int
}

// wholeItem is what is known of an item from outside.
type wholeItem struct {
	wish  *wish
	owner mayfly.UserID
	id    mayfly.ID // when it was acknowledged
	birth *act
}

// diary is everything that was asked for and acknowledged, page by page.
type diary struct {
	mu    sync.Mutex
	pages int
	acts  []*act
	items []*wholeItem

	turns   int
	undone  int    // items that came back with their run
	planted int    // that only reconcile can find
	found   uint64 // by reconcile
}

func (d *diary) begin(item *wholeItem, verb string) *act {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pages++
	a := &act{item: item, verb: verb, begun: d.pages}
	d.acts = append(d.acts, a)
	return a
}

func (d *diary) ack(a *act) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pages++
	a.acked = d.pages
}

func (d *diary) page() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pages
}

// known is what must be true of an item after a crash on a page.
type known struct {
	born, maybeBorn       bool
	deleted, maybeDeleted bool
	held, maybeHeld       bool // maybeHeld: a hold or release was in flight
}

func (d *diary) knownAt(item *wholeItem, page int) (k known) {
	for _, a := range d.acts {
		if a.begun > page || a.item != item {
			continue
		}
		done := a.acked != 0 && a.acked <= page
		switch a.verb {
		case "publish":
			k.born, k.maybeBorn = done, true
		case "delete":
			k.deleted, k.maybeDeleted = k.deleted || done, true
		case "hold", "release":
			if done {
				k.held, k.maybeHeld = a.verb == "hold", false
			} else {
				k.maybeHeld = true
			}
		}
	}
	return k
}

// wholeCrash is the disk as a power loss at one moment leaves it.
type wholeCrash = storetest.Crash[wholeMoment]

// wholeMoment is what is known when a crash is taken.
type wholeMoment struct {
	page int // of the diary
	at   mayfly.Instant
}

// liveWhole lives for two minutes in which everything happens to items.
func liveWhole(t *testing.T, n uint64, every int) (crashes []wholeCrash, d *diary, ops int) {
	d = &diary{}
	synctest.Test(t, func(t *testing.T) {
		cam := &storetest.Crashes[wholeMoment]{Disk: vfs.NewCrashableMem(), RNG: seeded(n + 1), Every: every}
		e := openEstate(t, cam.FS(), genesis)
		cam.On(func() wholeMoment {
			return wholeMoment{page: d.page(), at: mayfly.Instant(e.Source().Read().Wall / int64(time.Millisecond))}
		})
		rng := seeded(n)
		for e.now() < genesis.Add(wholeLiving) {
			if err := e.something(d, rng); err != nil {
				t.Fatal(err)
			}
			e.live(time.Duration(rng.IntN(1500)) * time.Millisecond)
		}
		e.live(wholeCold - e.now().Sub(genesis)) // the archive is photographed, too
		e.live(wholeOver - e.now().Sub(genesis)) // and the end
		crashes, ops = cam.Off()
		d.found = e.node.Found().Total()
		e.stop()
	})
	return crashes, d, ops
}

func refused(err error) bool {
	for _, k := range []mayfly.Kind{mayfly.Gone, mayfly.NotFound, mayfly.Conflict} {
		if errors.Is(err, k) {
			return true
		}
	}
	return false
}

func (e *estate) publish(d *diary, rng *rand.Rand) error {
	item := &wholeItem{owner: randomUser(rng)}
	lifetime := 5*time.Second + time.Duration(rng.Int64N(int64(wholeLongest-5*time.Second))).Truncate(time.Second)
	w := &wish{owner: item.owner, lifetime: lifetime.Milliseconds(), fate: mayfly.Archive, audience: mayfly.Everyone, text: "whole"}
	if rng.IntN(5) == 0 {
		w.fate = mayfly.Purge
	}
	for range rng.IntN(3) {
		size := 10 + rng.IntN(300)
		if rng.IntN(3) == 0 {
			size = 1_100 + rng.IntN(2_000) // a file of its own
		}
		w.media = append(w.media, randomBytes(rng, size))
	}
	item.wish = w
	d.items = append(d.items, item)
	item.birth = d.begin(item, "publish")
	p, err := newRecord().publish(e.t.Context(), e.node.Uploads(), e.node.Intake(), w, e.now())
	if err != nil {
		return err
	}
	item.id = p.Item.ID
	d.ack(item.birth)
	return nil
}

func TestAWholeLifeOutlivesPowerLoss(t *testing.T) {
	pace.Heavy(t, "hundreds of crashes")
	n, want := seed(t), 60
	lives := 1
	if pace.Long() {
		lives, want = 4, 2_000
	}
	total, points, ops, acks := newTally(), 0, 0, 0
	undos, undone, planted, found := 0, 0, 0, 0
	states := map[[32]byte]bool{}
	var mu sync.Mutex
	for life := range lives {
		_, _, all := liveWhole(t, n+uint64(life), 1<<62) // how many operations there are
		crashes, d, tried := liveWhole(t, n+uint64(life), max(1, all/want))
		points, ops = points+len(crashes), ops+tried
		for _, a := range d.acts {
			if a.acked != 0 {
				acks++
			}
			if a.acked != 0 && a.verb == "undo" {
				undos++
			}
		}
		undone, planted, found = undone+d.undone, planted+d.planted, found+int(d.found)
		t.Run(fmt.Sprintf("life %d", life), func(t *testing.T) {
			for half := range 2 {
				t.Run(fmt.Sprintf("half %d", half), func(t *testing.T) {
					t.Parallel()
					for i := half; i < len(crashes); i += 2 {
						found, digest := recoverWhole(t, crashes[i], d)
						mu.Lock()
						total.merge(found, fmt.Sprintf("crash %d at +%s: %s", i, crashes[i].Known.at.Sub(genesis), crashes[i]))
						states[digest] = true
						mu.Unlock()
					}
				})
			}
		})
	}
	storetest.Proof(t, "whole life, power loss", "crash points", points)
	storetest.Proof(t, "whole life, power loss", "of writes and syncs", ops)
	storetest.Proof(t, "whole life, power loss", "distinct states recovered", len(states))
	storetest.Proof(t, "whole life, power loss", "acknowledgements held against", acks)
	storetest.Proof(t, "whole life, power loss", "rows audited", total.checked)
	storetest.Proof(t, "whole life, power loss", "runs undone", undos)
	storetest.Proof(t, "whole life, power loss", "items that came back with their run", undone)
	storetest.Proof(t, "whole life, power loss", "defects planted for reconcile", planted)
	storetest.Proof(t, "whole life, power loss", "defects found by reconcile", found)
	total.zero(t, "whole life, power loss")
	if undone == 0 || planted == 0 || found == 0 {
		t.Errorf("%d items came back with their run, reconcile found %d defects of %d: neither step may be left out", undone, found, planted)
	}
	if points < want/2 || len(states) < points/4 || acks < 40 {
		t.Errorf("%d points, %d states, %d acknowledgements are too few to prove anything", points, len(states), acks)
	}
}

// recoverWhole starts a node on the disk of a crash and lets every life come to
// its end.
func recoverWhole(t *testing.T, c wholeCrash, d *diary) (found *tally, digest [32]byte) {
	t.Helper()
	found = newTally()
	synctest.Test(t, func(t *testing.T) {
		e := openEstate(t, c.FS, c.Known.at.Add(time.Second))
		digest = e.digest(d)
		if left := wholeCold - e.now().Sub(genesis); left > 0 {
			e.live(left)
			e.audit(found, d, c.Known.page, false)
		}
		e.live(wholeOver + 20*time.Second - e.now().Sub(genesis))
		e.audit(found, d, c.Known.page, true)
		e.stop()
	})
	return found, digest
}

// digest tells states of the whole store apart.
func (e *estate) digest(d *diary) [32]byte {
	h := sha256.New()
	for _, item := range d.items {
		if item.id.IsZero() {
			continue
		}
		row, err := e.set.Ledger.Get(e.t.Context(), item.id)
		if err != nil {
			e.t.Fatal(err)
		}
		fmt.Fprintf(h, "%v %v %d %v %v;", item.id, row[0].Found, row[0].Item.Generation, row[0].Item.State, row[0].Item.Keys)
	}
	for _, tier := range []store.Blobs{e.set.Hot, e.set.Cold} {
		for _, o := range e.list(tier) {
			fmt.Fprintf(h, "%s;", o)
		}
		fmt.Fprint(h, "|")
	}
	return [32]byte(h.Sum(nil))
}

func (e *estate) list(tier store.Blobs) (keys []mayfly.BlobKey) {
	e.t.Helper()
	all, err := tier.List(e.t.Context(), "", "", 100_000)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, o := range all {
		keys = append(keys, o.Key)
	}
	return keys
}

// audit verifies the store against what is known; over says that every life that
// is not held up has come to its end.
func (e *estate) audit(found *tally, d *diary, page int, over bool) {
	e.t.Helper()
	r := &verify.Record{Items: map[mayfly.ID]verify.Expected{}}
	for _, item := range d.items {
		k := d.knownAt(item, page)
		if !k.maybeBorn {
			continue
		}
		if item.id.IsZero() || !k.born { // in flight at the crash: its media may lie there without a row
			r.Unanswered++
			r.Unfinished += len(item.wish.media)
		}
		if k.born || !item.id.IsZero() && e.exists(item.id) {
			r.Items[item.id] = item.expected(k, over)
		}
	}
	report, err := verify.Run(e.t.Context(), e.set, verify.Options{
		Now: e.now(), Late: wholeSlack, Window: wholeArchive, Bytes: true, Objects: true, Group: "verify", Gate: e.node.Gate(), Record: r,
		Each: func(_ context.Context, r *verify.Report, item mayfly.Item, _ store.FoundBody) error {
			if over && !item.Held {
				r.Add(verify.Late, "%s is over, and still there: %+v", item.ID, item)
			}
			return nil
		},
	})
	if err != nil {
		e.t.Fatal(err)
	}
	found.checked += int(report.Items)
	found.Merge(&report.Tally)
	if f := e.node.Found(); f.Total() > 0 && !over {
		// Reconcile may find what the crash itself had stopped; what it finds is put on its way.
		found.checked += int(f.Total())
	}
}

func (e *estate) exists(id mayfly.ID) bool {
	row, err := e.set.Ledger.Get(e.t.Context(), id)
	if err != nil {
		e.t.Fatal(err)
	}
	return row[0].Found
}

// expected returns what the user of an item knows of it.
func (i *wholeItem) expected(k known, over bool) verify.Expected {
	answer := func(yes, maybe bool) verify.Answer {
		switch {
		case maybe:
			return verify.Maybe
		case yes:
			return verify.Yes
		}
		return verify.No
	}
	x := verify.Expected{
		Text: &i.wish.text, State: mayfly.Cold, Deleted: answer(k.deleted, k.maybeDeleted && !k.deleted), Held: answer(k.held, k.maybeHeld),
	}
	if i.wish.fate == mayfly.Purge {
		x.State, x.Until = mayfly.Deleted, i.id.Deadline()
	}
	if over {
		x.State, x.Until = 0, i.id.Deadline()
	}
	for _, medium := range i.wish.media {
		x.Media = append(x.Media, sha256.Sum256(medium))
	}
	return x
}
