package logread_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/logread"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

const group = "search"

// handled is a handler that records the events it has applied, in order.
type handled struct {
	mu     sync.Mutex
	events []mayfly.Event
	calls  int
	fail   func(e mayfly.Event, calls int) error // nil: every event is applied
}

func (h *handled) handle(_ context.Context, e mayfly.Event) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	if h.fail != nil {
		if err := h.fail(e, h.calls); err != nil {
			return err
		}
	}
	h.events = append(h.events, e)
	return nil
}

func (h *handled) take() []mayfly.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	events := h.events
	h.events = nil
	return events
}

// inBubble runs a test on virtual time, with an empty store.
func inBubble(t *testing.T, test func(t *testing.T, e *fixture.Engine)) {
	synctest.Test(t, func(t *testing.T) { test(t, fixture.Open(t)) })
}

func start(e *fixture.Engine, o logread.Options) *logread.Reader {
	e.Helper()
	o.Group = group
	if o.Now == nil {
		o.Now = func() mayfly.Instant { return fixture.Start }
	}
	r, err := logread.New(e.Set, o)
	e.Must(err)
	r.Start(context.Background())
	synctest.Wait()
	return r
}

func stop(e *fixture.Engine, r *logread.Reader) {
	e.Helper()
	e.Must(r.Stop(context.Background()))
}

// events returns n events of one item, so that they have one order.
func events(e *fixture.Engine, n int) []mayfly.Event {
	e.Helper()
	id, err := mayfly.NewID(fixture.Start, fixture.Lifetime(e, time.Hour), fixture.Ana().Trace(), 7)
	e.Must(err)
	all := make([]mayfly.Event, n)
	for i := range all {
		all[i] = mayfly.Event{ID: id, Generation: mayfly.Generation(i + 2), Product: mayfly.Story, Verb: mayfly.WasHeld, At: fixture.Start + mayfly.Instant(i), Owner: fixture.Ana()}
	}
	return all
}

func TestEveryEventOfBothStreamsIsHandledAndCommitted(t *testing.T) {
	inBubble(t, func(t *testing.T, e *fixture.Engine) {
		var h handled
		r := start(e, logread.Options{Handle: h.handle})
		ends := events(e, 3)
		created := ends[0]
		created.Verb, created.Generation = mayfly.WasCreated, mayfly.Born
		deleted := mayfly.UserDeleted(fixture.Ana(), fixture.Start)
		e.Must(e.Real.Log.Append(t.Context(), append(ends, created, deleted)...))
		synctest.Wait()
		got := h.take()
		for _, want := range append(ends, created, deleted) {
			if !slices.Contains(got, want) {
				t.Errorf("%s was not handled", want.Type())
			}
		}
		if len(got) != 5 {
			t.Errorf("%d events were handled", len(got))
		}
		for _, lag := range r.Lags() {
			if lag.Group != group || lag.Events != 0 {
				t.Errorf("%+v", lag)
			}
		}
		stop(e, r)
		r = start(e, logread.Options{Handle: h.handle})
		synctest.Wait()
		if again := h.take(); len(again) != 0 {
			t.Errorf("%d events were handled and committed, and are handled again", len(again))
		}
		stop(e, r)
	})
}

