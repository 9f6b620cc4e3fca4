package remind_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

const shard mayfly.Shard = 5

// env is a store with one shard of reminders, and acts that record what they did.
type env struct {
	*fixture.Engine
	done  map[remind.Step][]mayfly.ID
	sizes []int
	fail  func(remind.Step, walk.Batch) ([]walk.Failure, error)
}

func open(t *testing.T) *env {
	t.Helper()
	return &env{Engine: fixture.Open(t), done: map[remind.Step][]mayfly.ID{}}
}

func (h *env) acts(steps ...remind.Step) remind.Acts {
	acts := remind.Acts{}
	for _, step := range steps {
		acts[step] = func(_ context.Context, b walk.Batch) ([]walk.Failure, error) {
			h.sizes = append(h.sizes, len(b.Items))
			if !b.Repeat {
				h.Error("a reminder's act is always a repeat")
			}
			if h.fail != nil {
				if failures, err := h.fail(step, b); err != nil || failures != nil {
					return failures, err
				}
			}
			for _, item := range b.Items {
				h.done[step] = append(h.done[step], item.ID)
			}
			return nil, nil
		}
	}
	return acts
}

func (h *env) walker(o remind.Options, steps ...remind.Step) *remind.Walker {
	h.Helper()
	if len(steps) == 0 {
		steps = remind.Steps()
	}
	w, err := remind.New(h.Set, walk.NewShard(h.Set.Rows, shard, "one", 5*time.Second, now.Add(-time.Minute)), h.acts(steps...), o)
	if err != nil {
		h.Fatal(err)
	}
	return w
}

// item inserts an item into the shard.
func (h *env) item() mayfly.ID { return h.Insert(now.Add(24*time.Hour), mayfly.Archive).ID }

func (h *env) remind(rs ...remind.Reminder) {
	h.Helper()
	var b store.Batch
	for _, r := range rs {
		remind.Write(&b, r)
	}
	h.Must(h.Set.Writer.Commit(context.Background(), &b))
}

func (h *env) pass(w *remind.Walker, at mayfly.Instant) {
	h.Helper()
	for more := true; more; {
		var err error
		if more, err = w.Pass(context.Background(), at); err != nil {
			h.Fatal(err)
		}
	}
}

func (h *env) dead() []remind.Dead {
	h.Helper()
	all, err := remind.DeadLetters(context.Background(), h.Set.Rows, shard, remind.Dead{}, 1000)
	if err != nil {
		h.Fatal(err)
	}
	return all
}

const (
	settle = 15 * time.Second
	soon   = 2 * time.Minute
)

func TestAReminderIsDoneOnceWhenItIsDue(t *testing.T) {
	h := open(t)
	w := h.walker(remind.Options{})
	a, b := h.item(), h.item()
	h.remind(
		remind.Reminder{Due: now.Add(soon), ID: a, Step: remind.Erase},
		remind.Reminder{Due: now.Add(soon), ID: a, Step: remind.Tidy},
		remind.Reminder{Due: now.Add(soon).Add(time.Minute), ID: b, Step: remind.Erase},
		remind.Reminder{Due: now.Add(soon), ID: newID(t, 1<<40|uint64(shard)), Step: remind.Erase}, // an item that is not there
	)
	h.pass(w, now.Add(soon+settle)-1)
	if len(h.done) > 0 {
		t.Fatalf("done before it was due: %v", h.done)
	}
	for range 3 {
		h.pass(w, now.Add(soon+settle))
	}
	if !slices.Equal(h.done[remind.Erase], []mayfly.ID{a}) || !slices.Equal(h.done[remind.Tidy], []mayfly.ID{a}) {
		t.Fatalf("%v", h.done)
	}
	h.pass(h.walker(remind.Options{}), now.Add(time.Hour)) // another tenure, from the watermark
	if !slices.Equal(h.done[remind.Erase], []mayfly.ID{a, b}) || len(h.done[remind.Tidy]) != 1 {
		t.Errorf("%v", h.done)
	}
}

func TestManyRemindersAreReadInPages(t *testing.T) {
	h := open(t)
	var all []remind.Reminder
	for i := range 95 {
		due := now.Add(soon).Add(time.Duration(i%5) * 20 * time.Second)
		all = append(all, remind.Reminder{Due: due, ID: h.item(), Step: remind.Expire})
	}
	h.remind(all...)
	h.pass(h.walker(remind.Options{Page: 7}), now.Add(time.Hour))
	if len(h.done[remind.Expire]) != 95 || slices.Max(h.sizes) > 7 {
		t.Errorf("%d done, in batches of %v", len(h.done[remind.Expire]), h.sizes)
	}
}

