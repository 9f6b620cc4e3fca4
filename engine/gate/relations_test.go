package gate_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/store"
)

// relatives is relations that change. It counts the calls and the owners asked about.
type relatives struct {
	mu     sync.Mutex
	flags  map[[2]mayfly.UserID]mayfly.Relation // owner, viewer; a zero viewer is any
	calls  atomic.Int64
	owners atomic.Int64
	wait   chan struct{} // if it is not nil, calls wait for it before they answer
}

func (r *relatives) set(owner, viewer mayfly.UserID, flags mayfly.Relation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flags[[2]mayfly.UserID{owner, viewer}] = flags
}

func (r *relatives) ask(ctx context.Context, viewer mayfly.UserID, owners ...mayfly.UserID) ([]mayfly.Relation, error) {
	r.calls.Add(1)
	r.owners.Add(int64(len(owners)))
	r.mu.Lock()
	all := make([]mayfly.Relation, len(owners))
	for i, owner := range owners {
		all[i] = r.flags[[2]mayfly.UserID{owner, viewer}] | r.flags[[2]mayfly.UserID{owner, {}}]
	}
	wait := r.wait
	r.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, mayfly.Unavailable
		}
	}
	return all, nil
}

func openWith(t *testing.T, o gate.Options) (*engine, *relatives) {
	r := &relatives{flags: map[[2]mayfly.UserID]mayfly.Relation{}}
	o.Relations = r.ask
	return open(t, o), r
}

// related publishes that the relations of an owner have changed: to one viewer, or to
// every one if the viewer is zero.
func (e *engine) related(owner, viewer mayfly.UserID) {
	e.Helper()
	e.Must(e.wire.Publish(context.Background(), store.Signal{Topic: store.RelationsChanged, Owner: owner, ID: mayfly.ID(viewer)}))
}

// Items for everyone of a private account, old ones too, are for followers from the
// next read on, whether the gate has cached anything or not.
func TestAPrivateAccountHidesFromAnonymousViewersAndStrangersAtOnce(t *testing.T) {
	for name, rows := range map[string]int{"cached": 0, "not cached": -1} {
		t.Run(name, func(t *testing.T) {
			h, r := openWith(t, gate.Options{CacheRows: rows})
			item := story(t)
			item.Audience = mayfly.Everyone
			h.put(item, mayfly.Body{Text: "sea"})
			r.set(ana, ben, mayfly.Follower)
			stranger := mayfly.ViewerOf(mayfly.UserOf("test", "stranger"))
			for _, private := range []bool{false, true, false} {
				r.set(ana, mayfly.UserID{}, map[bool]mayfly.Relation{true: mayfly.Private}[private])
				h.related(ana, mayfly.UserID{})
				for range 2 {
					for viewer, shown := range map[mayfly.Viewer]bool{{}: !private, stranger: !private, mayfly.ViewerOf(ben): true, mayfly.ViewerOf(ana): true, mayfly.ModeratorOf(ben): true} {
						want := gate.Hidden
						if shown {
							want = gate.Serve
						}
						h.want(item.ID, viewer, birth+1000, want)
						all, err := h.gate.OpenAll(t.Context(), []mayfly.ID{item.ID}, viewer, birth+1000)
						if h.Must(err); len(all) == 1 != shown {
							t.Errorf("private %t, list: %d shown, want %t", private, len(all), shown)
						}
						for _, o := range all {
							if viewer == mayfly.ViewerOf(ben) && private != (o.Item.Audience == mayfly.Followers) {
								t.Errorf("private %t: a follower sees it as for %s", private, o.Item.Audience)
							}
						}
					}
				}
			}
		})
	}
}

func TestTheRelationsOfAListAreAskedOnceAndThenCached(t *testing.T) {
	h, r := openWith(t, gate.Options{})
	var ids []mayfly.ID
	const owners = 20
	for n := range 3 * owners {
		item := story(t)
		item.Owner = mayfly.UserOf("test", string(rune('a'+n%owners)))
		item.ID, item.Audience = newID(t, item.Owner, uint64(n+1)), mayfly.Everyone
		h.put(item, mayfly.Body{Text: "sea"})
		ids = append(ids, item.ID)
	}
	for round, want := range [][2]int64{{1, owners}, {1, owners}} { // the second round asks nothing more
		all, err := h.gate.OpenAll(t.Context(), ids, mayfly.ViewerOf(ben), birth)
		if h.Must(err); len(all) != len(ids) || r.calls.Load() != want[0] || r.owners.Load() != want[1] {
			t.Errorf("round %d: %d shown, %d calls for %d owners", round, len(all), r.calls.Load(), r.owners.Load())
		}
	}
	h.wire.SetCut(true) // without the lease nothing cached is used
	if _, err := h.gate.OpenAll(t.Context(), ids, mayfly.ViewerOf(ben), birth); err != nil || r.calls.Load() != 2 || r.owners.Load() != 2*owners {
		t.Errorf("%v, %d calls for %d owners", err, r.calls.Load(), r.owners.Load())
	}
}

