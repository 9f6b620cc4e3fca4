package kill

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store"
)

// killAudit verifies a folder against the expected state when all work is done.
type killAudit struct {
	expected *expected
	set      store.Set
	node     *node.Node // runs no loops
	now      mayfly.Instant
	settled  time.Duration

	rows                                                        map[mayfly.ID]mayfly.Item
	read, held, erased, tombstones, unanswered, strays, records int
	found                                                       uint64 // by reconcile
}

func (a *killAudit) String() string {
	return fmt.Sprintf("settled in %s: %d whole, %d held and whole, %d erased (%d tombstones), %d unanswered births there, %d objects of broken uploads, %d audit records, reconcile found %d",
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

// look looks at everything: rows, bytes, objects, log, audit log and dead letters.
func (a *killAudit) look(t *testing.T) {
	t.Helper()
	report := a.verify(t, true)
	a.expected.count.Merge(&report.Tally)
	a.unanswered, a.strays, a.erased = report.Unanswered, report.Unfinished, len(a.expected.items)
	a.read, a.held, a.tombstones = 0, 0, 0
	for id, row := range a.rows {
		switch known := a.expected.items[id] != nil; {
		case !known:
		case row.Held:
			a.held++
			a.erased--
		case row.State == mayfly.Deleted:
			a.tombstones++
		default:
			a.read++
			a.erased--
		}
	}
	chains, err := audit.Verify(t.Context(), a.set.Rows, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a.records = chains.Records; !chains.Sound() {
		a.expected.count.Add(verify.Lost, "the audit log is not sound: %v", chains.Findings)
	}
	for shard := range mayfly.Shard(mayfly.Shards) {
		dead, err := remind.DeadLetters(t.Context(), a.set.Rows, shard, remind.Dead{}, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range dead {
			a.expected.count.Add(verify.Late, "%s of %s was given up: %+v", d.Step, d.ID, d.History)
		}
	}
}

// verify runs the verifier with the expected state and keeps the rows. whole reads
// every byte, and asks the gate of the node.
func (a *killAudit) verify(t *testing.T, whole bool) *verify.Report {
	t.Helper()
	a.rows = map[mayfly.ID]mayfly.Item{}
	var g *gate.Gate
	if whole {
		g = a.node.Gate()
	}
	report, err := verify.Run(t.Context(), a.set, verify.Options{
		Now: a.now, Late: settleTime, Window: workerConfig("").Ends.ArchiveAfter, Bytes: whole,
		Objects: true, Group: "kill", Gate: g, Record: a.expected.record(a.now),
		Each: func(_ context.Context, _ *verify.Report, item mayfly.Item, _ store.FoundBody) error {
			a.rows[item.ID] = item
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// settle runs a node until no row is on its way any more and the verifier finds
// nothing at rest, a minute at most. Items come of age all the time: one that a stop
// catches half retired is taken up by another start.
func (a *killAudit) settle(t *testing.T, o node.Options) {
	t.Helper()
	began := time.Now()
	for {
		n, err := node.Start(t.Context(), a.set, o)
		if err != nil {
			t.Fatal(err)
		}
		for a.waiting(t, n.Clock().Read().Steady) && time.Since(began) < settleAtMost {
			time.Sleep(200 * time.Millisecond)
		}
		a.now = n.Clock().Read().Steady
		found := n.Found()
		a.found += found.Total()
		if err := n.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		report := a.verify(t, false)
		if a.settled = time.Since(began); report.Clean() {
			return
		}
		if a.settled > settleAtMost {
			t.Errorf("after %s there is still something to do: %s\n%s", a.settled, report, strings.Join(report.Faults(), "\n"))
			return
		}
	}
}

// waiting reports whether a row is on its way at now.
func (a *killAudit) waiting(t *testing.T, now mayfly.Instant) (waits bool) {
	t.Helper()
	err := store.EachMinute(t.Context(), a.set.Ledger, 0, math.MaxUint32, func(minute mayfly.Minute, shard mayfly.Shard) error {
		items, err := a.set.Ledger.Walk(t.Context(), store.Stretch{Minute: minute, Shard: shard, To: (minute + 1).Start()}, 1_000_000)
		for _, item := range items {
			young := item.State == mayfly.Active && !item.EndedAt(now)
			waits = waits || !item.Held && item.State != mayfly.Deleted && item.State != mayfly.Cold && !young
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return waits
}

const settleAtMost = time.Minute

// record returns the expected state as the verifier takes it.
func (b *expected) record(now mayfly.Instant) *verify.Record {
	seen := map[string]bool{}
	r := &verify.Record{
		Items: map[mayfly.ID]verify.Expected{}, Unanswered: len(b.open),
		MayBe: func(body mayfly.Body) bool { // of a birth that was in flight, one row for each
			_, open := b.open[body.Text]
			twice := seen[body.Text]
			seen[body.Text] = true
			return open && !twice
		},
		Broken: func(upload mayfly.ID) bool { return b.stray[upload] > 0 },
	}
	for _, n := range b.stray {
		r.Unfinished += n
	}
	for id, i := range b.items {
		r.Items[id] = i.expected(now)
	}
	return r
}

// expected returns what is known of an item as the verifier takes it. What was held or
// restored is retired later, by reminders.
func (i *killItem) expected(now mayfly.Instant) verify.Expected {
	e := verify.Expected{Text: &i.draft.Text, Media: [][32]byte{}, Until: i.sure(), Deleted: i.deleted, Held: i.held}
	if i.failed {
		e.Deleted, e.Held = verify.Maybe, verify.Maybe
	}
	switch {
	case !i.id.ExpiredAt(now):
		e.State = mayfly.Active
	case now < i.sure():
		e.State = mayfly.Cold
	case i.draft.Purge || !i.touched && now > i.sure().Add(settleTime):
		e.State = mayfly.Deleted
	}
	for n := range i.draft.Sizes {
		e.Media = append(e.Media, sha256.Sum256(i.draft.medium(n)))
	}
	return e
}
