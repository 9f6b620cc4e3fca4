package store_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// slowSignals take a while to be acknowledged, and some fail.
type slowSignals struct {
	store.Signals
	takes time.Duration
	fails map[mayfly.ID]error

	mu             sync.Mutex
	heard          map[mayfly.ID]int
	underWay, most int
}

func (n *slowSignals) Publish(ctx context.Context, s store.Signal) error {
	n.mu.Lock()
	if n.heard == nil {
		n.heard = map[mayfly.ID]int{}
	}
	n.heard[s.ID]++
	n.underWay++
	n.most = max(n.most, n.underWay)
	n.mu.Unlock()
	time.Sleep(n.takes)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.underWay--
	return errors.Join(n.fails[s.ID], ctx.Err())
}

func signals(n int) []store.Signal {
	all := make([]store.Signal, n)
	for i := range all {
		all[i] = store.Signal{Topic: store.RowChanged, ID: mayfly.ID{14: byte(i >> 8), 15: byte(i)}}
	}
	return all
}

func TestABatchOfSignalsIsPublishedSideBySideAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &slowSignals{takes: 4 * time.Millisecond}
		begun := time.Now()
		if err := store.Invalidate(t.Context(), n, signals(500)...); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took != 16*4*time.Millisecond { // 500 by 32
			t.Errorf("500 signals of 4 ms took %s", took)
		}
		if len(n.heard) != 500 || n.most != 32 {
			t.Errorf("%d were published, %d at once", len(n.heard), n.most)
		}
	})
}

func TestWhoCannotTellWaitsOnceForTheWholeBatch(t *testing.T) {
	away := mayfly.Errorf(mayfly.Unavailable, "no subscriber")
	for _, count := range []int{1, 500} {
		synctest.Test(t, func(t *testing.T) {
			n := &slowSignals{fails: map[mayfly.ID]error{}}
			for _, s := range signals(count) {
				n.fails[s.ID] = away
			}
			begun := time.Now()
			if err := store.Invalidate(t.Context(), n, signals(count)...); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took != store.CacheWait {
				t.Errorf("%d signals in vain: answered after %s", count, took)
			}
			if len(n.heard) > 32 {
				t.Errorf("%d were tried where none was heard", len(n.heard))
			}
			if err := store.PublishAll(t.Context(), n, signals(count)...); !errors.Is(err, mayfly.Unavailable) {
				t.Errorf("PublishAll answers %v", err)
			}
		})
	}
}

func TestOneSignalOfABatchThatFailsIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := signals(40)
		n := &slowSignals{fails: map[mayfly.ID]error{all[39].ID: mayfly.Errorf(mayfly.Unknown, "no answer")}}
		begun := time.Now()
		if err := store.Invalidate(t.Context(), n, all...); err != nil || time.Since(begun) != store.CacheWait {
			t.Errorf("answered %v after %s", err, time.Since(begun))
		}
	})
}

func TestAWaitThatIsCutShortIsNoAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), store.CacheWait-1)
		defer cancel()
		n := &slowSignals{fails: map[mayfly.ID]error{{}: mayfly.Unavailable}}
		if err := store.Invalidate(ctx, n, store.Signal{}); !errors.Is(err, mayfly.Unavailable) {
			t.Errorf("answered %v", err)
		}
	})
}

// The slowest clock of a node is one part in ten slow (L7).
func TestTheWaitIsLongerThanTheAgeByTheSlowestClock(t *testing.T) {
	if bySlowest := store.CacheWait * 9 / 10; bySlowest <= store.CacheAge {
		t.Errorf("a slow clock counts %s, and %s may be served", bySlowest, store.CacheAge)
	}
}

func TestPublishingNoSignalSucceeds(t *testing.T) {
	if err := errors.Join(store.PublishAll(t.Context(), nil), store.Invalidate(t.Context(), nil)); err != nil {
		t.Error(err)
	}
}