// A cached relation ends with a signal about its pair or its owner, with the lease,
// and with its age; other pairs stay.
func TestACachedRelationEndsWithItsSignalLeaseOrAge(t *testing.T) {
	var elapsed time.Duration
	h, r := openWith(t, gate.Options{Elapsed: func() time.Duration { return elapsed }})
	item := story(t)
	item.Audience = mayfly.Everyone
	h.put(item, mayfly.Body{Text: "sea"})
	asked := func() int64 {
		t.Helper()
		before := r.calls.Load()
		h.want(item.ID, mayfly.ViewerOf(ben), birth+1000, gate.Serve)
		return r.calls.Load() - before
	}
	other := mayfly.UserOf("test", "other")
	for n, c := range []struct {
		why  string
		do   func()
		want int64
	}{
		{"first", func() {}, 1},
		{"again", func() {}, 0},
		{"a signal about the pair", func() { h.related(ana, ben) }, 1},
		{"a signal about another pair", func() { h.related(ana, other) }, 0},
		{"a signal about the owner", func() { h.related(ana, mayfly.UserID{}) }, 1},
		{"a signal about another owner", func() { h.related(other, mayfly.UserID{}) }, 0},
		{"almost its age", func() { elapsed += store.CacheAge - 1 }, 0},
		{"its age", func() { elapsed++ }, 1},
		{"a lost lease", func() { h.wire.SetCut(true) }, 1},
		{"a new lease", func() { h.wire.SetCut(false) }, 1},
		{"the same lease", func() {}, 0},
	} {
		c.do()
		if got := asked(); got != c.want {
			t.Errorf("%d, %s: asked %d times, want %d", n, c.why, got, c.want)
		}
	}
}

func TestConcurrentMissesAreOneReadUnlessASignalComesBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, r := openWith(t, gate.Options{})
		item := story(t)
		item.Audience = mayfly.Everyone
		h.put(item, mayfly.Body{Text: "sea"})
		r.wait = make(chan struct{})
		readers := func(n int, want gate.Verdict) *sync.WaitGroup {
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() { h.want(item.ID, mayfly.ViewerOf(ben), birth.Add(time.Hour), want) })
			}
			synctest.Wait()
			return &wg
		}
		before := readers(10, gate.Serve)
		if r.calls.Load() != 1 {
			t.Errorf("%d reads of the relation", r.calls.Load())
		}
		r.set(ana, ben, mayfly.Blocked)
		h.related(ana, ben) // acknowledged: who comes now must not get what is being read
		after := readers(10, gate.Hidden)
		if r.calls.Load() != 2 {
			t.Errorf("%d reads of the relation", r.calls.Load())
		}
		close(r.wait)
		before.Wait()
		after.Wait()
		h.want(item.ID, mayfly.ViewerOf(ben), birth.Add(time.Hour), gate.Hidden)
	})
}

func TestConcurrentMissesOfARowAreOneReadUnlessItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, gate.Options{})
		item := story(t)
		item.Audience = mayfly.Everyone
		h.put(item, mayfly.Body{Text: "sea"})
		wait := make(chan struct{})
		h.Hooks.LedgerGet = func(_ context.Context, _ []mayfly.ID, do func() ([]store.Found, error)) ([]store.Found, error) {
			found, err := do()
			<-wait
			return found, err
		}
		var wg sync.WaitGroup
		readers := func(want gate.Verdict) {
			for range 10 {
				wg.Go(func() { h.want(item.ID, mayfly.ViewerOf(ben), birth.Add(time.Hour), want) })
			}
			synctest.Wait()
		}
		h.lookups()
		readers(gate.Serve)
		if n := h.look("ledger get"); n != 1 {
			t.Errorf("%d reads of the row", n)
		}
		h.move(item.ID, mayfly.Deleted)
		h.signal(store.RowChanged, item.ID) // acknowledged: who comes now must not get what is being read
		readers(gate.Hidden)
		if n := h.look("ledger get"); n != 1 {
			t.Errorf("%d reads of the row after it was deleted", n)
		}
		close(wait)
		wg.Wait()
	})
}

func TestAReaderWhoLeavesTakesNoOtherAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, r := openWith(t, gate.Options{})
		item := story(t)
		item.Audience = mayfly.Everyone
		h.put(item, mayfly.Body{Text: "sea"})
		r.wait = make(chan struct{})
		first, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := h.gate.Open(first, item.ID, mayfly.ViewerOf(ben), birth.Add(time.Hour)); err == nil {
				t.Error("the reader who left was answered")
			}
		})
		synctest.Wait()
		wg.Go(func() { h.want(item.ID, mayfly.ViewerOf(ben), birth.Add(time.Hour), gate.Serve) })
		synctest.Wait()
		leave()
		synctest.Wait()
		close(r.wait)
		wg.Wait()
	})
}