// A reader that is stopped between an effect and its commit repeats the effect
// and loses none.
func TestAnEventIsCommittedOnlyAfterItsEffect(t *testing.T) {
	for applied := range 4 {
		inBubble(t, func(t *testing.T, e *fixture.Engine) {
			want := events(e, 4)
			e.Must(e.Real.Log.Append(t.Context(), want...))
			hanging := func(ctx context.Context, ev mayfly.Event) error {
				if ev == want[applied] {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}
			stop(e, start(e, logread.Options{Handle: hanging}))
			var h handled
			stop(e, start(e, logread.Options{Handle: h.handle}))
			if got := h.take(); !slices.Equal(got, want) {
				t.Errorf("stopped in event %d: then %d events are handled, want all %d", applied, len(got), len(want))
			}
		})
	}
}

func TestAnEventThatAlwaysFailsBecomesADeadLetterAndTheReaderGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, e *fixture.Engine) {
		want := events(e, 5)
		poison, attempts := want[2], 0
		h := handled{fail: func(ev mayfly.Event, _ int) error {
			if ev != poison {
				return nil
			}
			attempts++
			return errors.New("unknown field")
		}}
		began := time.Now()
		r := start(e, logread.Options{Handle: h.handle, Budget: 4, Backoff: time.Second})
		e.Must(e.Real.Log.Append(t.Context(), want...))
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := h.take(); !slices.Equal(got, append(slices.Clone(want[:2]), want[3:]...)) {
			t.Fatalf("handled %+v", got)
		}
		if attempts != 4 || time.Since(began) < 3*time.Second {
			t.Errorf("%d attempts", attempts)
		}
		letters, err := logread.Letters(t.Context(), e.Real.Rows, group, logread.Letter{}, 10)
		e.Must(err)
		if len(letters) != 1 || letters[0] != (logread.Letter{Group: group, Event: poison, Since: fixture.Start, Attempts: 4, Reason: "unknown field"}) {
			t.Fatalf("dead letters: %+v", letters)
		}
		if after, err := logread.Letters(t.Context(), e.Real.Rows, group, letters[0], 10); err != nil || len(after) != 0 {
			t.Errorf("behind the last letter: %+v, %v", after, err)
		}
		if err := r.Retry(t.Context(), letters[0]); err == nil {
			t.Error("a retry that fails succeeds")
		}
		h.fail = nil
		e.Must(r.Retry(t.Context(), letters[0]))
		if got := h.take(); !slices.Equal(got, []mayfly.Event{poison}) {
			t.Errorf("the retry handled %+v", got)
		}
		if left, err := logread.Letters(t.Context(), e.Real.Rows, group, logread.Letter{}, 10); err != nil || len(left) != 0 {
			t.Errorf("left %+v, %v", left, err)
		}
		stop(e, r)
	})
}

// A search server that is down for a day fills no dead letters: the lag grows.
func TestAnUnavailableServerMakesNoDeadLetters(t *testing.T) {
	inBubble(t, func(t *testing.T, e *fixture.Engine) {
		want, failed := events(e, 3), 0
		var down atomic.Bool
		down.Store(true)
		h := handled{fail: func(mayfly.Event, int) error {
			if down.Load() {
				return mayfly.Errorf(mayfly.Unavailable, "connection refused")
			}
			return nil
		}}
		r := start(e, logread.Options{Handle: h.handle, Budget: 2, Streams: []mayfly.Stream{mayfly.Ends}, Failed: func(mayfly.Stream, error, int) { failed++ }})
		e.Must(e.Real.Log.Append(t.Context(), want...))
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if got := h.take(); len(got) != 0 || failed < 1000 {
			t.Errorf("handled %d events, %d failures", len(got), failed)
		}
		if lags := r.Lags(); len(lags) != 1 || lags[0] != (logread.Lag{Group: group, Stream: mayfly.Ends, Events: 3}) {
			t.Errorf("lag %+v", lags)
		}
		down.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := h.take(); !slices.Equal(got, want) {
			t.Errorf("handled %+v", got)
		}
		if letters, err := logread.Letters(t.Context(), e.Real.Rows, group, logread.Letter{}, 10); err != nil || len(letters) != 0 {
			t.Errorf("dead letters %+v, %v", letters, err)
		}
		stop(e, r)
	})
}

// A letter that cannot be kept holds the reader up: otherwise the event would be lost.
func TestAnEventIsNotPassedBeforeItsDeadLetterIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T, e *fixture.Engine) {
		want := events(e, 2)
		var refuse atomic.Bool
		refuse.Store(true)
		h := handled{fail: func(ev mayfly.Event, _ int) error {
			if ev == want[0] {
				return errors.New("never")
			}
			return nil
		}}
		e.Hooks.Swap = func(_ context.Context, table store.Table, _ store.Key, do fixture.Swap) (bool, []byte, error) {
			if table == logread.DeadEvents && refuse.Load() {
				return false, nil, mayfly.Unavailable
			}
			return do()
		}
		r := start(e, logread.Options{Handle: h.handle, Budget: 1})
		e.Must(e.Real.Log.Append(t.Context(), want...))
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := h.take(); len(got) != 0 {
			t.Fatalf("handled %+v", got)
		}
		refuse.Store(false)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := h.take(); !slices.Equal(got, want[1:]) {
			t.Errorf("handled %+v", got)
		}
		stop(e, r)
	})
}

