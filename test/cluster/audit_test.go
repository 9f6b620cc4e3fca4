//go:build servers

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/verify"
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
	items  map[mayfly.ID]mayfly.Item
	events *events
	at     time.Time     // stories whose deadline is later may be anywhere
	longer time.Duration // how long the stories may take to settle on a quiet machine; default 40 s
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
	a.verify(ctx)
	a.judgeEvents()
	acks, reads := a.record.figures()
	storetest.Proof(a, proof, "stories acknowledged", acks)
	storetest.Proof(a, proof, "reads", fmt.Sprintf("%d (%s)", reads, sorted(a.record.answers)))
	storetest.Proof(a, proof, "tries to publish that were refused", fmt.Sprintf("%d (%s), given up %d", a.record.tries, sorted(a.record.refused), a.record.givenUp))
	storetest.Proof(a, proof, "hard expiry late by", a.events.lags())
	storetest.Proof(a, proof, "items that walks have left to a reminder", parked)
	storetest.Proof(a, proof, "verdict", &a.record.count)
	if !a.record.count.Clean() {
		for _, line := range a.record.count.Faults() {
			a.Error(line)
		}
		a.Error(&a.record.count)
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
	for until := time.Now().Add(slowness * a.longer); ; time.Sleep(250 * time.Millisecond) {
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

// verify reads every row, medium, object and event, asks a gate for every story, and
// compares all of it with the record. What a try that was never acknowledged has left is allowed: it is young, and collected later.
func (a *audit) verify(ctx context.Context) {
	a.Helper()
	acknowledged := &verify.Record{Since: a.began, Items: map[mayfly.ID]verify.Expected{}, Unanswered: a.record.tries, Unfinished: a.record.tries}
	for _, n := range a.record.all() {
		var e verify.Expected
		switch {
		case !n.deleted.IsZero():
			e.Deleted = verify.Yes
		case n.deleting:
			e.Deleted = verify.Maybe
		case !n.deadline.After(a.at):
			e.State = mayfly.Cold
		}
		acknowledged.Items[n.id] = e
	}
	a.items = map[mayfly.ID]mayfly.Item{}
	asked, err := gate.New(ctx, a.store.Set, gate.Options{})
	if err != nil {
		a.Fatal(err)
	}
	report, err := verify.Run(ctx, a.store.Set, verify.Options{
		Now: mayfly.InstantOf(time.Now()), Late: lagLimit, Window: archiveIn, Bytes: true, Objects: true, Record: acknowledged,
		Group: "audit-" + newName(), Gate: asked,
		Each: func(_ context.Context, _ *verify.Report, item mayfly.Item, _ store.FoundBody) error {
			a.items[item.ID] = item
			return nil
		},
	})
	if err := errors.Join(err, asked.Close()); err != nil {
		a.Fatal(err)
	}
	for w := range verify.Words {
		if why := report.WhyUnmeasured(w); why != "" {
			a.Errorf("%s was not measured: %s", w, why)
		}
	}
	a.record.count.Merge(&report.Tally)
	if int(report.Items) < len(acknowledged.Items) {
		a.Errorf("verified %d items, and %d were acknowledged", report.Items, len(acknowledged.Items))
	}
}
