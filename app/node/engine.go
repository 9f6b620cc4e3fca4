package node

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/collect"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/engine/scrub"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/product/account"
)

// parts holds the packages of the engine, opened.
type parts struct {
	uploads   *upload.Uploads
	intake    *intake.Intake
	gate      *gate.Gate
	hydrate   *hydrate.Hydrate
	sweep     *sweep.Sweep
	reconcile *sweep.Reconcile
	archive   *archive.Archive
	retire    *archive.Retire
	erase     *erase.Erase
	accounts  *accounterase.Eraser
	collect   *collect.Collector
	scrub     *scrub.Scrubber
	restore   *restore.Restore
	audit     *audit.Log
	budget    *remind.Budget // how many retries are allowed
	upkeep    *upkeep
}

func (n *Node) openEngine(ctx context.Context) (err error) {
	e := &n.engine
	e.budget, e.upkeep = remind.NewBudget(), &upkeep{}
	rules := n.o.Products.Stories
	if e.hydrate, err = hydrate.New(n.set, hydrate.Options{
		Workers: rules.Thumbnails, Limits: thumbnailLimits(rules),
		Problem: func(id mayfly.ID, err error) { n.o.Problem("renditions", fmt.Errorf("%s: %w", id, err)) },
	}); err != nil {
		return err
	}
	if e.audit, err = audit.Open(ctx, n.set.Rows, n.o.Name, n.clock.Read().Steady); err != nil {
		return err
	}
	t, err := n.o.Tombstones.WithDefaults()
	if err != nil {
		return err
	}
	n.o.Tombstones, n.o.Erase.Tombstones, n.o.Sweep.Tombstones, n.o.Archive.Tombstones, n.o.Retire.Tombstones, n.o.Restore.Tombstones = t, t, t, t, t, t
	if e.erase, err = erase.New(n.set, n.o.Erase); err != nil {
		return err
	}
	if e.accounts, err = accounterase.New(n.set, e.erase, accounterase.Options{Settle: n.o.Settle, Audit: e.audit, Deletions: n.set.Deletions}); err != nil {
		return err
	}
	e.accounts.Add(account.ErasePart(n.set.Rows))
	if e.collect, err = collect.New(n.set, e.erase, collect.Options{Settle: n.o.Settle, Audit: e.audit}); err != nil {
		return err
	}
	if e.scrub, err = scrub.New(n.set, n.o.Erase.RemindAfter); err != nil {
		return err
	}
	n.o.Sweep.Erase, n.o.Archive.Erase, n.o.Retire.Erase = e.erase.Act, e.erase.Act, e.erase.Act
	if e.sweep, err = sweep.New(n.set, n.o.Sweep); err != nil {
		return err
	}
	if e.reconcile, err = sweep.NewReconcile(n.set, n.o.Reconcile); err != nil {
		return err
	}
	if e.archive, err = archive.New(n.set, n.o.Archive); err != nil {
		return err
	}
	if e.retire, err = archive.NewRetire(n.set, n.o.Retire); err != nil {
		return err
	}
	n.o.Restore.Released = n.released
	if e.restore, err = restore.New(n.set, e.audit, n.o.Restore); err != nil {
		return err
	}
	n.o.Uploads.MayMint, n.o.Intake.MayMint = n.mayMint, n.mayMint
	n.o.Intake.Now = func() mayfly.Instant { return n.clock.Read().Now }
	if e.uploads, err = upload.New(n.set, n.o.Uploads); err != nil {
		return err
	}
	if e.intake, err = intake.New(n.set, n.o.Intake); err != nil {
		return err
	}
	e.gate, err = gate.New(ctx, n.set, n.o.Gate) // last, because it has to be closed
	return err
}

// step is a walk with its options and the pause between two passes.
type step struct {
	walk  walk.Walk
	o     walk.Options
	every time.Duration
}

// slowly is how many times longer the pause of a walk is that no user waits for.
// seldomSaved is how often such a walk saves a watermark that passed no item: each
// save is a conditional write, for every walk and shard.
const (
	slowly      = 10
	seldomSaved = time.Minute
)

// steps returns the walks of every shard, in the order of an item's life.
func (n *Node) steps() []step {
	e, o := &n.engine, n.o.Walk
	later := o // slots of their own: a sweep never waits for a copy
	later.Slots = walk.NewSlots(1)
	if n.set.Time != nil { // copies wait for servers, not for cores
		later.Slots = walk.NewSlots(mayfly.Shards / 2)
	}
	later.Budget, later.Timeout = n.o.ArchiveLateness, n.o.ArchiveTimeout
	slow := n.o.Cadence * slowly
	seldom := later // no user waits for them, and little is repeated after a crash
	seldom.IdleSave = seldomSaved
	all := []step{{e.sweep.Walk(), o, n.o.Cadence}}
	for _, w := range e.reconcile.Walks() {
		all = append(all, step{w, seldom, slow})
	}
	all = append(all, step{e.archive.Walk(), later, n.o.Cadence}, step{e.erase.Tidy(), seldom, slow})
	if w, ok := e.retire.Walk(); ok {
		all = append(all, step{w, seldom, slow}, step{e.erase.TidyAfter(w.Offset), seldom, slow})
	}
	for i := range all {
		all[i].walk.Act = n.earning(all[i].walk.Act)
	}
	return all
}

// earning returns act with the retries that its work earns (L10).
func (n *Node) earning(act walk.Act) walk.Act {
	return func(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
		failures, err := act(ctx, b)
		if err == nil {
			n.engine.budget.Earn(len(b.Items) - len(failures))
		}
		return failures, err
	}
}

// acts returns the function for each step that a reminder can be for.
func (n *Node) acts() remind.Acts {
	e := &n.engine
	acts := remind.Acts{
		remind.Announce: e.intake.Announce,
		remind.Expire:   both(e.sweep.Expire, e.restore.Clean),
		remind.Archive:  e.archive.Act,
		remind.Erase:    e.erase.Act,
		remind.Tidy:     e.erase.TidyAct,
		remind.Retire:   e.retire.Act,
	}
	for _, p := range n.opened {
		maps.Copy(acts, p.Acts)
	}
	return acts
}

// both returns an act that does one after the other; the second reads the rows again.
func both(first, then walk.Act) walk.Act {
	return func(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
		failed, err := first(ctx, b)
		if err != nil {
			return nil, err
		}
		more, err := then(ctx, b)
		return append(failed, more...), err
	}
}
