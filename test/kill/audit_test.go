package kill

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store"
)

// killAudit compares a folder with the expected state when all work is done.
type killAudit struct {
	expected *expected
	set      store.Set
	node     *node.Node // runs no loops
	now      mayfly.Instant

	rows    map[mayfly.ID]mayfly.Item
	bodies  map[mayfly.ID]mayfly.Body
	hot     map[mayfly.BlobKey]bool
	cold    map[mayfly.BlobKey]bool
	under   map[mayfly.ID][]mayfly.BlobKey    // objects of both, by the item or upload in their keys
	logged  map[mayfly.ID]map[mayfly.Verb]int // events by item, each key once
	settled time.Duration

	read, held, erased, tombstones, unanswered, strays, records int
	found                                                       uint64 // by reconcile
}

func (a *killAudit) String() string {
	return fmt.Sprintf("settled in %s: %d read by their authors, %d held and whole, %d erased (%d tombstones), %d unanswered births there, %d objects of broken uploads, %d audit records, reconcile found %d",
		a.settled.Round(100*time.Millisecond), a.read, a.held, a.erased, a.tombstones, a.unanswered, a.strays, a.records, a.found)
}

// audit lets a node finish what the last worker left, then looks at everything.
func (k *killer) audit(t *testing.T) *killAudit {
	t.Helper()
	ctx := t.Context()
	cfg := workerConfig(k.data)
	s, err := profile.Embedded(cfg, node.Tables())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	a := &killAudit{expected: k.expected, set: s.Set}
	o := workerOptions(cfg)
	o.Problem = func(loop string, err error) { t.Logf("%s: %v", loop, err) }
	a.settle(t, o)
	o.Idle = true
	if a.node, err = node.Start(ctx, s.Set, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.node.Stop(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	a.now = a.node.Clock().Read().Steady
	a.look(t)
	return a
}

// look looks at everything.
func (a *killAudit) look(t *testing.T) {
	t.Helper()
	for _, look := range []func(context.Context) error{
		a.readRows, a.readObjects, a.readLog, a.items, a.unknownRows, a.objects, a.verify, a.chains, a.deadLetters,
	} {
		if err := look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// settle runs a node until nothing is on its way any more, a minute at most:
// what is then still on its way the audit finds. Items come of age all the time:
// one that a stop catches half retired is taken up by another start.
func (a *killAudit) settle(t *testing.T, o node.Options) {
	t.Helper()
	began := time.Now()
	for {
		a.runNode(t, o, began)
		a.settled = time.Since(began)
		waits := a.waiting(t)
		if waits == "" {
			return
		}
		if a.settled > settleAtMost {
			t.Errorf("after %s there is still something to do: %s", a.settled, waits)
			return
		}
	}
}

const settleAtMost = time.Minute

// runNode runs a node until it has nothing to do.
func (a *killAudit) runNode(t *testing.T, o node.Options, began time.Time) {
	t.Helper()
	n, err := node.Start(t.Context(), a.set, o)
	if err != nil {
		t.Fatal(err)
	}
	for a.now = n.Clock().Read().Steady; a.waiting(t) != "" && time.Since(began) < settleAtMost; a.now = n.Clock().Read().Steady {
		time.Sleep(200 * time.Millisecond)
	}
	found := n.Found()
	a.found += found.Total()
	if err := n.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// waiting reads everything and says what is still on its way.
func (a *killAudit) waiting(t *testing.T) string {
	t.Helper()
	if err := errors.Join(a.readRows(t.Context()), a.readObjects(t.Context())); err != nil {
		t.Fatal(err)
	}
	return a.waits()
}

// waits says what is still on its way; empty: nothing.
func (a *killAudit) waits() string {
	for _, row := range a.rows {
		_, body := a.bodies[row.ID]
		switch {
		case row.Held:
		case row.State == mayfly.Deleted && body, row.State != mayfly.Deleted && row.State != mayfly.Cold:
			return fmt.Sprintf("%s is %s (%+v)", row.ID, row.State, row)
		case row.State == mayfly.Cold && a.notRetired(row.ID):
			return fmt.Sprintf("%s is not retired", row.ID)
		}
	}
	named := a.named()
	for tier, keys := range map[string]map[mayfly.BlobKey]bool{"hot": a.hot, "cold": a.cold} {
		for key := range keys {
			if !named[tier+string(key)] && !a.stray(key) {
				return tier + " " + string(key)
			}
		}
	}
	return ""
}

// notRetired says that what is there should have left by now. What was held or
// restored leaves later, by reminders.
func (a *killAudit) notRetired(id mayfly.ID) bool {
	i := a.expected.items[id]
	return i != nil && !i.touched && a.now > i.sure().Add(settleTime)
}

// named are the objects that rows name, behind the name of their tier. Of what is
// held everything stays, what a restore has left too (I21).
func (a *killAudit) named() map[string]bool {
	all := map[string]bool{}
	for _, row := range a.rows {
		for n := range int(row.Media) {
			if row.State != mayfly.Deleted || row.Held {
				all["hot"+string(row.MediaKey(row.Keys.Hot, n))] = row.Keys.Hot != 0
				all["cold"+string(row.MediaKey(row.Keys.Cold, n))] = row.Keys.Cold != 0
			}
			for g := mayfly.Born; row.Held && g <= row.Generation+1; g++ {
				all["hot"+string(row.MediaKey(g, n))], all["cold"+string(row.MediaKey(g, n))] = true, true
			}
		}
	}
	return all
}

// stray says that the object is of an upload whose birth was in flight at a kill.
func (a *killAudit) stray(key mayfly.BlobKey) bool {
	id, born, ok := readObjectKey(key)
	return ok && born && a.expected.stray[id] > 0
}

// readObjectKey reads whose an object is, and whether it was born so (L11).
func readObjectKey(key mayfly.BlobKey) (id mayfly.ID, born, ok bool) {
	parts := strings.Split(string(key), "/")
	if len(parts) != 3 {
		return id, false, false
	}
	id, err := mayfly.ParseID(parts[1])
	return id, strings.HasPrefix(parts[2], "0-"), err == nil
}

// readRows reads every row and body of the ledger.
func (a *killAudit) readRows(ctx context.Context) error {
	a.rows, a.bodies = map[mayfly.ID]mayfly.Item{}, map[mayfly.ID]mayfly.Body{}
	first := a.now.Minute()
	for id := range a.expected.items {
		first = min(first, id.Minute())
	}
	for minute := first - 1; minute <= a.now.Minute()+1; minute++ {
		for shard := range mayfly.Shard(mayfly.Shards) {
			items, err := a.set.Ledger.Walk(ctx, store.Stretch{Minute: minute, Shard: shard, To: (minute + 1).Start()}, 1_000_000)
			if err != nil {
				return err
			}
			for _, item := range items {
				body, err := a.set.Ledger.Body(ctx, item.ID)
				if err != nil {
					return err
				}
				if a.rows[item.ID] = item; body[0].Found {
					a.bodies[item.ID] = body[0].Body
				}
			}
		}
	}
	return nil
}

func (a *killAudit) readObjects(ctx context.Context) error {
	a.hot, a.cold = map[mayfly.BlobKey]bool{}, map[mayfly.BlobKey]bool{}
	a.under = map[mayfly.ID][]mayfly.BlobKey{}
	for tier, keys := range map[store.Blobs]map[mayfly.BlobKey]bool{a.set.Hot: a.hot, a.set.Cold: a.cold} {
		listed, err := tier.List(ctx, "", "", 10_000_000)
		if err != nil {
			return err
		}
		for _, object := range listed {
			keys[object.Key] = true
			if id, _, ok := readObjectKey(object.Key); ok {
				a.under[id] = append(a.under[id], object.Key)
			}
		}
	}
	return nil
}

func (a *killAudit) readLog(ctx context.Context) error {
	a.logged = map[mayfly.ID]map[mayfly.Verb]int{}
	seen := map[mayfly.EventKey]bool{}
	for _, stream := range []mayfly.Stream{mayfly.Births, mayfly.Ends} {
		reader, err := a.set.Log.Reader(ctx, stream, "kill")
		if err != nil {
			return err
		}
		for {
			lag, err := reader.Lag(ctx)
			if err != nil {
				return err
			}
			if lag == 0 {
				break
			}
			records, err := reader.Next(ctx, 10_000)
			if err != nil {
				return err
			}
			for _, r := range records {
				if seen[r.Event.Key()] {
					continue // at least once (I13)
				}
				seen[r.Event.Key()] = true
				if a.logged[r.Event.ID] == nil {
					a.logged[r.Event.ID] = map[mayfly.Verb]int{}
				}
				a.logged[r.Event.ID][r.Event.Verb]++
			}
		}
		if err := reader.Close(); err != nil {
			return err
		}
	}
	return nil
}

// items holds every acknowledged item against its row, its bytes, its events.
func (a *killAudit) items(ctx context.Context) error {
	for _, i := range a.expected.items {
		row, found := a.rows[i.id]
		a.events(i, row)
		switch {
		case !found || row.State == mayfly.Deleted && !row.Held:
			a.gone(i, row, found)
		case i.deleted == yes && row.State != mayfly.Deleted:
			a.expected.count.Add(verify.Resurrected, "%s was deleted, and is %s", i.id, row.State)
		case i.held == yes && !row.Held:
			a.expected.count.Add(verify.Lost, "the hold of %s", i.id)
		case row.Held:
			if err := a.whole(ctx, i, row); err != nil {
				return err
			}
		default:
			if err := a.readable(ctx, i, row); err != nil {
				return err
			}
		}
	}
	return nil
}

// gone is for an item that is deleted or not there: was it to be, and is nothing
// of it left?
func (a *killAudit) gone(i *killItem, row mayfly.Item, found bool) {
	if i.there(a.now) && !i.failed {
		a.expected.count.Add(verify.Lost, "%s is not there any more, and should be until %s (%+v)", i.id, i.sure(), row)
		return
	}
	if i.held == yes && !i.failed {
		a.expected.count.Add(verify.Lost, "%s is held, and is not there (%+v)", i.id, row)
		return
	}
	if a.erased++; found {
		a.tombstones++
	}
	if _, body := a.bodies[i.id]; body {
		a.expected.count.Add(verify.Late, "%s is deleted, and its content is there", i.id)
	}
	for _, key := range slices.Concat(a.under[i.id], a.under[i.upload]) {
		a.expected.count.Add(verify.Late, "%s is deleted, and %s is there", i.id, key)
	}
}

// whole is for what is held: every byte of it is there, deleted or not (I21).
func (a *killAudit) whole(ctx context.Context, i *killItem, row mayfly.Item) error {
	if i.held == no && !i.failed {
		a.expected.count.Add(verify.Late, "%s was released, and is held", i.id)
	}
	a.held++
	body, found := a.bodies[i.id]
	if !found || len(body.Media) != len(i.draft.Sizes) {
		a.expected.count.Add(verify.Lost, "the content of %s, which is held", i.id)
		return nil
	}
	for n, want := range i.draft.hashes() {
		hot, err := hashAt(ctx, a.set.Hot, row.MediaKey(row.Keys.Hot, n), row.Keys.Hot)
		cold, also := hashAt(ctx, a.set.Cold, row.MediaKey(row.Keys.Cold, n), row.Keys.Cold)
		if err := errors.Join(err, also); err != nil {
			return err
		}
		// A hold may come between the naming of cold and the erasing of hot: one
		// copy that the row names is whole (I2).
		if hot != want && cold != want {
			a.expected.count.Add(verify.Lost, "medium %d of %s, which is held (%+v)", n, i.id, row)
		}
	}
	_, err := a.node.Gate().Open(ctx, i.id, mayfly.ViewerOf(workerOwner(i.draft.Owner)), a.now)
	if !errors.Is(err, mayfly.Gone) && !errors.Is(err, mayfly.NotFound) {
		a.expected.count.Add(verify.Leak, "%s is held, and its author got %v", i.id, err)
	}
	return nil
}

// hashAt is the hash of an object that a generation wrote; empty if the row names
// none, or it is not there.
func hashAt(ctx context.Context, tier store.Blobs, key mayfly.BlobKey, g mayfly.Generation) (string, error) {
	if g == 0 {
		return "", nil
	}
	r, _, err := tier.Open(ctx, key, store.Span{})
	if errors.Is(err, mayfly.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	_, err = io.Copy(hash, r)
	return hashText([32]byte(hash.Sum(nil))), errors.Join(err, r.Close())
}

// readable is for what is neither deleted nor held: its author reads it, and
// it is where its age says.
func (a *killAudit) readable(ctx context.Context, i *killItem, row mayfly.Item) error {
	switch {
	case row.State != mayfly.Cold:
		a.expected.count.Add(verify.Late, "%s ended at %s, and is %s", i.id, row.End(), row.State)
	case i.draft.Purge:
		a.expected.count.Add(verify.Late, "%s was to be purged at %s, and is %s", i.id, row.End(), row.State)
	case a.notRetired(i.id):
		a.expected.count.Add(verify.Late, "%s was to be retired at %s, and is %s", i.id, i.sure(), row.State)
	}
	opened, err := a.node.Gate().Open(ctx, i.id, mayfly.ViewerOf(workerOwner(i.draft.Owner)), a.now)
	if err != nil {
		a.expected.count.Add(verify.Lost, "its author cannot open %s: %v", i.id, err)
		return nil
	}
	got, err := readMedia(ctx, a.node.Hydrate(), opened)
	if err != nil || !slices.Equal(got, i.draft.hashes()) || opened.Body.Text != i.draft.Text {
		a.expected.count.Add(verify.Lost, "%s is not what was published: %v", i.id, err)
	}
	if _, err := a.node.Gate().Open(ctx, i.id, mayfly.Viewer{}, a.now); !errors.Is(err, mayfly.Gone) {
		a.expected.count.Add(verify.Leak, "a stranger got %v for %s, which ended at %s", err, i.id, row.End())
	}
	a.read++
	return nil
}

// events wants every piece of news at least once, and a birth once only.
func (a *killAudit) events(i *killItem, row mayfly.Item) {
	logged := a.logged[i.id]
	want := []mayfly.Verb{mayfly.WasCreated}
	if i.deleted == yes && !i.failed && row.Cause == mayfly.ByUser {
		want = append(want, mayfly.WasDeleted)
	}
	if row.State == mayfly.Cold {
		want = append(want, mayfly.WasExpired, mayfly.WasArchived)
	}
	if row.Held {
		want = append(want, mayfly.WasHeld)
	}
	for _, verb := range want {
		if logged[verb] == 0 {
			a.expected.count.Add(verify.Lost, "the log does not tell that %s was %s", i.id, verb)
		}
	}
	if logged[mayfly.WasCreated] > 1 {
		a.expected.count.Add(verify.Double, "the log tells %d births of %s", logged[mayfly.WasCreated], i.id)
	}
}

// unknownRows requires that every row without an acknowledgement is of a birth that was
// in flight, one row for each.
func (a *killAudit) unknownRows(context.Context) error {
	texts, tombstones := map[string]bool{}, 0
	for id := range a.rows {
		if a.expected.items[id] != nil {
			continue
		}
		a.unanswered++
		body, found := a.bodies[id]
		if !found {
			tombstones++
			continue
		}
		if _, open := a.expected.open[body.Text]; !open || texts[body.Text] {
			a.expected.count.Add(verify.Double, "%s, %q: it was not published, or twice", id, body.Text)
		}
		texts[body.Text] = true
	}
	if len(texts)+tombstones > len(a.expected.open) {
		a.expected.count.Add(verify.Double, "%d rows for %d births in flight", len(texts)+tombstones, len(a.expected.open))
	}
	return nil
}

// objects wants every object to be named by a row, but for those of uploads that
// were in flight, which are younger than the floor of the orphans (I15).
func (a *killAudit) objects(context.Context) error {
	named := a.named()
	for tier, keys := range map[string]map[mayfly.BlobKey]bool{"hot": a.hot, "cold": a.cold} {
		for key := range keys {
			switch {
			case named[tier+string(key)]:
			case tier == "hot" && a.stray(key):
				a.strays++
			default:
				a.expected.count.Add(verify.Orphan, "%s %s", tier, key)
			}
		}
	}
	most := 0
	for _, n := range a.expected.stray {
		most += n
	}
	if a.strays > most {
		a.expected.count.Add(verify.Orphan, "%d objects of broken uploads, of %d that can be there", a.strays, most)
	}
	return nil
}

// verify is what an operator has: it must see nothing either.
func (a *killAudit) verify(ctx context.Context) error {
	return a.expected.verify(ctx, a.set, verify.Options{
		Now: a.now, Late: settleTime, Window: workerConfig("").Ends.ArchiveAfter, Bytes: true,
	})
}

func (b *expected) verify(ctx context.Context, set store.Set, o verify.Options) error {
	v, err := verify.Run(ctx, set, o)
	if err != nil {
		return err
	}
	b.count.Merge(&v.Tally)
	return nil
}

// chains wants the record of holds, releases and restores to be sound.
func (a *killAudit) chains(ctx context.Context) error {
	report, err := audit.Verify(ctx, a.set.Rows, nil)
	if err != nil {
		return err
	}
	if !report.Sound() {
		a.expected.count.Add(verify.Lost, "the audit log is not sound: %v", report.Findings)
	}
	a.records = report.Records
	return nil
}

// deadLetters wants that nothing was given up.
func (a *killAudit) deadLetters(ctx context.Context) error {
	for shard := range mayfly.Shard(mayfly.Shards) {
		dead, err := remind.DeadLetters(ctx, a.set.Rows, shard, remind.Dead{}, 10)
		if err != nil {
			return err
		}
		for _, d := range dead {
			a.expected.count.Add(verify.Late, "%s of %s was given up: %+v", d.Step, d.ID, d.History)
		}
	}
	return nil
}
