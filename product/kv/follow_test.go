package kv_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/product/kv"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// countedKV counts how often expired entries are asked for.
type countedKV struct {
	store.KV
	asked atomic.Int64
}

func (k *countedKV) Due(ctx context.Context, s store.KVSpace, now mayfly.Instant, after store.KVDue, limit int) ([]store.KVDue, error) {
	k.asked.Add(1)
	return k.KV.Due(ctx, s, now, after, limit)
}

// openWithEvents makes a namespace with events.
func openWithEvents(t *testing.T, entries store.KV) *kv.Space {
	t.Helper()
	e := fixture.Open(t)
	k, err := kv.New(kv.Options{Rows: e.Set.Rows, Store: entries})
	if err != nil {
		t.Fatal(err)
	}
	settings := k.Defaults()
	settings.Events = true
	if _, _, err := k.Create(t.Context(), fixture.Ana(), "cache", settings, read().Now); err != nil {
		t.Fatal(err)
	}
	s, err := k.OpenOwned(t.Context(), fixture.Ana(), "cache")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func read() clock.Reading {
	now := mayfly.InstantOf(time.Now())
	return clock.Reading{Now: now, Steady: now, Confirmed: true}
}

// What waits for a client that does not read would otherwise grow for as long as it
// stays connected (I17).
func TestAFollowerThatIsSlowIsLeftBehind(t *testing.T) {
	s := openWithEvents(t, storetest.NewKVModel())
	synctest.Test(t, func(t *testing.T) {
		const pages, page, long = 6, 500, 4000 // 12 MB of keys
		ctx, cancel := context.WithCancel(t.Context())
		good := func(context.Context) error { return nil }
		var running sync.WaitGroup
		got, slow, release := 0, 0, make(chan struct{})
		running.Go(func() {
			err := s.Follow(ctx, read, kv.AllUntil(read().Now), good, func(due []kv.Expired) error {
				got += len(due)
				return nil
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the fast one ended with %v", err)
			}
		})
		running.Go(func() {
			err := s.Follow(ctx, read, kv.AllUntil(read().Now), good, func(due []kv.Expired) error {
				slow += len(due)
				<-release
				return nil
			})
			if !errors.Is(err, mayfly.Limited) {
				t.Errorf("the slow one ended with %v after %d", err, slow)
			}
		})
		synctest.Wait()
		for i := range pages {
			var ops []kv.Op
			for n := range page {
				ops = append(ops, kv.Op{Key: fmt.Sprintf("%0*d", long, i*page+n), Action: kv.Set, Expiry: read().Now.Add(time.Duration(i+1) * time.Second)})
			}
			if _, err := s.Apply(ctx, read(), kv.Group{Ops: ops}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep((pages + 2) * time.Second)
		synctest.Wait()
		if got != pages*page {
			t.Errorf("the fast one got %d of %d", got, pages*page)
		}
		close(release)
		synctest.Wait()
		cancel()
		running.Wait()
		t.Logf("the slow one got %d of %d", slow, pages*page)
	})
}

func TestAllWhoFollowANamespaceShareOneReading(t *testing.T) {
	entries := &countedKV{KV: storetest.NewKVModel()}
	s := openWithEvents(t, entries)
	synctest.Test(t, func(t *testing.T) {
		const followers, keys, seconds = 50, 1200, 10
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		var got [followers]int
		for i := range followers {
			running.Go(func() {
				last := kv.Expired{}
				err := s.Follow(ctx, read, kv.AllUntil(read().Now), func(context.Context) error { return nil }, func(due []kv.Expired) error {
					for _, d := range due {
						if d.At < last.At || d.At == last.At && d.Key <= last.Key {
							t.Errorf("%v after %v", d, last)
						}
						last = d
					}
					got[i] += len(due)
					return nil
				})
				if !errors.Is(err, context.Canceled) {
					t.Errorf("it ended with %v", err)
				}
			})
		}
		synctest.Wait()
		var ops []kv.Op
		for i := range keys {
			ops = append(ops, kv.Op{Key: string(rune('a'+i%26)) + time.Duration(i).String(), Action: kv.Set, Value: []byte("v"), Expiry: read().Now.Add(time.Second)})
		}
		if _, err := s.Apply(ctx, read(), kv.Group{Ops: ops}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // the key dies after one; a second more is the promise
		synctest.Wait()
		for i, n := range got {
			if n != keys {
				t.Errorf("follower %d got %d of %d", i, n, keys)
			}
		}
		time.Sleep((seconds - 2) * time.Second)
		if asked := entries.asked.Load(); asked > 4*seconds+2+keys/500 {
			t.Errorf("%d followers asked the store %d times in %d s", followers, asked, seconds)
		}
		cancel()
		running.Wait()
		synctest.Wait()
		before := entries.asked.Load()
		time.Sleep(time.Minute)
		if after := entries.asked.Load(); after != before {
			t.Errorf("it is read on without followers: %d times", after-before)
		}
	})
}
