package remind

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Name is the reminders' name among the walks.
const Name = "remind"

// Options are the settings of the reminders' walk.
type Options struct {
	Settle  time.Duration // how far it stays behind now, so that a slow write cannot slip behind it; default 15 s
	Page    int           // reminders read at once; default 100
	Timeout time.Duration // of one act; default 30 s
	Tries   uint32        // after so many a step is given up; default 10
	After   time.Duration // the first pause after a failure; it doubles with each, up to Longest; default 2 min
	Longest time.Duration // the longest pause; default 6 h
	Budget  *Budget       // of retries; default without limit
	Kept    time.Duration // how far behind the watermark finished reminders stay, to be looked at; default 30 days
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

// Acts says what does each step, for rows that have just been read.
type Acts map[Step]walk.Act

// Walker walks the reminders of one shard behind a watermark of its own. One
// goroutine calls Pass.
type Walker struct {
	set   store.Set
	shard *walk.Shard
	acts  Acts
	o     Options

	tenure uint64
	mark   walk.Watermark
	done   mayfly.Instant

	dropped walk.Watermark // up to where finished reminders are gone
	trouble map[Step]trouble
	down    map[Step]error // in this pass: the steps that a store keeps from being done
}

// trouble is what is known of a step since it last went well: the first item that
// failed as if a store were away, and whether it was not the only one.
type trouble struct {
	first mayfly.ID
	away  bool
}

// New is the walker of a shard's reminders.
func New(set store.Set, shard *walk.Shard, acts Acts, o Options) (*Walker, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Walker{set: set, shard: shard, acts: acts, o: o, trouble: map[Step]trouble{}}, nil
}

// A pass is cut short after so much, so that its now stays fresh and its lease
// alive.
const (
	passPages   = 20
	passMinutes = 1_000
	idleSave    = 10 * time.Second
)

// Pass does what is due at now, or as much of it as one pass does; more says
// that there is more. An error leaves the watermark behind whatever is not done.
func (w *Walker) Pass(ctx context.Context, now mayfly.Instant) (more bool, err error) {
	held, err := w.hold(ctx, now)
	if err != nil || !held {
		return false, err
	}
	w.o.Budget.Earn(1) // a node with nothing to do may still try again, slowly
	w.down = map[Step]error{}
	target, pages := now.Add(-w.o.Settle), 0
	touched := false
	for minute, n := (w.done + 1).Minute(), 0; w.done < target && minute <= target.Minute(); minute, n = minute+1, n+1 {
		if more = pages >= passPages || n >= passMinutes; more {
			break
		}
		to := min(target, (minute+1).Start()-1)
		var did int
		if did, err = w.walkMinute(ctx, minute, to, now); err != nil {
			break
		}
		pages += did
		touched = touched || did > 0
		w.done = to
	}
	if saved := w.save(ctx, touched); err == nil {
		err = saved
	}
	if err == nil {
		err = w.drop(ctx)
	}
	for step, down := range w.down { // it held up nobody else, and somebody hears of it
		if err == nil {
			err = fmt.Errorf("step %s waits: %w", step, down)
		}
	}
	if err != nil {
		return false, fmt.Errorf("remind: shard %d: %w", w.shard.Number(), err)
	}
	return more, nil
}

func (w *Walker) hold(ctx context.Context, now mayfly.Instant) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	tenure, held, err := w.shard.Hold(ctx, now)
	if err != nil || !held {
		w.tenure = 0
		return false, err
	}
	if tenure == w.tenure {
		return true, nil
	}
	if err := w.load(ctx); err != nil {
		return false, err
	}
	w.tenure, w.done = tenure, w.mark.At
	return true, nil
}

