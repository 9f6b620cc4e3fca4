// Package walk is in charge of walking time (L4): one walker, at different
// offsets, behind a durable watermark per shard. It reads what is due in pages,
// hands it to an Act in batches, and moves the watermark only when the act and
// its events are durable: a crash between any two steps repeats work and loses
// none.
//
// Its leases spare double work and nothing rests on them. It never hands out an
// item before it is due, and one item that fails never holds up the others: it
// is parked as a reminder.
package walk

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Walk is one time-driven step.
type Walk struct {
	Name   string
	Offset time.Duration // how long after its deadline an item is due
	Behind string        // the walk that it stays behind: nothing is handed out that that one has not done; may be empty
	Act    Act
	Park   Park
}

// Park adds to a batch what brings an item back that failed: a reminder for due.
type Park func(b *store.Batch, f Failure, due mayfly.Instant)

// Act does the step for a batch of one pigeonhole, events included; what it
// returns nil for is durable. Items that failed for reasons of their own are
// answered as failures and parked. An error means that the whole batch has to be
// tried again.
type Act func(ctx context.Context, b Batch) ([]Failure, error)

// Batch is what an Act works on.
type Batch struct {
	Items []mayfly.Item // in order of deadline
	Now   mayfly.Instant
	Run   mayfly.Run
	// Repeat says that items may have been acted on before without their events
	// having been appended: by an earlier tenure, or by a try that failed.
	Repeat bool
}

// Failure is an item that an Act could not do its step for.
type Failure struct {
	Item mayfly.Item
	Err  error
}

// Options are the settings of the walks.
type Options struct {
	Holder      string        // names this process in this life, for leases
	Settle      time.Duration // how far the watermark trails; default mayfly.DefaultSettle
	Page        int           // rows read at once; default mayfly.DefaultPage
	Batch       int           // items acted on at once; default mayfly.DefaultBatch
	Gentle      int           // how many of either while the walk is on time; default 50
	Budget      time.Duration // lateness up to which a walk may go slowly; default mayfly.DefaultLateness
	Load        float64       // share of one core that a walk on time may use over all shards; default 0.2
	Lease       time.Duration // default mayfly.DefaultLease
	Timeout     time.Duration // of one act; default mayfly.DefaultWalkTimeout
	RemindAfter time.Duration // how far ahead an item is parked; default mayfly.DefaultRemindAfter
	IdleSave    time.Duration // how often a watermark that passed nothing is written; default 10 s
	Unpaced     bool          // as fast as it goes: for benchmarks and tests
	Slots       *Slots        // how many acts run at once; default no limit
}

func (o Options) withDefaults() (Options, error) {
	o.Settle = cmp.Or(o.Settle, mayfly.DefaultSettle)
	o.Page = cmp.Or(o.Page, mayfly.DefaultPage)
	o.Batch = cmp.Or(o.Batch, mayfly.DefaultBatch)
	o.Gentle = cmp.Or(o.Gentle, 50)
	o.Budget = cmp.Or(o.Budget, mayfly.DefaultLateness)
	o.Load = cmp.Or(o.Load, 0.2)
	o.Lease = cmp.Or(o.Lease, mayfly.DefaultLease)
	o.Timeout = cmp.Or(o.Timeout, mayfly.DefaultWalkTimeout)
	o.RemindAfter = cmp.Or(o.RemindAfter, mayfly.DefaultRemindAfter)
	o.IdleSave = cmp.Or(o.IdleSave, 10*time.Second)
	if o.Holder == "" || o.Settle < 0 || o.Page < 1 || o.Batch < 1 || o.Gentle < 1 || o.Budget <= 0 || o.Load <= 0 || o.Lease <= 0 || o.Timeout <= 0 {
		return o, mayfly.Errorf(mayfly.Invalid, "walk: a setting is out of range, or the holder has no name: %+v", o)
	}
	return o, nil
}

// A pass is cut short when it has done this much, so that its now stays fresh,
// its lease alive, and a crash repeats little.
const (
	passItems   = 10_000
	passMinutes = 1_000
	passTime    = time.Second
)

