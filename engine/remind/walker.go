package remind

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Name is the name of the walk over reminders.
const Name = "remind"

// Options are the settings of a Walker.
type Options struct {
	Settle  time.Duration // how far the walk stays behind now, so that no slow write slips behind it; default mayfly.DefaultSettle
	Page    int           // reminders read and acted on at once; default 100
	Timeout time.Duration // of one act; default 30 s
	Tries   uint32        // failures after which a step becomes a dead letter; default mayfly.DefaultTries
	After   time.Duration // the first pause after a failure; it doubles with each, up to Longest; default mayfly.DefaultRemindAfter
	Longest time.Duration // the longest pause; default mayfly.DefaultLongestPause
	Budget  *Budget       // of retries; default no limit
	Kept    time.Duration // how far behind the watermark finished reminders are kept for inspection; default 30 days
}

func (o Options) withDefaults() (Options, error) {
	o.Settle = cmp.Or(o.Settle, mayfly.DefaultSettle)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.After = cmp.Or(o.After, mayfly.DefaultRemindAfter)
	o.Longest = cmp.Or(o.Longest, mayfly.DefaultLongestPause)
	o.Kept = cmp.Or(o.Kept, Kept)
	o.Page = cmp.Or(o.Page, 100)
	o.Tries = cmp.Or(o.Tries, mayfly.DefaultTries)
	if o.Settle < 0 || o.Page < 1 || o.Timeout <= 0 || o.After <= 0 || o.Longest < o.After || o.Kept < 0 {
		return o, mayfly.Errorf(mayfly.Invalid, "remind: a setting is out of range: %+v", o)
	}
	return o, nil
}

// Acts maps each step to what does it, for rows that have just been read.
type Acts map[Step]walk.Act

// Walker does the steps that the reminders of one shard ask for: it is a
// walk.Walker over the rows of the reminders, which come due as items do. One
// goroutine calls Pass.
type Walker struct {
	set    store.Set
	shard  *walk.Shard
	acts   Acts
	o      Options
	walker *walk.Walker

	dropped walk.Watermark // up to where finished reminders were dropped
	tenure  uint64         // in which dropped was read
	trouble map[Step]trouble
	down    map[Step]error // the steps that an unavailable store prevents in this pass
}

// trouble is what is known of a step since it last succeeded: the first item that
// failed as if a store were unavailable, and whether another one did so too.
type trouble struct {
	first mayfly.ID
	away  bool
}

// New returns the Walker of a shard's reminders. Errors: Invalid.
func New(set store.Set, shard *walk.Shard, acts Acts, o Options) (*Walker, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Walker{set: set, shard: shard, acts: acts, o: o, trouble: map[Step]trouble{}}
	w.walker, err = walk.New(set, walk.Walk{
		Name: Name, Offset: o.Settle, Over: &walk.Rows{Table: Reminders, Partition: Partition},
		// Each step of a page may time out twice, for the batch and for one item.
		Limit: time.Duration(2*len(Steps())+1) * o.Timeout,
		Act:   w.act, Park: park,
	}, shard, walk.Options{
		Holder: Name, Settle: o.Settle, Page: o.Page, Batch: o.Page, Timeout: o.Timeout, RemindAfter: o.After,
		Unpaced: true, // reminders are few, and callers wait for some of them
	})
	return w, err
}

// Pass does what is due at now, or as much of it as one pass does; more says that
// there is more. After an error the watermark is behind everything that is not
// done.
func (w *Walker) Pass(ctx context.Context, now mayfly.Instant) (more bool, err error) {
	w.down = map[Step]error{}
	more, err = w.walker.Pass(ctx, now)
	if _, tenure := w.walker.Watermark(); tenure != 0 {
		w.o.Budget.Earn(1) // an idle node may still retry, slowly
		if err == nil {
			err = w.drop(ctx)
		}
	}
	for step, down := range w.down { // it did not block the others; the caller reports it
		if err == nil {
			err = fmt.Errorf("step %s waits: %w", step, down)
		}
	}
	if err != nil {
		return false, fmt.Errorf("remind: shard %d: %w", w.shard.Number(), err)
	}
	return more, nil
}

// act handles a batch of reminders. A store that fails it would fail a smaller
// batch too.
func (w *Walker) act(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
	err := w.handle(ctx, b.Rows, b.Now)
	if ctx.Err() == nil {
		err = walk.Down(err)
	}
	return nil, err
}

