package remind

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Name is the name of the walk over reminders, and SlowName that over those of slow
// steps.
const (
	Name     = "remind"
	SlowName = "remind-slow"
)

// Options are the settings of a Walker.
type Options struct {
	Settle  time.Duration          // how far the walk stays behind now, so that no slow write slips behind it; default mayfly.DefaultSettle
	Page    int                    // reminders read and acted on at once; default 100
	Timeout time.Duration          // of one act; default 30 s
	Slow    map[Step]time.Duration // timeouts of steps that take longer: they are walked apart, so that no other step waits behind them
	Tries   uint32                 // failures after which a step becomes a dead letter; default mayfly.DefaultTries
	After   time.Duration          // the first pause after a failure; it doubles with each, up to Longest; default mayfly.DefaultRemindAfter
	Longest time.Duration          // the longest pause; default mayfly.DefaultLongestPause
	Budget  *Budget                // of retries; default no limit
	Kept    time.Duration          // how far behind the watermark finished reminders are kept for inspection; default 30 days
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

// Walker does the steps that the reminders of one shard ask for, in lanes.
type Walker struct {
	set   store.Set
	shard *walk.Shard
	lanes []*Lane

	kept    time.Duration
	timeout time.Duration
	dropped walk.Watermark // up to where finished reminders were dropped
	tenure  uint64         // in which dropped was read
}

// Lane does some of the steps: it is a walk.Walker over the rows of the reminders,
// which come due as items do, with a watermark of its own. One goroutine calls Pass.
type Lane struct {
	owner   *Walker
	name    string
	acts    Acts
	o       Options // with the timeout and the page of the lane
	walker  *walk.Walker
	trouble map[Step]trouble
	down    map[Step]error // the steps that an unavailable store prevents in this pass
}

// trouble holds the items for which a step failed as if a store were down, and
// whether it was done for another item since: then the trouble is the item's own.
// The zero id stands for a store that did not answer in time.
type trouble map[mayfly.ID]bool

// maxTrouble bounds how many items a trouble holds.
const maxTrouble = 1_000

// slowPage is how many reminders of slow steps are acted on at once.
const slowPage = 10

// New returns the Walker of a shard's reminders. Errors: Invalid.
func New(set store.Set, shard *walk.Shard, acts Acts, o Options) (*Walker, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Walker{set: set, shard: shard, kept: o.Kept, timeout: o.Timeout}
	quick := &Lane{name: Name, o: o}
	w.lanes = []*Lane{quick}
	if len(o.Slow) > 0 {
		slow := &Lane{name: SlowName, o: o}
		slow.o.Page, slow.o.Timeout = min(o.Page, slowPage), slices.Max(slices.Collect(maps.Values(o.Slow)))
		w.lanes = append(w.lanes, slow)
	}
	for _, l := range w.lanes {
		l.owner, l.acts, l.trouble = w, acts, map[Step]trouble{}
		l.walker, err = walk.New(set, walk.Walk{
			Name: l.name, Offset: o.Settle, Over: &walk.Rows{Table: Reminders, Partition: Partition},
			// Each step of a page may time out three times: for the batch, for items that fail alone, and for the last of these.
			Limit: time.Duration(3*len(Steps())+1) * l.o.Timeout,
			Act:   l.act, Park: park,
		}, shard, walk.Options{
			Holder: l.name, Settle: o.Settle, Page: l.o.Page, Batch: l.o.Page, Timeout: o.Timeout, RemindAfter: o.After,
			Unpaced: true, // reminders are few, and callers wait for some of them
		})
		if err != nil {
			return nil, err
		}
	}
	return w, nil
}

// owns reports whether the lane does a step.
func (l *Lane) owns(step Step) bool {
	_, slow := l.o.Slow[step]
	return slow == (l.name == SlowName)
}

// Lanes returns the lanes, which may be passed at the same time.
func (w *Walker) Lanes() []*Lane { return w.lanes }

// Pass passes the lanes one after the other. More and the error are those of any.
func (w *Walker) Pass(ctx context.Context, now mayfly.Instant) (more bool, err error) {
	for _, l := range w.lanes {
		again, laneErr := l.Pass(ctx, now)
		more, err = more || again, errors.Join(err, laneErr)
	}
	return more && err == nil, err
}

// Name returns the name of the lane's walk.
func (l *Lane) Name() string { return l.name }

// Progress returns how far the lane is.
func (l *Lane) Progress() walk.Progress { return l.walker.Progress() }

// Pass does what is due at now, or as much of it as one pass does; more says that
// there is more. After an error the watermark is behind everything that is not
// done.
func (l *Lane) Pass(ctx context.Context, now mayfly.Instant) (more bool, err error) {
	l.down = map[Step]error{}
	more, err = l.walker.Pass(ctx, now)
	if _, tenure := l.walker.Watermark(); tenure != 0 && l.name == Name {
		l.o.Budget.Earn(1) // an idle node may still retry, slowly
		if err == nil {
			err = l.owner.drop(ctx)
		}
	}
	for step, down := range l.down { // it did not block the others; the caller reports it
		if err == nil {
			err = fmt.Errorf("step %s waits: %w", step, down)
		}
	}
	if err != nil {
		return false, fmt.Errorf("%s: shard %d: %w", l.name, l.owner.shard.Number(), err)
	}
	return more, nil
}

// act handles a batch of reminders. A store that fails it would fail a smaller
// batch too.
func (l *Lane) act(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
	err := l.handle(ctx, b.Rows, b.Now)
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

// handle does the steps of the lane that a page asks for. What could not be done is
// written again in a later minute, or becomes a dead letter, before the watermark
// passes it.
func (l *Lane) handle(ctx context.Context, page []store.Row, now mayfly.Instant) error {
	groups := map[Step][]group{}
	for _, row := range page {
		r, err := Read(row)
		switch {
		case !l.owns(r.Step):
		case err != nil && r.ID.IsZero():
			return err // its key does not even name an item
		case err != nil:
			if err := bury(ctx, l.owner.set.Rows, r.failed(now, err), now); err != nil {
				return err
			}
		case r.Span.Minute != 0:
			g, err := l.expand(ctx, r)
			if err != nil {
				return err
			}
			groups[r.Step] = append(groups[r.Step], g)
		default:
			all := groups[r.Step]
			if n := len(all); n == 0 || all[n-1].expanded || all[n-1].waits != r.Waits {
				all = append(all, group{waits: r.Waits})
			}
			last := &all[len(all)-1]
			last.reminders = append(last.reminders, r)
			groups[r.Step] = all
		}
	}
	var later store.Batch
	for _, step := range slices.Sorted(maps.Keys(groups)) {
		for _, g := range groups[step] {
			if err := l.handleGroup(ctx, &later, step, g, now); err != nil {
				return err
			}
		}
	}
	if len(later.Stages()) == 0 {
		return nil
	}
	return l.owner.set.Writer.Commit(ctx, &later)
}

// group is a run of reminders of one minute and one step that have waited alike.
type group struct {
	reminders []Reminder // as they are stored
	waits     mayfly.Instant
	expanded  bool // it is what a span stands for, of an earlier minute
}

// expand reads the reminders that a span stands for.
func (l *Lane) expand(ctx context.Context, span Reminder) (group, error) {
	g := group{waits: span.Waits, expanded: true}
	next := store.Range{Partition: Partition(span.Span.Minute, l.owner.shard.Number()), From: span.Span.From, To: span.Span.To + "\x00", Limit: 1_000}
	for {
		page, err := l.owner.set.Rows.Range(ctx, Reminders, next)
		if err != nil {
			return g, fmt.Errorf("read reminders that were put off: %w", err)
		}
		for _, row := range page {
			r, err := Read(row)
			// One that cannot be read became a dead letter when it was due, and a span has been put off on its own.
			if err == nil && r.Step == span.Step && r.Span.Minute == 0 && (r.Tries > 0 || !span.Span.Retries) {
				g.reminders = append(g.reminders, r)
			}
		}
		if len(page) < next.Limit {
			return g, nil
		}
		next.From = page[len(page)-1].Clustering + "\x00"
	}
}

// handleGroup does the step for a group. Retries over the budget are put off, and
// all of it if what the step needs is unavailable: then no try is counted, and the
// other steps go on (L8, L10).
func (l *Lane) handleGroup(ctx context.Context, later *store.Batch, step Step, g group, now mayfly.Instant) error {
	var may, over []Reminder
	for _, r := range g.reminders {
		if r.Tries > 0 && (len(over) > 0 || !l.o.Budget.spend()) {
			over = append(over, r)
		} else {
			may = append(may, r)
		}
	}
	var failures []failure
	err := l.down[step]
	if err == nil && len(may) > 0 {
		failures, err = l.do(ctx, step, may, now)
	}
	if walk.IsDown(err) {
		l.down[step] = err
	}
	if walk.IsDown(err) || walk.IsAway(err) {
		l.putOff(later, g.reminders, g.waits, false, now)
		return nil
	}
	if err != nil {
		return err
	}
	l.putOff(later, over, g.waits, true, now)
	for _, f := range failures {
		if err := l.retry(ctx, later, f, now); err != nil {
			return err
		}
	}
	return nil
}

// failure is a reminder whose step failed.
type failure struct {
	Reminder
	err error
}

// retry adds a reminder that failed to later, or makes a dead letter of it after
// its last try.
func (l *Lane) retry(ctx context.Context, later *store.Batch, f failure, now mayfly.Instant) error {
	r := f.failed(now, f.err)
	if r.Tries >= l.o.Tries {
		return bury(ctx, l.owner.set.Rows, r, now)
	}
	r.Due = now.Add(backoff(r.Tries, l.o.After, l.o.Longest, rand.Float64()))
	Write(later, r)
	return nil
}

// longestWait is the longest pause of a reminder that a user may wait for.
const longestWait = 20 * time.Minute

// putOff writes reminders of one minute and step for later: one row for all of them,
// which stay where they are, unless they would be dropped before it is due.
func (l *Lane) putOff(later *store.Batch, reminders []Reminder, waits mayfly.Instant, retries bool, now mayfly.Instant) {
	if len(reminders) == 0 {
		return
	}
	waits = cmp.Or(waits, now)
	first, last := reminders[0], reminders[len(reminders)-1]
	due := now.Add(l.wait(first.Step, now.Sub(waits), rand.Float64()))
	minute := first.Due.Minute()
	if len(reminders) > 1 && minute.Start() > due.Add(-l.o.Kept) {
		Write(later, Reminder{
			Due: due, ID: first.ID, Step: first.Step, Reason: fmt.Sprintf("%d reminders were put off", len(reminders)), Waits: waits,
			Span: Span{Minute: minute, From: first.key().Clustering, To: last.key().Clustering, Retries: retries},
		})
		return
	}
	for _, r := range reminders {
		r.Due, r.Waits = due, waits
		Write(later, r)
	}
}

// wait returns for how long reminders are put off that have waited for lasted: as
// long again, up to Longest, less up to a quarter by dice in [0, 1), so that few
// rows are written for an outage of any length (I17). Steps other than Announce are
// few, and a user may wait for them (ST5).
func (l *Lane) wait(step Step, lasted time.Duration, dice float64) time.Duration {
	longest := l.o.Longest
	if step != Announce {
		longest = min(longest, longestWait)
	}
	return max(l.o.After, time.Duration(float64(min(lasted, longest))*(1-dice/4)))
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
func (l *Lane) do(ctx context.Context, step Step, reminders []Reminder, now mayfly.Instant) ([]failure, error) {
	items, by, err := l.rows(ctx, reminders)
	if err != nil || len(items) == 0 {
		return nil, err
	}
	act := l.acts[step]
	if act == nil {
		act = func(context.Context, walk.Batch) ([]walk.Failure, error) {
			return nil, mayfly.Errorf(mayfly.Unsupported, "step %s is not done by this node", step)
		}
	}
	failed, err := l.call(ctx, act, items, now)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if walk.IsAway(err) || walk.IsDown(err) {
		return nil, err
	}
	if err != nil {
		if failed, err = l.oneByOne(ctx, step, act, items, now); err != nil {
			return nil, err
		}
	} else {
		l.answers(step)
	}
	failures := make([]failure, len(failed))
	for i, f := range failed {
		failures[i] = failure{by[f.Item.ID], f.Err}
	}
	return failures, nil
}

// oneByOne tries each item alone. One that fails with Unavailable has a problem of its
// own if the step is done for another one, or if it is the only one that ever failed;
// else a store is down, as it is for an item that used up its time waiting (L10).
func (l *Lane) oneByOne(ctx context.Context, step Step, act walk.Act, items []mayfly.Item, now mayfly.Instant) (failed []walk.Failure, err error) {
	if l.trouble[step] == nil || len(l.trouble[step]) > maxTrouble {
		l.trouble[step] = trouble{}
	}
	t, answered := l.trouble[step], false
	var down error
	var took time.Duration
	for _, item := range items {
		var failures []walk.Failure
		var err error
		took += loop.Measure(func() { failures, err = l.call(ctx, act, []mayfly.Item{item}, now) })
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if walk.IsAway(err) || walk.IsDown(err) {
			return nil, err
		}
		if err != nil {
			failures = []walk.Failure{{Item: item, Err: err}}
		}
		failed = append(failed, failures...)
		switch {
		case !errors.Is(err, mayfly.Unavailable):
			answered = true
		case errors.Is(err, context.DeadlineExceeded), !answered && took > l.o.Timeout:
			t[mayfly.ID{}] = false
			return nil, walk.Down(err)
		case !t[item.ID]:
			t[item.ID], down = false, err
		}
	}
	switch {
	case answered:
		l.answers(step)
	case down != nil && t.unexplained() > 1:
		return nil, walk.Down(fmt.Errorf("more than one item fails: %w", down))
	}
	return failed, nil
}

// answers notes that a step was done for an item: what has failed before is not down.
func (l *Lane) answers(step Step) {
	t := l.trouble[step]
	delete(t, mayfly.ID{})
	for id := range t {
		t[id] = true
	}
}

// unexplained returns for how many items a step failed and was not done since.
func (t trouble) unexplained() (n int) {
	for _, own := range t {
		if !own {
			n++
		}
	}
	return n
}

func (l *Lane) call(ctx context.Context, act walk.Act, items []mayfly.Item, now mayfly.Instant) (failures []walk.Failure, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.o.Timeout)
	defer cancel()
	took := loop.Measure(func() { failures, err = act(ctx, walk.Batch{Items: items, Now: now, Repeat: true}) })
	if err != nil {
		return nil, fmt.Errorf("after %s: %w", took.Round(time.Millisecond), err)
	}
	return failures, nil
}

// rows reads the items of reminders, each once. For an item that does not exist any
// more there is nothing to do.
func (l *Lane) rows(ctx context.Context, reminders []Reminder) ([]mayfly.Item, map[mayfly.ID]Reminder, error) {
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
	ctx, cancel := context.WithTimeout(ctx, l.o.Timeout)
	defer cancel()
	found, err := l.owner.set.Ledger.Get(ctx, ids...)
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