func (w *Walker) save(ctx context.Context, touched bool) error {
	if w.done <= w.mark.At || !touched && w.done.Sub(w.mark.At) < idleSave {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	if err := w.mark.Move(ctx, w.set.Rows, w.done, 0); err != nil {
		w.tenure = 0
		return err
	}
	return nil
}

func (w *Walker) walkMinute(ctx context.Context, minute mayfly.Minute, to, now mayfly.Instant) (pages int, err error) {
	r := store.Range{Partition: Partition(minute, w.shard.Number()), Limit: w.o.Page}
	r.From = string(binary.BigEndian.AppendUint64(nil, uint64(w.done+1)))
	r.To = string(binary.BigEndian.AppendUint64(nil, uint64(to+1)))
	for {
		page, err := w.read(ctx, r)
		if err != nil || len(page) == 0 {
			return pages, err
		}
		pages++
		if err := w.handle(ctx, page, now); err != nil {
			return pages, err
		}
		if len(page) < w.o.Page {
			return pages, nil
		}
		r.From = page[len(page)-1].Clustering + "\x00"
	}
}

func (w *Walker) read(ctx context.Context, r store.Range) ([]store.Row, error) {
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	return w.set.Rows.Range(ctx, store.Reminders, r)
}

// handle does what a page reminds of. What could not be done is written again in
// a later minute, or buried, before the watermark may pass it.
func (w *Walker) handle(ctx context.Context, page []store.Row, now mayfly.Instant) error {
	var later store.Batch
	bySteps := map[Step][]Reminder{}
	var order []Step
	for _, row := range page {
		r, err := Read(row)
		switch {
		case err != nil && r.ID.IsZero():
			return err // not even its item can be told
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
		if walk.IsDown(err) || walk.IsAway(err) { // a store or the log is: no try is counted, and nobody else waits for it (L8, L10)
			for _, r := range bySteps[step] {
				Write(&later, w.putOff(r, now, rand.Float64()))
			}
			continue
		}
		if err != nil {
			return err
		}
		for _, f := range failures {
			if err := w.again(ctx, &later, f, now); err != nil {
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

// again writes a reminder that failed for later, or buries it after its last try.
func (w *Walker) again(ctx context.Context, later *store.Batch, f failure, now mayfly.Instant) error {
	r := f.failed(now, f.err)
	if r.Tries >= w.o.Tries {
		return bury(ctx, w.set.Rows, r, now)
	}
	r.Due = now.Add(backoff(r.Tries, w.o.After, w.o.Longest, rand.Float64()))
	Write(later, r)
	return nil
}

const longestWait = 20 * time.Minute

// putOff is the reminder for later, because what its step needs is away. The pause
// is as long as that has lasted, up to Longest, less up to a quarter by dice in
// [0, 1): however long it lasts, few are written for it (I17). Other steps than
// Announce are few, and somebody may wait for them (ST5).
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

// backoff is the pause after the n-th failure: it doubles from after on, up to
// longest, and is spread over a half above and below by dice in [0, 1); never
// shorter than after.
func backoff(n uint32, after, longest time.Duration, dice float64) time.Duration {
	d := after
	for i := uint32(1); i < n && d < longest; i++ {
		d *= 2
	}
	return max(after, time.Duration(float64(min(d, longest))*(0.5+dice)))
}

// do does one step for the items of reminders. A batch that fails is tried again
// one by one. What is away, the log or a store, is answered as that, and no try is
// counted.
func (w *Walker) do(ctx context.Context, step Step, reminders []Reminder, now mayfly.Instant) ([]failure, error) {
	items, by, err := w.rows(ctx, reminders)
	if err != nil || len(items) == 0 {
		return nil, err
	}
	act := w.acts[step]
	if act == nil {
		act = func(context.Context, walk.Batch) ([]walk.Failure, error) {
			return nil, mayfly.Errorf(mayfly.Unsupported, "no step %s is done here", step)
		}
	}
	failed, err := w.act(ctx, act, items, now)
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
		failures, err := w.act(ctx, act, []mayfly.Item{item}, now)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if walk.IsAway(err) || walk.IsDown(err) {
			return nil, err
		}
		if w.isDown(step, item.ID, err) {
			return nil, walk.Down(fmt.Errorf("it is not the items: %w", err))
		}
		if err != nil {
			failures = []walk.Failure{{Item: item, Err: err}}
		}
		failed = append(failed, failures...)
	}
	return failed, nil
}

// isDown says whether a step failed for an item because a store is down. One that
// fails as Unavailable may be in trouble of its own; one behind another is not, nor
// is one that waited for a store all of its time.
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

func (w *Walker) act(ctx context.Context, act walk.Act, items []mayfly.Item, now mayfly.Instant) (failures []walk.Failure, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	took := loop.Measure(func() { failures, err = act(ctx, walk.Batch{Items: items, Now: now, Repeat: true}) })
	if err != nil {
		return nil, fmt.Errorf("after %s: %w", took.Round(time.Millisecond), err)
	}
	return failures, nil
}

// rows reads the items of reminders, each once; one that is not there has
// nothing to be done for.
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