// dieAfter lets a number of writes pass and fails all others. It returns how many are
// left.
func (h *env) dieAfter(writes int) *int {
	left := writes
	dead := func() error {
		if left--; left < 0 {
			return mayfly.Errorf(mayfly.Unavailable, "gone")
		}
		return nil
	}
	h.Hooks.Commit = func(_ context.Context, _ *store.Batch, do func() error) error {
		if err := dead(); err != nil {
			return err
		}
		return do()
	}
	h.Hooks.Swap = func(_ context.Context, _ store.Table, _ store.Key, do fixture.Swap) (bool, []byte, error) {
		if err := dead(); err != nil {
			return false, nil, err
		}
		return do()
	}
	return &left
}

// An unfinished reminder is written again in a later minute before the watermark
// moves: a crash at any write loses none.
func TestNoReminderIsLostWhereverTheWriterStops(t *testing.T) {
	for stop := range 12 {
		h := open(t)
		ids := []mayfly.ID{h.item(), h.item(), h.item()}
		for _, id := range ids {
			h.remind(remind.Reminder{Due: now.Add(soon), ID: id, Step: remind.Archive})
		}
		bad := map[mayfly.ID]int{ids[1]: 2}
		h.fail = func(_ remind.Step, b walk.Batch) (failures []walk.Failure, err error) {
			for _, item := range b.Items {
				if bad[item.ID] > 0 {
					bad[item.ID]--
					failures = append(failures, walk.Failure{Item: item, Err: errors.New("not now")})
				} else {
					h.done[remind.Archive] = append(h.done[remind.Archive], item.ID)
				}
			}
			return failures, nil
		}
		h.dieAfter(stop)
		w := h.walker(remind.Options{})
		for at := now.Add(soon); at < now.Add(20*time.Minute); at = at.Add(30 * time.Second) {
			if _, err := w.Pass(t.Context(), at); err != nil {
				break
			}
		}
		h.Set = h.Real // the process starts again
		w = h.walker(remind.Options{})
		for at := now.Add(soon); at < now.Add(time.Hour); at = at.Add(30 * time.Second) {
			h.pass(w, at)
		}
		for _, id := range ids {
			if !slices.Contains(h.done[remind.Archive], id) {
				t.Errorf("stopped at write %d: %s was forgotten", stop, id)
			}
		}
	}
}

func TestAFailingStepIsRetriedWithGrowingPausesAndThenADeadLetter(t *testing.T) {
	h := open(t)
	id, healthy := h.item(), h.item()
	h.remind(
		remind.Reminder{Due: now.Add(soon), ID: id, Step: remind.Archive, Reason: "cold was away"},
		remind.Reminder{Due: now.Add(soon), ID: healthy, Step: remind.Archive},
	)
	var tries []mayfly.Instant
	at := now
	h.fail = func(_ remind.Step, b walk.Batch) (failures []walk.Failure, err error) {
		for _, item := range b.Items {
			if item.ID == id {
				tries = append(tries, at)
				failures = append(failures, walk.Failure{Item: item, Err: fmt.Errorf("try %d", len(tries))})
			} else {
				h.done[remind.Archive] = append(h.done[remind.Archive], item.ID)
			}
		}
		return failures, nil
	}
	w := h.walker(remind.Options{Tries: 6, After: time.Minute, Longest: 8 * time.Minute})
	for ; at < now.Add(3*time.Hour); at = at.Add(10 * time.Second) {
		h.pass(w, at)
	}
	if len(tries) != 6 || !slices.Equal(h.done[remind.Archive], []mayfly.ID{healthy}) {
		t.Fatalf("%d tries, done %v", len(tries), h.done)
	}
	for i := 1; i < len(tries); i++ {
		want := min(8*time.Minute, time.Minute<<(i-1))
		if gap := tries[i].Sub(tries[i-1]); gap < max(time.Minute, want/2) || gap > want*3/2+settle+10*time.Second {
			t.Errorf("between tries %d and %d: %s, want about %s", i, i+1, gap, want)
		}
	}
	dead := h.dead()
	if len(dead) != 1 || dead[0].ID != id || dead[0].Step != remind.Archive || dead[0].Tries != 6 || dead[0].Reason != "cold was away" ||
		len(dead[0].History) != 6 || dead[0].History[5].Reason != "try 6" || dead[0].History[0].At != tries[0] {
		t.Fatalf("%+v", dead)
	}
	one, err := remind.DeadLetter(t.Context(), h.Set.Rows, id, remind.Archive)
	if err != nil || one.Since != dead[0].Since {
		t.Errorf("%+v, %v", one, err)
	}
}

