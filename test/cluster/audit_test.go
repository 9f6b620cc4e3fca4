//go:build servers

package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// lagLimit is how late hard expiry may be (L4), unless a test says less.
const lagLimit = 60 * time.Second

// audit is the end of a test. It waits until every story whose time is over has
// come to where it belongs, stops the nodes, and holds rows, media and events
// with the record.
type audit struct {
	*testCluster
	store  *profile.Store
	items  map[mayfly.ID]mayfly.Item // born since the test began
	older  []mayfly.Item
	events *events
	at     time.Time     // stories whose deadline is later may be anywhere
	longer time.Duration // how long the stories may take to settle; default 40 s
	lag    time.Duration // how late hard expiry may be; default lagLimit
}

func (w *testCluster) audit() *audit {
	w.Helper()
	return &audit{testCluster: w, longer: 40 * time.Second, lag: lagLimit}
}

// close does it all, prints what was tried and fails unless all seven are zero.
func (a *audit) close(proof string) {
	a.Helper()
	cfg := a.config("auditor", nil)
	a.store = a.open(cfg)
	a.at = time.Now()
	a.settle()
	a.readEvents()
	parked := 0
	for _, p := range a.nodes {
		parked += p.parked()
	}
	a.stopAll()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	a.readLedger(ctx)
	a.rows()
	a.media(ctx)
	a.verify(ctx)
	a.judgeEvents()
	text, clean := a.record.verdict()
	acks, reads := a.record.figures()
	storetest.Proof(a, proof, "stories acknowledged", acks)
	storetest.Proof(a, proof, "reads", fmt.Sprintf("%d (%s)", reads, sorted(a.record.answers)))
	storetest.Proof(a, proof, "tries to publish that were refused", fmt.Sprintf("%d (%s), given up %d", a.record.tries, sorted(a.record.refused), a.record.givenUp))
	storetest.Proof(a, proof, "hard expiry late by", a.events.lags())
	storetest.Proof(a, proof, "items that walks have left to a reminder", parked)
	storetest.Proof(a, proof, "verdict", text)
	if !clean {
		for _, line := range a.record.why {
			a.Error(line)
		}
		a.Error(text)
	}
}

// settled says whether an item is where the end of the test finds it: a story in
// cold storage, what was deleted erased.
func settled(n *note, item mayfly.Item, body store.FoundBody, at time.Time) bool {
	switch {
	case n.deleting:
		return item.State != mayfly.Deleted && n.deleted.IsZero() || item.State == mayfly.Deleted && !body.Found
	default:
		return n.deadline.After(at) || item.State == mayfly.Cold
	}
}

// settle waits until every story is where it belongs; audit counts what is not.
func (a *audit) settle() {
	a.Helper()
	for until := time.Now().Add(a.longer); ; time.Sleep(250 * time.Millisecond) {
		waiting, err := a.unsettled()
		if err == nil && waiting == 0 {
			return
		}
		if time.Now().After(until) {
			a.Logf("%d stories are not where they belong: %v", waiting, err)
			return
		}
	}
}

func (a *audit) unsettled() (int, error) {
	waiting := 0
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for part := range slices.Chunk(a.record.all(), 200) {
		ids := make([]mayfly.ID, len(part))
		for i, n := range part {
			ids[i] = n.id
		}
		found, err := a.store.Set.Ledger.Get(ctx, ids...)
		if err != nil {
			return 0, err
		}
		bodies, err := a.store.Set.Ledger.Body(ctx, ids...)
		if err != nil {
			return 0, err
		}
		for i, n := range part {
			if !settled(n, found[i].Item, bodies[i], a.at) {
				waiting++
			}
		}
	}
	return waiting, nil
}

