// Package walk does time-driven work: a Walker goes over what is due, shard by
// shard, in order of time, behind a durable watermark (L4). It reads pages, hands
// them to an Act in batches, and moves the watermark only when the act and its
// events are durable: a crash between any two steps repeats work and loses none.
//
// A Shard is walked by the process that holds its lease; a Roll shares the shards
// among processes. Leases only save double work: correctness never depends on
// them. A Walker never hands out an item before it is due, and an item that fails
// does not block the others: it is parked as a reminder.
package walk

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Walk is one time-driven step.
type Walk struct {
	Name   string
	Offset time.Duration // how long after its deadline an item is due
	Behind string        // the walk that this one stays behind: it is handed out nothing that the other has not passed; may be empty
	Over   *Rows         // the rows to walk over; nil is the ledger
	Limit  time.Duration // how long an act or a pass may take; default Options.Timeout for an act, a second for a pass
	Act    Act
	Park   Park
}

// Rows says that a walk goes over the rows of a table instead of the items of the
// ledger. A partition holds what is due in one minute of a shard. A clustering key
// begins with the instant at which its row is due, as eight bytes.
type Rows struct {
	Table     store.Table
	Partition func(mayfly.Minute, mayfly.Shard) string
}

// Park adds to b what brings back an item that failed: a reminder for due.
type Park func(b *store.Batch, f Failure, due mayfly.Instant)

// Act does the step for a batch of one minute, events included; when it returns
// nil all of it is durable. It returns as failures the items that failed for
// reasons of their own: they are parked. An error means that the whole batch has
// to be tried again.
type Act func(ctx context.Context, b Batch) ([]Failure, error)

// Batch is what an Act works on.
type Batch struct {
	Items []mayfly.Item // in order of deadline
	Rows  []store.Row   // of a walk over rows, in order of the instant they are due at
	Now   mayfly.Instant
	Run   mayfly.Run // 0 in a walk over rows
	// Repeat says that items may have been acted on before without their events
	// having been appended: by an earlier tenure, or by a try that failed.
	Repeat bool
}

// Failure is an item, or a row, that an Act could not do its step for.
type Failure struct {
	Item mayfly.Item
	Row  store.Row
	Err  error
}

// Options are the settings of a Walker.
type Options struct {
	Holder      string        // names this process in this life, for leases and runs
	Settle      time.Duration // how far the watermark stays behind now; default mayfly.DefaultSettle
	Page        int           // rows read at once; default mayfly.DefaultPage
	Batch       int           // items acted on at once; default mayfly.DefaultBatch
	Gentle      int           // rows read and acted on at once while the walk is on time; default 50
	Budget      time.Duration // lateness up to which a walk slows down for the sake of reads; default mayfly.DefaultLateness
	Load        float64       // share of one core that a walk on time may use over all shards; default 0.2
	Lease       time.Duration // default mayfly.DefaultLease
	Timeout     time.Duration // of one act; default mayfly.DefaultWalkTimeout
	RemindAfter time.Duration // how far ahead an item is parked; default mayfly.DefaultRemindAfter
	IdleSave    time.Duration // how often the watermark is written while nothing is due; default 10 s
	Unpaced     bool          // never slow down: for benchmarks and tests
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
		return o, mayfly.Errorf(mayfly.Invalid, "walk: holder is empty or a setting is out of range: %+v", o)
	}
	return o, nil
}

// A pass ends early when it has done this much, so that its now stays fresh and a
// crash repeats little.
const (
	passItems   = 10_000
	passMinutes = 1_000
	passTime    = time.Second
)

// Walker does one walk in one shard. One goroutine calls Pass; Progress may be
// called by others.
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
	again     mayfly.Instant // up to here a look may repeat one that failed
	logErr    error          // why events could not be appended in this pass
	unsaved   int            // items passed since the watermark was saved
	batchSize int
	spent     spent // by the current pass
	alone     alone

	report report
}

// New returns a Walker that does w in shard. Errors: Invalid.
func New(set store.Set, w Walk, shard *Shard, o Options) (*Walker, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if w.Name == "" || w.Act == nil || w.Park == nil || w.Offset < 0 {
		return nil, mayfly.Errorf(mayfly.Invalid, "walk %q: name, act and park are required, and the offset must not be negative", w.Name)
	}
	// A birth cannot be as slow as that: what is due long after its deadline is settled.
	o.Settle = max(0, o.Settle-w.Offset)
	return &Walker{set: set, walk: w, shard: shard, o: o, batchSize: o.Batch, spent: spent{most: max(passTime, w.Limit)}}, nil
}