func TestADeadLetterIsTriedAgainOrDropped(t *testing.T) {
	h := open(t)
	a, b := h.item(), h.item()
	h.remind(remind.Reminder{Due: now.Add(soon), ID: a, Step: remind.Erase}, remind.Reminder{Due: now.Add(soon), ID: b, Step: remind.Erase})
	h.fail = func(_ remind.Step, b walk.Batch) (failures []walk.Failure, err error) {
		for _, item := range b.Items {
			failures = append(failures, walk.Failure{Item: item, Err: errors.New("broken")})
		}
		return failures, nil
	}
	w := h.walker(remind.Options{Tries: 1})
	at := now.Add(10 * time.Minute)
	h.pass(w, at)
	if len(h.dead()) != 2 {
		t.Fatalf("%+v", h.dead())
	}
	if err := remind.Retry(t.Context(), h.Set, a, remind.Erase, at.Add(soon)); err != nil {
		t.Fatal(err)
	}
	if err := remind.Drop(t.Context(), h.Set.Rows, b, remind.Erase); err != nil {
		t.Fatal(err)
	}
	for _, id := range []mayfly.ID{a, b} {
		if err := remind.Drop(t.Context(), h.Set.Rows, id, remind.Erase); !errors.Is(err, mayfly.NotFound) {
			t.Errorf("dropped twice: %v", err)
		}
		if err := remind.Retry(t.Context(), h.Set, id, remind.Erase, at.Add(soon)); !errors.Is(err, mayfly.NotFound) {
			t.Errorf("tried again twice: %v", err)
		}
	}
	h.fail = nil
	h.pass(w, at.Add(10*time.Minute))
	if !slices.Equal(h.done[remind.Erase], []mayfly.ID{a}) || len(h.dead()) != 0 {
		t.Errorf("done %v, dead %+v", h.done, h.dead())
	}
}

// One poison item among many costs its own tries only.
func TestABatchThatFailsIsTriedOneByOne(t *testing.T) {
	h := open(t)
	var ids []mayfly.ID
	for range 20 {
		ids = append(ids, h.item())
		h.remind(remind.Reminder{Due: now.Add(soon), ID: ids[len(ids)-1], Step: remind.Expire})
	}
	h.fail = func(_ remind.Step, b walk.Batch) ([]walk.Failure, error) {
		if slices.ContainsFunc(b.Items, func(item mayfly.Item) bool { return item.ID == ids[7] }) {
			return nil, errors.New("poison")
		}
		return nil, nil
	}
	h.pass(h.walker(remind.Options{Tries: 1}), now.Add(time.Hour))
	if len(h.done[remind.Expire]) != 19 || len(h.dead()) != 1 || h.dead()[0].ID != ids[7] {
		t.Errorf("%d done, dead %+v", len(h.done[remind.Expire]), h.dead())
	}
}