// Walker is one walk in one shard. One goroutine calls Pass; Progress may be
// asked from others.
type Walker struct {
	set   store.Set
	walk  Walk
	shard *Shard
	o     Options

	tenure    uint64
	run       mayfly.Run
	mark      Watermark      // as it is stored
	done      mayfly.Instant // everything due up to here is done for good, though perhaps not yet saved
	cursor    mayfly.Instant // everything due up to here was looked at in this tenure
	again     mayfly.Instant // up to here a look may be repeating one that failed
	untold    error          // in this pass: why the log was not told of what was done
	unsaved   int            // items passed since the watermark was saved
	batchSize int
	spent     spent // by the pass under way

	report report
}

// New is a walker of w in shard.
func New(set store.Set, w Walk, shard *Shard, o Options) (*Walker, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if w.Name == "" || w.Act == nil || w.Park == nil || w.Offset < 0 {
		return nil, mayfly.Errorf(mayfly.Invalid, "walk %q is not whole", w.Name)
	}
	// What is due long after its deadline needs no settling: no birth is that slow.
	o.Settle = max(0, o.Settle-w.Offset)
	return &Walker{set: set, walk: w, shard: shard, o: o, batchSize: o.Batch}, nil
}

// spent is how much a pass has done.
type spent struct {
	items, minutes int
	time           time.Duration
	lost           bool // the shard, meanwhile
}

func (s spent) enough() bool {
	return s.lost || s.items >= passItems || s.minutes >= passMinutes || s.time >= passTime
}

// Pass walks up to now, or as far as one pass goes; more says that there is more
// to do at once. It does nothing while another process holds the shard. An error
// leaves the watermark behind whatever is not done; the next pass takes it up
// from there.
func (w *Walker) Pass(ctx context.Context, now mayfly.Instant) (more bool, err error) {
	w.report.aim(now.Add(-w.walk.Offset))
	held, err := w.hold(ctx, now)
	if err != nil || !held {
		return false, err
	}
	target, err := w.target(ctx, now)
	if err != nil {
		return false, err
	}
	w.spent = spent{}
	w.report.begin(now, w.cursor)
	defer func() { w.report.end(w.cursor, w.done) }()

	err = w.walkTo(ctx, target, now)
	if err != nil && ctx.Err() != nil {
		return false, err
	}
	if saved := w.save(ctx); err == nil { // also behind an error: what is done is done
		err = saved
	}
	return err == nil && w.spent.enough() && !w.spent.lost, err
}