// readLedger reads every row of the cluster.
func (a *audit) readLedger(ctx context.Context) {
	a.Helper()
	a.items = map[mayfly.ID]mayfly.Item{}
	first, err := walk.Origin(ctx, a.store.Set.Rows, a.began)
	if err != nil {
		a.Fatal(err)
	}
	last := mayfly.InstantOf(time.Now().Add(15 * time.Minute))
	for minute := first.Minute(); minute <= last.Minute(); minute++ {
		for shard := range mayfly.Shard(mayfly.Shards) {
			page, err := a.store.Set.Ledger.Walk(ctx, store.Stretch{Minute: minute, Shard: shard, To: (minute + 1).Start() - 1}, 100_000)
			if err != nil {
				a.Fatal(err)
			}
			for _, item := range page {
				if item.ID.Birth() < a.began {
					a.older = append(a.older, item)
				} else {
					a.items[item.ID] = item
				}
			}
		}
	}
}

// rows compares the ledger with the record.
func (a *audit) rows() {
	for _, n := range a.record.all() {
		item, found := a.items[n.id]
		switch {
		case !found:
			a.record.blame(lost, "%s was acknowledged, and has no row", n.id)
		case !n.deleted.IsZero() && item.State != mayfly.Deleted:
			a.record.blame(resurrected, "%s is deleted, and its row is %s", n.id, item.State)
		case !n.deleting && item.State == mayfly.Deleted:
			a.record.blame(lost, "%s is deleted, and no user asked for it", n.id)
		case !n.deleting && item.State != mayfly.Active && item.Changed.Time().Before(n.deadline):
			a.record.blame(early, "%s is %s since %s before its deadline", n.id, item.State, n.deadline.Sub(item.Changed.Time()))
		case !settled(n, item, store.FoundBody{}, a.at):
			a.record.blame(late, "%s is %s, %s after its deadline", n.id, item.State, time.Since(n.deadline))
		}
	}
	if strange := len(a.items) - len(a.record.all()); strange > a.record.tries {
		a.record.blame(double, "%d rows that were not acknowledged, and only %d tries to publish failed", strange, a.record.tries)
	}
}

// media lists both tiers: every object is one that a row names. What a try left
// that was never acknowledged is young, and the collector's.
func (a *audit) media(ctx context.Context) {
	a.Helper()
	named := map[string]map[mayfly.BlobKey]bool{"hot": {}, "cold": {}}
	for _, item := range slices.AppendSeq(slices.Clone(a.older), maps.Values(a.items)) {
		if item.State == mayfly.Deleted {
			continue
		}
		for n := range mayfly.MaxMedia * 3 {
			if item.Owns(n) {
				named["hot"][item.MediaKey(item.Keys.Hot, n)] = item.Keys.Hot != 0
				named["cold"][item.MediaKey(item.Keys.Cold, n)] = item.Keys.Cold != 0
			}
		}
	}
	left := 0
	for tier, blobs := range map[string]store.Blobs{"hot": a.store.Set.Hot, "cold": a.store.Set.Cold} {
		all, err := blobs.List(ctx, "", "", 1_000_000)
		if err != nil {
			a.Fatal(err)
		}
		for _, object := range all {
			id, err := mayfly.ParseID(strings.Split(string(object.Key), "/")[1])
			if err != nil {
				a.Fatal(err)
			}
			if named[tier][object.Key] || id.Birth() < a.began {
				continue
			}
			if left++; left > a.record.tries {
				a.record.blame(orphan, "%s in %s is named by no row, and only %d tries to publish failed", object.Key, tier, a.record.tries)
			}
		}
	}
}

// verify reads every medium, by the check that operators have.
func (a *audit) verify(ctx context.Context) {
	a.Helper()
	v, err := node.Verify(ctx, a.store.Set, node.Verification{
		Now: mayfly.InstantOf(time.Now()), Ahead: 15 * time.Minute, Late: lagLimit, Window: archiveIn, Bytes: true,
	})
	if err != nil {
		a.Fatal(err)
	}
	for w, n := range map[word]int64{lost: v.Lost, resurrected: v.Resurrected, early: v.Early, late: v.Late, leak: v.Leak, double: v.Double, orphan: v.Orphan} {
		for range n {
			a.record.blame(w, "in the ledger: %v", v.Found)
		}
	}
	if int(v.Items) < len(a.record.all()) {
		a.Errorf("verified %d items, and %d were acknowledged", v.Items, len(a.record.all()))
	}
}