// An outage is not the fault of an item: no try is counted, and all items are
// done when it is over.
func TestAnOutageCountsNoTries(t *testing.T) {
	h := open(t)
	for range 20 {
		h.remind(remind.Reminder{Due: now.Add(soon), ID: h.item(), Step: remind.Expire})
	}
	h.fail = func(remind.Step, walk.Batch) ([]walk.Failure, error) {
		return nil, mayfly.Errorf(mayfly.Unavailable, "away")
	}
	w := h.walker(remind.Options{Tries: 1})
	began, heard := now.Add(time.Hour), 0
	for at := began; at < began.Add(time.Hour); at = at.Add(time.Minute) {
		if _, err := w.Pass(t.Context(), at); errors.Is(err, mayfly.Unavailable) {
			heard++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if heard < 3 {
		t.Errorf("it was heard of %d times", heard)
	}
	h.fail = nil
	h.pass(w, began.Add(2*time.Hour+time.Minute))
	if len(h.done[remind.Expire]) != 20 || len(h.dead()) != 0 {
		t.Errorf("%d done, dead %+v", len(h.done[remind.Expire]), h.dead())
	}
}

// L8, L10: while the log is away what it needs comes back untried, however often and
// also alone, and the steps beside it are done.
func TestAnUnavailableLogDelaysNoOtherStepAndCountsNoTries(t *testing.T) {
	h := open(t)
	announced, erased := h.item(), h.item()
	h.remind(
		remind.Reminder{Due: now, ID: announced, Step: remind.Announce, Reason: "not announced"},
		remind.Reminder{Due: now, ID: erased, Step: remind.Erase, Reason: "deleted"},
	)
	away := true
	h.fail = func(step remind.Step, _ walk.Batch) ([]walk.Failure, error) {
		if step == remind.Announce && away {
			return nil, walk.Away(mayfly.Errorf(mayfly.Unknown, "no answer yet"))
		}
		return nil, nil
	}
	w := h.walker(remind.Options{Tries: 3, After: 2 * time.Minute})
	at := now
	for range 20 { // forty minutes
		at = at.Add(2*time.Minute + 30*time.Second)
		if _, err := w.Pass(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
	if len(h.done[remind.Erase]) != 1 || len(h.done[remind.Announce]) != 0 {
		t.Fatalf("done: %v", h.done)
	}
	away = false
	if _, err := w.Pass(t.Context(), at.Add(at.Sub(now))); err != nil { // no later than it has lasted
		t.Fatal(err)
	}
	if got := h.done[remind.Announce]; len(got) != 1 || got[0] != announced {
		t.Fatalf("announced afterwards: %v", got)
	}
}

// hanging is an act that waits for a store until its time is up, and says so like a
// driver does.
func hanging(ctx context.Context, _ walk.Batch) ([]walk.Failure, error) {
	<-ctx.Done()
	return nil, mayfly.Wrap(mayfly.Unavailable, ctx.Err(), "")
}

// L10: a store that hangs is found out once in a pass, not by each item, and the
// steps beside it are done.
func TestAHangingStoreDelaysNoOtherStepAndCountsNoTries(t *testing.T) {
	for _, n := range []int{1, 25} {
		synctest.Test(t, func(t *testing.T) {
			h := open(t)
			for range n {
				h.remind(remind.Reminder{Due: now.Add(soon), ID: h.item(), Step: remind.Erase})
			}
			h.remind(remind.Reminder{Due: now.Add(soon + time.Second), ID: h.item(), Step: remind.Expire})
			acts := h.acts(remind.Erase, remind.Expire)
			erase := acts[remind.Erase]
			acts[remind.Erase] = hanging
			w, err := remind.New(h.Set, walk.NewShard(h.Set.Rows, shard, "one", 5*time.Second, now.Add(-time.Minute)), acts, remind.Options{Tries: 1, Page: 10})
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range []time.Duration{time.Hour, 2 * time.Hour} {
				began := time.Now()
				if _, err := w.Pass(t.Context(), now.Add(at)); !errors.Is(err, mayfly.Unavailable) || errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				if took := time.Since(began); took > 65*time.Second {
					t.Errorf("%d reminders took %s", n, took)
				}
			}
			if len(h.done[remind.Expire]) != 1 {
				t.Error("the step beside it waited")
			}
			acts[remind.Erase] = erase
			h.pass(w, now.Add(4*time.Hour))
			if len(h.done[remind.Erase]) != n || len(h.dead()) != 0 {
				t.Errorf("%d of %d done, dead %+v", len(h.done[remind.Erase]), n, h.dead())
			}
		})
	}
}

// I17: what waits for the log costs a few rows in all, however long the log is
// away, and is announced no later afterwards than it was away, nor than Longest.
func TestRemindersThatWaitForTheLogAreRarelyRewritten(t *testing.T) {
	for _, c := range []struct {
		outage time.Duration
		most   int // rows written for all of them
	}{{3 * time.Minute, 2}, {time.Hour, 9}, {6 * time.Hour, 13}, {48 * time.Hour, 25}} {
		h := open(t)
		const n = 20
		for range n {
			h.remind(remind.Reminder{Due: now.Add(soon), ID: h.item(), Step: remind.Announce})
		}
		away := true
		h.fail = func(remind.Step, walk.Batch) ([]walk.Failure, error) {
			if away {
				return nil, walk.Away(mayfly.Errorf(mayfly.Unknown, "no answer yet"))
			}
			return nil, nil
		}
		writes := 0
		h.Hooks.OnReminder(func(remind.Reminder) { writes++ })
		w := h.walker(remind.Options{Tries: 1})
		back := now.Add(soon + c.outage)
		for at := now.Add(soon); at < back; at = at.Add(15 * time.Second) {
			h.pass(w, at)
		}
		if writes < 1 || writes > c.most {
			t.Errorf("in %s %d rows were written, want %d at most", c.outage, writes, c.most)
		}
		away = false
		within := max(soon, min(c.outage, 6*time.Hour)) + 30*time.Second
		for at := back; at <= back.Add(within); at = at.Add(15 * time.Second) {
			h.pass(w, at)
		}
		if done := len(h.done[remind.Announce]); done != n || len(h.dead()) != 0 {
			t.Errorf("%s after %s without the log %d of %d are announced, dead %+v", within, c.outage, done, n, h.dead())
		}
	}
}

func TestAnUnknownStepBecomesADeadLetter(t *testing.T) {
	h := open(t)
	h.remind(remind.Reminder{Due: now.Add(soon), ID: h.item(), Step: remind.Retire})
	h.pass(h.walker(remind.Options{Tries: 1}, remind.Erase), now.Add(time.Hour))
	if dead := h.dead(); len(dead) != 1 || dead[0].Step != remind.Retire {
		t.Errorf("%+v", dead)
	}
}

func TestAReminderThatCannotBeReadBecomesADeadLetterAndBlocksNoOther(t *testing.T) {
	h := open(t)
	a, b := h.item(), h.item()
	h.remind(remind.Reminder{Due: now.Add(soon), ID: a, Step: remind.Erase}, remind.Reminder{Due: now.Add(soon), ID: b, Step: remind.Erase})
	rows, err := h.Set.Rows.Range(t.Context(), remind.Reminders, store.Range{Partition: remind.Partition(now.Add(soon).Minute(), shard), Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	var batch store.Batch
	batch.Put(remind.Reminders, store.Key{Partition: remind.Partition(now.Add(soon).Minute(), shard), Clustering: rows[0].Clustering}, []byte("?"), 0)
	h.Must(h.Set.Writer.Commit(context.Background(), &batch))
	h.pass(h.walker(remind.Options{}), now.Add(time.Hour))
	if dead := h.dead(); len(dead) != 1 || len(h.done[remind.Erase]) != 1 || dead[0].ID == h.done[remind.Erase][0] {
		t.Errorf("done %v, dead %+v", h.done, dead)
	}
}

// Retries are a tenth of what is done, and slow down to a trickle (L10).
func TestRetriesStayWithinTheirBudget(t *testing.T) {
	h := open(t)
	budget := remind.NewBudget()
	h.fail = func(_ remind.Step, b walk.Batch) (failures []walk.Failure, err error) {
		for _, item := range b.Items {
			failures = append(failures, walk.Failure{Item: item, Err: errors.New("broken")})
		}
		return failures, nil
	}
	const n = 1500
	var all []remind.Reminder
	for range n {
		all = append(all, remind.Reminder{Due: now.Add(soon), ID: h.item(), Step: remind.Expire, Tries: 1})
	}
	h.remind(all...)
	tried := func() (sum int) {
		for _, size := range h.sizes {
			sum += size
		}
		h.sizes = nil
		return sum
	}
	w := h.walker(remind.Options{Budget: budget, Tries: 1000, After: time.Hour})
	h.pass(w, now.Add(10*time.Minute))
	if got := tried(); got != 1000 {
		t.Fatalf("%d retries out of a full budget of 1000", got)
	}
	budget.Earn(500)
	h.fail = nil
	h.pass(w, now.Add(80*time.Minute)) // those that found no budget are due again, and more
	if got := tried(); got < 50 || got > 55 {
		t.Errorf("%d retries for 500 items, want a tenth", got)
	}
}

func TestSettingsOutOfRangeAreRefused(t *testing.T) {
	h := open(t)
	for name, o := range map[string]remind.Options{
		"settle": {Settle: -1}, "page": {Page: -1}, "timeout": {Timeout: -1}, "after": {After: -1}, "longest": {Longest: time.Second},
	} {
		if _, err := remind.New(h.Set, walk.NewShard(h.Set.Rows, shard, "one", time.Second, now), nil, o); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