// target is up to which deadline the walk may go at now.
func (w *Walker) target(ctx context.Context, now mayfly.Instant) (mayfly.Instant, error) {
	target := now.Add(-w.walk.Offset)
	if w.walk.Behind == "" {
		return target, nil
	}
	if at, known := w.shard.lastSaved(w.tenure, w.walk.Behind); known {
		return min(target, at), nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	ahead, err := LoadWatermark(ctx, w.set.Rows, w.walk.Behind, w.shard)
	if err != nil {
		return 0, w.failed("see how far "+w.walk.Behind+" is", err)
	}
	return min(target, ahead.At), nil
}

// walkTo looks at what is due up to target. Behind settled nothing can still be
// born: what it passes there, having looked since, is done for good. While the log
// is away the first look goes on and the second waits (L8).
func (w *Walker) walkTo(ctx context.Context, target, now mayfly.Instant) error {
	settled := target.Add(-w.o.Settle)
	w.untold = nil
	if w.cursor < settled {
		// A backlog. What was looked at once gets its second look first, so that
		// the watermark moves on with the work; for the rest one look is enough.
		if err := w.lookAgain(ctx, w.cursor, settled, now); IsAway(err) {
			w.untold = err
		} else if err != nil {
			return err
		}
		if err := w.lookFirst(ctx, settled, target, now, w.done == w.cursor); err != nil {
			return err
		}
	}
	if err := w.lookFirst(ctx, target, target, now, false); err != nil {
		return err
	}
	if w.untold != nil {
		return w.failed("tell the log", w.untold)
	}
	return w.lookAgain(ctx, settled, settled, now)
}

// lookFirst is the first look of this tenure, from the cursor on. An earlier
// tenure may have been here.
func (w *Walker) lookFirst(ctx context.Context, to, onTime, now mayfly.Instant, final bool) error {
	if err := w.look(ctx, look{from: w.cursor, to: to, now: now, onTime: onTime, repeat: true, first: true, final: final}); err != nil {
		return w.failed("look", err)
	}
	return nil
}

// lookAgain is the second look, behind which nothing can slip (L4).
func (w *Walker) lookAgain(ctx context.Context, to, onTime, now mayfly.Instant) error {
	if err := w.look(ctx, look{from: w.done, to: to, now: now, onTime: onTime, repeat: w.done < w.again, final: true}); err != nil {
		w.again = max(w.again, to)
		return w.failed("look again", err)
	}
	return nil
}

func (w *Walker) failed(what string, err error) error {
	return fmt.Errorf("walk %s: shard %d: %s: %w", w.walk.Name, w.shard.number, what, err)
}

// hold takes or keeps the shard, and begins a tenure when it is new: from the
// stored watermark.
func (w *Walker) hold(ctx context.Context, now mayfly.Instant) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	tenure, held, err := w.shard.Hold(ctx, now)
	w.report.hold(held)
	if err != nil {
		return false, w.failed("hold", err)
	}
	if !held {
		w.tenure = 0
		return false, nil
	}
	if tenure == w.tenure {
		return true, nil
	}
	mark, err := LoadWatermark(ctx, w.set.Rows, w.walk.Name, w.shard)
	if err != nil {
		return false, w.failed("load the watermark", err)
	}
	w.tenure, w.mark, w.run = tenure, mark, 0
	w.done, w.cursor, w.again, w.unsaved = mark.At, mark.At, 0, 0
	w.shard.saved(tenure, w.walk.Name, mark.At)
	w.report.forget()
	return true, nil
}

// look is one look at a span of deadlines: (from, to].
type look struct {
	from, to mayfly.Instant
	now      mayfly.Instant
	onTime   mayfly.Instant // what a walk that is on time would be at
	repeat   bool           // see Batch.Repeat
	first    bool           // in this tenure
	final    bool           // what it passes is done for good
}

func (w *Walker) look(ctx context.Context, l look) error {
	for minute := (l.from + 1).Minute(); l.from < l.to && minute <= l.to.Minute() && !w.spent.enough(); minute++ {
		to := min(l.to, (minute+1).Start()-1)
		s := store.Stretch{Minute: minute, Shard: w.shard.number, To: to}
		s.After = store.Position{Deadline: l.from, ID: lastID()}
		for full := true; full; {
			limit := w.stride(w.o.Page, max(s.After.Deadline, minute.Start()), l)
			page, err := w.page(ctx, s, limit)
			if err != nil {
				return err
			}
			full = len(page) == limit
			if cut, err := w.act(ctx, page, full, l); err != nil || cut {
				return err
			}
			if full {
				s.After = store.PositionOf(page[len(page)-1])
			}
		}
		w.pass(to, l)
		w.spent.minutes++
	}
	return nil
}

func (w *Walker) page(ctx context.Context, s store.Stretch, limit int) (page []mayfly.Item, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	w.spent.time += loop.Measure(func() { page, err = w.set.Ledger.Walk(ctx, s, limit) })
	if err != nil {
		return nil, fmt.Errorf("read minute %d: %w", s.Minute, err)
	}
	for _, item := range page {
		if item.ID.Deadline() > s.To { // L3, trap 5: nothing is handed out early
			panic(fmt.Sprintf("walk: %s was handed out before its deadline", item.ID))
		}
	}
	return page, nil
}

// pass moves the cursors to at, behind which the look has done its work.
func (w *Walker) pass(at mayfly.Instant, l look) {
	w.cursor = max(w.cursor, at)
	if l.final && w.untold == nil {
		w.done = max(w.done, at)
	}
}

func lastID() mayfly.ID {
	var id mayfly.ID
	for i := range id {
		id[i] = 0xff
	}
	return id
}