// spent is how much a pass has done.
type spent struct {
	items, minutes int
	time, most     time.Duration
	lost           bool // another process has taken the shard
}

func (s spent) enough() bool {
	return s.lost || s.items >= passItems || s.minutes >= passMinutes || s.time >= s.most
}

// Pass walks up to now, or as far as one pass goes; more says that there is more
// to do at once. It does nothing while another process holds the shard. After an
// error the watermark is behind everything that is not done, and the next pass
// goes on from there.
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
	w.spent = spent{most: w.spent.most}
	w.report.begin(now, w.cursor)
	defer func() { w.report.end(w.cursor, w.done) }()

	err = w.walkTo(ctx, target, now)
	if err != nil && ctx.Err() != nil {
		return false, err
	}
	if saved := w.save(ctx); err == nil { // after an error too: what is done is done
		err = saved
	}
	return err == nil && w.spent.enough() && !w.spent.lost, err
}

// target returns the last deadline up to which the walk may go at now.
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
		return 0, w.failed("load the watermark of "+w.walk.Behind, err)
	}
	return min(target, ahead.At), nil
}

// walkTo looks at what is due up to target. No item can be born any more with a
// deadline before settled: what a look passes there is done for good. While the
// log is unavailable the first look goes on and the second waits (L8).
func (w *Walker) walkTo(ctx context.Context, target, now mayfly.Instant) error {
	settled := target.Add(-w.o.Settle)
	w.logErr = nil
	if w.cursor < settled {
		// A backlog. What was looked at once gets its second look first, so that
		// the watermark moves with the work; for the rest one look is enough.
		if err := w.lookAgain(ctx, w.cursor, settled, now); IsAway(err) {
			w.logErr = err
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
	if w.logErr != nil {
		return w.failed("append events", w.logErr)
	}
	return w.lookAgain(ctx, settled, settled, now)
}

// lookFirst looks for the first time in this tenure, from the cursor on. An
// earlier tenure may have acted on the same items.
func (w *Walker) lookFirst(ctx context.Context, to, onTime, now mayfly.Instant, final bool) error {
	if err := w.look(ctx, look{from: w.cursor, to: to, now: now, onTime: onTime, repeat: true, first: true, final: final}); err != nil {
		return w.failed("look", err)
	}
	return nil
}

// lookAgain looks for the second time, when nothing can be born there any more (L4).
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

// hold takes or keeps the shard. A new tenure begins at the stored watermark.
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

// Watermark returns the watermark as it is stored, and the tenure it was read in,
// which is 0 while the shard is not held.
func (w *Walker) Watermark() (at mayfly.Instant, tenure uint64) { return w.mark.At, w.tenure }

// look is one look at what is due in (from, to].
type look struct {
	from, to mayfly.Instant
	now      mayfly.Instant
	onTime   mayfly.Instant // where a walk without a backlog would be
	repeat   bool           // see Batch.Repeat
	first    bool           // in this tenure
	final    bool           // what it passes is done for good
}

func (w *Walker) look(ctx context.Context, l look) error {
	for minute := (l.from + 1).Minute(); l.from < l.to && minute <= l.to.Minute() && !w.spent.enough(); minute++ {
		to := min(l.to, (minute+1).Start()-1)
		s := w.stretch(minute, l.from, to)
		for full := true; full; {
			limit := w.stride(w.o.Page, max(l.from, minute.Start(), s.last), l)
			p, err := w.read(ctx, &s, limit)
			if err != nil {
				return err
			}
			full = p.len() == limit
			if cut, err := w.act(ctx, p, full, l); err != nil || cut {
				return err
			}
		}
		w.pass(to, l)
		w.spent.minutes++
	}
	return nil
}

// pass moves the cursors to at: the look has done its work up to there.
func (w *Walker) pass(at mayfly.Instant, l look) {
	w.cursor = max(w.cursor, at)
	if l.final && w.logErr == nil {
		w.done = max(w.done, at)
	}
}
