package story_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/store"
)

// reads counts what is read from the store, by table and operation.
type reads struct {
	mu    sync.Mutex
	count map[string]int
}

func countReads(e *env) *reads {
	r := &reads{count: map[string]int{}}
	e.Hooks.LedgerGet = func(_ context.Context, _ []mayfly.ID, do func() ([]store.Found, error)) ([]store.Found, error) {
		r.add("ledger")
		return do()
	}
	e.Hooks.Body = func(_ context.Context, _ []mayfly.ID, do func() ([]store.FoundBody, error)) ([]store.FoundBody, error) {
		r.add("body")
		return do()
	}
	e.Hooks.RowsGet = func(_ context.Context, t store.Table, do func() ([][]byte, error)) ([][]byte, error) {
		r.add("get " + t.String())
		return do()
	}
	e.Hooks.Range = func(_ context.Context, t store.Table, do func() ([]store.Row, error)) ([]store.Row, error) {
		r.add("range " + t.String())
		return do()
	}
	return r
}

func (r *reads) add(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count[what]++
}

// of returns what do reads.
func (r *reads) of(do func()) map[string]int {
	r.mu.Lock()
	clear(r.count)
	r.mu.Unlock()
	do()
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.count)
}

// A new story is returned as it was born, from one read of the mark of erasure and
// one of the owner index. Only a repeated key reads the story back.
func TestPublishReadsTheStoreOnlyAsOftenAsItMust(t *testing.T) {
	once := map[string]int{"get erased": 1, "range owners": 1}
	again := map[string]int{"get erased": 1, "range owners": 1, "ledger": 2, "body": 1}
	reserved := map[string]int{"get erased": 1, "range owners": 1, "get reservations": 3}
	e := open(t, func(o *settings) { o.Live = 10 })
	e.publish(e.draft()) // the gate reads the restored ids once for all
	r := countReads(e)
	for _, c := range []struct {
		name string
		do   func()
		want map[string]int
	}{
		{"without a key", func() { e.publish(e.draft()) }, once},
		{"a new key", func() { e.publish(e.keyed("k")) }, once},
		{"a repeated key", func() { e.publish(e.keyed("k")) }, again},
		{"another new key", func() { e.publish(e.keyed("l")) }, once},
		{"ten media", func() {
			d := e.keyed("m")
			all := make([][]byte, 10)
			for i := range all {
				all[i] = photo(e, byte(i))
			}
			d.Media = media(all...)
			e.publish(d)
		}, once},
	} {
		if got := r.of(c.do); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	upload := e.reserve(1).Upload
	e.Must(e.put(upload, 0, photo(t, 3)))
	if got := r.of(func() { e.publish(story.Draft{Author: user("ana"), Upload: upload}) }); !maps.Equal(got, reserved) {
		t.Errorf("a reserved upload: %v, want %v", got, reserved)
	}
}

func (e *env) keyed(key string) story.Draft {
	d := e.draft()
	d.Key = key
	return d
}

// The mark of erasure and the owner index are read at the same time: each read
// waits here until the other one has begun.
func TestPublishReadsTheErasedMarkAndTheOwnerIndexSideBySide(t *testing.T) {
	e := open(t)
	e.publish(e.draft())
	begun := map[string]chan struct{}{"erased": make(chan struct{}), "owners": make(chan struct{})}
	meet := func(mine, other string) {
		close(begun[mine])
		<-begun[other]
	}
	e.Hooks.RowsGet = func(_ context.Context, t store.Table, do func() ([][]byte, error)) ([][]byte, error) {
		if t == engine.Erased {
			meet("erased", "owners")
		}
		return do()
	}
	e.Hooks.Range = func(_ context.Context, t store.Table, do func() ([]store.Row, error)) ([]store.Row, error) {
		if t == engine.Owners {
			meet("owners", "erased")
		}
		return do()
	}
	e.publish(e.draft())
}

// An erased account is refused as erased, also when the live limit is found first.
func TestAnErasedAccountAtItsLimitIsRefusedAsErased(t *testing.T) {
	e := open(t, func(o *settings) { o.Live = 1 })
	e.publish(e.draft())
	limit := make(chan struct{})
	found := sync.OnceFunc(func() { time.AfterFunc(20*time.Millisecond, func() { close(limit) }) })
	e.Hooks.RowsGet = func(ctx context.Context, t store.Table, do func() ([][]byte, error)) ([][]byte, error) {
		if t != engine.Erased {
			return do()
		}
		select {
		case <-limit:
			return [][]byte{[]byte(`{"format":1}`)}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	e.Hooks.Range = func(_ context.Context, t store.Table, do func() ([]store.Row, error)) ([]store.Row, error) {
		if t == engine.Owners {
			defer found()
		}
		return do()
	}
	if _, err := e.stories.Publish(t.Context(), e.draft(), e.clock); !errors.Is(err, mayfly.Denied) {
		t.Errorf("%v", err)
	}
}

// The check that was made before the media came is repeated if the author has
// published another story since.
func TestPublishReadsAgainWhenAnotherStoryWasBornMeanwhile(t *testing.T) {
	e := open(t, func(o *settings) { o.Live = 1 })
	d := e.draft()
	d.Media = func(yield func(io.Reader, error) bool) {
		e.publish(e.draft())
		media(photo(t, 1))(yield)
	}
	_, err := e.stories.Publish(t.Context(), d, e.clock)
	if !errors.Is(err, mayfly.Conflict) || e.objects(e.Real.Hot) != 1 {
		t.Errorf("%v, %d objects", err, e.objects(e.Real.Hot))
	}
}