// park writes a reminder again that could not be handled within the time of a batch.
func park(b *store.Batch, f walk.Failure, due mayfly.Instant) {
	r, err := Read(f.Row)
	if err != nil {
		return // handle makes a dead letter of it
	}
	r = r.failed(due, f.Err)
	r.Due = due
	Write(b, r)
}

// handle does the steps that a page asks for. What could not be done is written
// again in a later minute, or becomes a dead letter, before the watermark passes it.
func (w *Walker) handle(ctx context.Context, page []store.Row, now mayfly.Instant) error {
	var later store.Batch
	bySteps := map[Step][]Reminder{}
	var order []Step
	for _, row := range page {
		r, err := Read(row)
		switch {
		case err != nil && r.ID.IsZero():
			return err // its key does not even name an item
		case err != nil:
			if err := bury(ctx, w.set.Rows, r.failed(now, err), now); err != nil {
				return err
			}
		case r.Tries > 0 && !w.o.Budget.spend():
			r.Due = now.Add(w.o.After)
			Write(&later, r)
		default:
			if bySteps[r.Step] == nil {
				order = append(order, r.Step)
			}
			bySteps[r.Step] = append(bySteps[r.Step], r)
		}
	}
	for _, step := range order {
		failures, err := []failure(nil), w.down[step]
		if err == nil {
			failures, err = w.do(ctx, step, bySteps[step], now)
		}
		if walk.IsDown(err) {
			w.down[step] = err
		}
		if walk.IsDown(err) || walk.IsAway(err) { // no try is counted, and the other steps go on (L8, L10)
			for _, r := range bySteps[step] {
				Write(&later, w.putOff(r, now, rand.Float64()))
			}
			continue
		}
		if err != nil {
			return err
		}
		for _, f := range failures {
			if err := w.retry(ctx, &later, f, now); err != nil {
				return err
			}
		}
	}
	if len(later.Stages()) == 0 {
		return nil
	}
	return w.set.Writer.Commit(ctx, &later)
}

// failure is a reminder whose step failed.
type failure struct {
	Reminder
	err error
}

// retry adds a reminder that failed to later, or makes a dead letter of it after
// its last try.
func (w *Walker) retry(ctx context.Context, later *store.Batch, f failure, now mayfly.Instant) error {
	r := f.failed(now, f.err)
	if r.Tries >= w.o.Tries {
		return bury(ctx, w.set.Rows, r, now)
	}
	r.Due = now.Add(backoff(r.Tries, w.o.After, w.o.Longest, rand.Float64()))
	Write(later, r)
	return nil
}

// longestWait is the longest pause of a reminder that a user may wait for.
const longestWait = 20 * time.Minute

// putOff returns the reminder for later, because what its step needs is
// unavailable. The pause is as long as the outage so far, up to Longest, less up to
// a quarter by dice in [0, 1): however long the outage, few reminders are written
// for it (I17). Steps other than Announce are few, and a user may wait for them (ST5).
func (w *Walker) putOff(r Reminder, now mayfly.Instant, dice float64) Reminder {
	if r.Waits == 0 {
		r.Waits = now
	}
	longest := w.o.Longest
	if r.Step != Announce {
		longest = min(longest, longestWait)
	}
	lasted := min(now.Sub(r.Waits), longest)
	r.Due = now.Add(max(w.o.After, time.Duration(float64(lasted)*(1-dice/4))))
	return r
}

// backoff returns the pause after the n-th failure: it doubles from after on, up to
// longest, spread by half of it in both directions by dice in [0, 1), and is never
// shorter than after.
func backoff(n uint32, after, longest time.Duration, dice float64) time.Duration {
	d := after
	for i := uint32(1); i < n && d < longest; i++ {
		d *= 2
	}
	return max(after, time.Duration(float64(min(d, longest))*(0.5+dice)))
}