func TestAReplayHandlesEventsAgainFromAnInstantOn(t *testing.T) {
	inBubble(t, func(t *testing.T, e *fixture.Engine) {
		want := events(e, 6)
		e.Must(e.Real.Log.Append(t.Context(), want...))
		var h handled
		stop(e, start(e, logread.Options{Handle: h.handle, Page: 2}))
		if got := h.take(); !slices.Equal(got, want) {
			t.Fatalf("handled %+v", got)
		}
		for from, first := range map[mayfly.Instant]int{0: 0, want[4].At: 4, want[5].At + 1: 6} {
			waiting, err := logread.Replay(t.Context(), e.Real.Log, mayfly.Ends, group, from)
			if err != nil || waiting != int64(6-first) {
				t.Fatalf("from %d: %d wait, %v", from, waiting, err)
			}
			stop(e, start(e, logread.Options{Handle: h.handle}))
			if got := h.take(); !slices.Equal(got, want[first:]) {
				t.Errorf("from %d: handled %+v", from, got)
			}
		}
	})
}

func TestAReaderNeedsAGroupAHandlerAndAClock(t *testing.T) {
	e := fixture.Open(t)
	var h handled
	now := func() mayfly.Instant { return fixture.Start }
	for name, o := range map[string]logread.Options{
		"no group":   {Handle: h.handle, Now: now},
		"no handler": {Group: group, Now: now},
		"no clock":   {Group: group, Handle: h.handle},
	} {
		if _, err := logread.New(e.Set, o); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestABatchOfEventsIsHandledAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, e *fixture.Engine) {
		want := events(e, 5)
		var batches [][]mayfly.Event
		e.Must(e.Real.Log.Append(t.Context(), want...))
		r := start(e, logread.Options{Streams: []mayfly.Stream{mayfly.Ends}, Batch: func(_ context.Context, page []mayfly.Event) error {
			batches = append(batches, slices.Clone(page))
			return nil
		}})
		if len(batches) != 1 || !slices.Equal(batches[0], want) {
			t.Errorf("handled %+v", batches)
		}
		stop(e, r)
		var h handled
		stop(e, start(e, logread.Options{Handle: h.handle}))
		if again := h.take(); len(again) != 0 {
			t.Errorf("%d events were not committed", len(again))
		}
	})
}

// A batch that an unavailable server fails is tried again whole; one that an event
// fails is handled event by event, and only that event becomes a dead letter.
func TestABatchThatFailsIsHandledOneByOneUnlessTheServerIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T, e *fixture.Engine) {
		want := events(e, 5)
		var down atomic.Bool
		down.Store(true)
		single := 0
		var got []mayfly.Event
		e.Must(e.Real.Log.Append(t.Context(), want...))
		r := start(e, logread.Options{Streams: []mayfly.Stream{mayfly.Ends}, Budget: 2, Batch: func(_ context.Context, page []mayfly.Event) error {
			switch {
			case down.Load():
				if len(page) == 1 {
					single++
				}
				return mayfly.Errorf(mayfly.Unavailable, "connection refused")
			case slices.Contains(page, want[2]):
				return errors.New("unknown field")
			}
			got = append(got, page...)
			return nil
		}})
		time.Sleep(time.Hour)
		synctest.Wait()
		if single != 0 || len(got) != 0 {
			t.Errorf("%d events were handled alone while the server was away", single)
		}
		down.Store(false)
		time.Sleep(time.Hour)
		synctest.Wait()
		if !slices.Equal(got, append(slices.Clone(want[:2]), want[3:]...)) {
			t.Errorf("handled %+v", got)
		}
		letters, err := logread.Letters(t.Context(), e.Real.Rows, group, logread.Letter{}, 10)
		e.Must(err)
		if len(letters) != 1 || letters[0].Event != want[2] {
			t.Errorf("dead letters %+v", letters)
		}
		stop(e, r)
	})
}