// do does one step for the items of reminders. A batch that fails is tried again
// item by item. An unavailable log or store is returned as an error: no try is
// counted.
func (w *Walker) do(ctx context.Context, step Step, reminders []Reminder, now mayfly.Instant) ([]failure, error) {
	items, by, err := w.rows(ctx, reminders)
	if err != nil || len(items) == 0 {
		return nil, err
	}
	act := w.acts[step]
	if act == nil {
		act = func(context.Context, walk.Batch) ([]walk.Failure, error) {
			return nil, mayfly.Errorf(mayfly.Unsupported, "step %s is not done by this node", step)
		}
	}
	failed, err := w.call(ctx, act, items, now)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if walk.IsAway(err) || walk.IsDown(err) {
		return nil, err
	}
	if err != nil {
		if failed, err = w.oneByOne(ctx, step, act, items, now); err != nil {
			return nil, err
		}
	} else {
		delete(w.trouble, step)
	}
	failures := make([]failure, len(failed))
	for i, f := range failed {
		failures[i] = failure{by[f.Item.ID], f.Err}
	}
	return failures, nil
}

// oneByOne tries each item alone.
func (w *Walker) oneByOne(ctx context.Context, step Step, act walk.Act, items []mayfly.Item, now mayfly.Instant) (failed []walk.Failure, err error) {
	for _, item := range items {
		failures, err := w.call(ctx, act, []mayfly.Item{item}, now)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if walk.IsAway(err) || walk.IsDown(err) {
			return nil, err
		}
		if w.isDown(step, item.ID, err) {
			return nil, walk.Down(fmt.Errorf("more than one item fails: %w", err))
		}
		if err != nil {
			failures = []walk.Failure{{Item: item, Err: err}}
		}
		failed = append(failed, failures...)
	}
	return failed, nil
}

// isDown reports whether a step failed for an item because a store is down. One
// item that fails with Unavailable may have a problem of its own; a second one
// after it has not, nor has one that used up its time waiting for a store.
func (w *Walker) isDown(step Step, id mayfly.ID, err error) bool {
	if !errors.Is(err, mayfly.Unavailable) {
		delete(w.trouble, step)
		return false
	}
	t, known := w.trouble[step]
	if !known {
		t.first = id
	}
	t.away = t.away || t.first != id || errors.Is(err, context.DeadlineExceeded)
	w.trouble[step] = t
	return t.away
}

func (w *Walker) call(ctx context.Context, act walk.Act, items []mayfly.Item, now mayfly.Instant) (failures []walk.Failure, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	took := loop.Measure(func() { failures, err = act(ctx, walk.Batch{Items: items, Now: now, Repeat: true}) })
	if err != nil {
		return nil, fmt.Errorf("after %s: %w", took.Round(time.Millisecond), err)
	}
	return failures, nil
}

// rows reads the items of reminders, each once. For an item that does not exist any
// more there is nothing to do.
func (w *Walker) rows(ctx context.Context, reminders []Reminder) ([]mayfly.Item, map[mayfly.ID]Reminder, error) {
	by := make(map[mayfly.ID]Reminder, len(reminders))
	var ids []mayfly.ID
	for _, r := range reminders {
		if old, twice := by[r.ID]; twice && old.Tries >= r.Tries {
			continue
		} else if !twice {
			ids = append(ids, r.ID)
		}
		by[r.ID] = r
	}
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	found, err := w.set.Ledger.Get(ctx, ids...)
	if err != nil {
		return nil, nil, err
	}
	var items []mayfly.Item
	for _, f := range found {
		if f.Found {
			items = append(items, f.Item)
		}
	}
	return items, by, nil
}

// Budget bounds retries to a tenth of the work that is done for the first time
// (L10). A nil Budget is no bound. Safe for concurrent use.
type Budget struct{ tenths atomic.Int64 }

// maxBudget is how many retries a budget holds at most, and at the start: an idle
// node can still retry.
const maxBudget = 1_000

// NewBudget returns a full budget.
func NewBudget() *Budget {
	b := &Budget{}
	b.tenths.Store(10 * maxBudget)
	return b
}

// Earn adds one retry for every ten items that were done.
func (b *Budget) Earn(items int) {
	if b == nil {
		return
	}
	if sum := b.tenths.Add(int64(items)); sum > 10*maxBudget {
		b.tenths.CompareAndSwap(sum, 10*maxBudget)
	}
}

// spend takes a retry out of the budget and reports whether there was one.
func (b *Budget) spend() bool {
	if b == nil {
		return true
	}
	for {
		sum := b.tenths.Load()
		if sum < 10 {
			return false
		}
		if b.tenths.CompareAndSwap(sum, sum-10) {
			return true
		}
	}
}
