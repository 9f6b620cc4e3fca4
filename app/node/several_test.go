package node_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

func TestNodesShareTheShardsOutEvenly(t *testing.T) {
	inCluster(t, func(_ *testing.T, w *nodeCluster) {
		a := w.join("a", node.Options{})
		w.wantShares([]int{16}, a)
		b := w.join("b", node.Options{})
		w.settle()
		w.wantShares([]int{8, 8}, a, b)
		c := w.join("c", node.Options{})
		w.settle()
		w.wantShares([]int{6, 5, 5}, a, b, c)
		stop(w.t, a.Node)
		time.Sleep(lease * 3 / 4) // two looks at the roll: no node waits for a lease to run out
		w.wantShares([]int{8, 8}, b, c)
		stop(w.t, b.Node)
		time.Sleep(lease * 3 / 4)
		w.wantShares([]int{16}, c)
		stop(w.t, c.Node)
	})
}

func TestADeadNodesShardsAreTakenOverWithinTwoLeases(t *testing.T) {
	inCluster(t, func(t *testing.T, w *nodeCluster) {
		a, b := w.join("a", node.Options{}), w.join("b", node.Options{})
		defer stop(t, b.Node)
		defer stop(t, a.Node)
		w.settle()
		w.wantShares([]int{8, 8}, a, b)
		item := mustPublish(t, b.Node, 10*time.Second)
		a.wire.cutOff()
		died := time.Now()
		for len(b.Shards()) < mayfly.Shards && time.Since(died) < time.Minute {
			time.Sleep(10 * time.Millisecond)
		}
		took := time.Since(died)
		t.Logf("taken over after %s, %.1f leases", took, took.Seconds()/lease.Seconds())
		if took > 2*lease || len(a.Shards()) > 0 {
			t.Errorf("the dead one holds %d, the other %d after %s", len(a.Shards()), len(b.Shards()), took)
		}
		time.Sleep(15 * time.Second)
		if s := state(t, w.set, item.ID); s != mayfly.ExpiredHot {
			t.Errorf("it is %s", s)
		}
		a.wire.reconnect()
		w.settle()
		w.settle()
		w.wantShares([]int{8, 8}, a, b)
	})
}

// Everything at once: nodes join, die, come back and are stopped while items end.
func TestNothingIsLostOrDoneTwiceWhileNodesComeAndGo(t *testing.T) {
	inCluster(t, func(t *testing.T, w *nodeCluster) {
		a := w.join("a", node.Options{})
		var items []mayfly.Item
		publishFor := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				items = append(items, mustPublish(t, a.Node, time.Duration(1+len(items)%20)*time.Second))
			}
		}
		publishFor(5 * time.Second)
		b, c := w.join("b", node.Options{}), w.join("c", node.Options{})
		publishFor(10 * time.Second)
		b.wire.cutOff()
		publishFor(10 * time.Second)
		c.wire.freeze()
		publishFor(2 * lease)
		b.wire.reconnect()
		c.wire.thaw()
		publishFor(10 * time.Second)
		stop(t, c.Node)
		publishFor(5 * time.Second)
		stop(t, b.Node)
		time.Sleep(time.Minute)
		if err := w.expired(items); err != nil {
			t.Error(err)
		}
		t.Logf("%d items", len(items))
		stop(t, a.Node)
	})
}

// The batch of a process that was stopped for longer than its lease and continued
// finds rows that another node has moved (I10).
func TestANodeThatWasStoppedPastItsLeaseWritesNothingStale(t *testing.T) {
	inCluster(t, func(t *testing.T, w *nodeCluster) {
		a := w.join("a", node.Options{})
		defer stop(t, a.Node)
		var items []mayfly.Item
		for range 40 {
			items = append(items, mustPublish(t, a.Node, 20*time.Second))
		}
		a.wire.freezeInABatch()
		time.Sleep(22 * time.Second)
		b := w.join("b", node.Options{})
		defer stop(t, b.Node)
		time.Sleep(3 * lease)
		w.wantShares([]int{0, 16}, a, b)
		if err := w.expired(items); err != nil {
			t.Fatalf("before the first goes on: %v", err)
		}
		before := w.rows(items)
		a.wire.thaw()
		time.Sleep(2 * time.Second)
		for i, row := range w.rows(items) {
			if row.Generation != before[i].Generation || row.Nonce != before[i].Nonce || row.Run != before[i].Run {
				t.Errorf("a stale batch moved %s: %+v, before %+v", row.ID, row, before[i])
			}
		}
		if err := w.expired(items); err != nil {
			t.Error(err)
		}
		if a.wire.stale == 0 {
			t.Error("no batch was under way when it was stopped")
		}
		w.settle()
		w.settle()
		w.wantShares([]int{8, 8}, a, b)
	})
}

// Stop waits for the batch that is under way: nothing is interrupted or repeated.
func TestAStopLetsABatchFinish(t *testing.T) {
	inCluster(t, func(t *testing.T, w *nodeCluster) {
		var mu sync.Mutex
		var reported []error
		a := w.join("a", node.Options{Problem: func(_ string, err error) {
			mu.Lock()
			defer mu.Unlock()
			reported = append(reported, err)
		}})
		a.wire.slow = 4 * time.Second
		item := mustPublish(t, a.Node, 10*time.Second)
		time.Sleep(12 * time.Second)
		began := time.Now()
		stop(t, a.Node)
		if took := time.Since(began); took < time.Second || took > 4*time.Second {
			t.Errorf("stopped after %s", took)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(reported) > 0 {
			t.Errorf("%v", reported)
		}
		if err := w.expired([]mayfly.Item{item}); err != nil {
			t.Error(err)
		}
	})
}

func TestTheSecondOfTwoProcessesUnderOneNameIsRefused(t *testing.T) {
	inCluster(t, func(t *testing.T, w *nodeCluster) {
		a := w.join("a", node.Options{})
		time.Sleep(10 * time.Second)
		_, err := node.Start(context.Background(), w.set, node.Options{Name: "a", Source: newMachine().source()})
		var hinted *mayfly.Error
		if !errors.Is(err, mayfly.Conflict) || !errors.As(err, &hinted) || !strings.Contains(hinted.Hint, "its own name") {
			t.Errorf("%v", err)
		}
		time.Sleep(10 * time.Second)
		w.wantShares([]int{16}, a)
		stop(t, a.Node)
		began := time.Now()
		again := w.join("a", node.Options{})
		defer stop(t, again.Node)
		if waited := time.Since(began); waited > 0 {
			t.Errorf("it waited %s for a process that has ended in order", waited)
		}
	})
}

func TestANodeThatWasKilledComesBackUnderItsName(t *testing.T) {
	inCluster(t, func(t *testing.T, w *nodeCluster) {
		a := w.join("a", node.Options{})
		time.Sleep(10 * time.Second)
		a.wire.cutOff()
		again := w.join("a", node.Options{})
		time.Sleep(2 * lease)
		w.wantShares([]int{0, 16}, a, again)
		if err := a.Stop(context.Background()); err == nil {
			t.Error("a node that cannot reach its store has left no mark, and does not say so")
		}
		stop(t, again.Node)
	})
}

// A node was cut off and taken for dead, and another one started under its name. Both
// report it repeatedly, and only one has the entry in the roll.
func TestTwoProcessesOfOneNameAreReported(t *testing.T) {
	inCluster(t, func(t *testing.T, w *nodeCluster) {
		var mu sync.Mutex
		reported := map[string]int{}
		o := node.Options{Problem: func(loop string, err error) {
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, mayfly.Conflict) {
				reported[loop]++
			}
		}}
		a := w.join("a", o)
		a.wire.cutOff()
		twin := w.join("a", o)
		w.settle()
		a.wire.reconnect()
		time.Sleep(20 * time.Second)
		w.wantShares([]int{0, 16}, a, twin)
		mu.Lock()
		if reported["mark"] < 10 || reported["roll"] < 5 {
			t.Errorf("reported %v", reported)
		}
		mu.Unlock()
		_ = a.Stop(context.Background()) // its mark is the twin's by now, or the other way round
		_ = twin.Stop(context.Background())
	})
}

func TestHealthNamesShardsThatNoNodeWalks(t *testing.T) {
	inCluster(t, func(t *testing.T, w *nodeCluster) {
		key := store.Key{Partition: "walk", Clustering: "\x03"}
		if _, _, err := w.set.Rows.Swap(context.Background(), walk.Leases, key, nil, []byte("?"), 0); err != nil {
			t.Fatal(err)
		}
		a := w.join("a", node.Options{Products: node.ProductOptions{Key: newKey(t)}})
		defer stop(t, a.Node)
		admin, _ := a.handlers(t)
		time.Sleep(2 * lease)
		if code, h := ready(t, admin, "/readyz?role=walk"); code != 200 || h.Degraded {
			t.Errorf("%d %+v", code, h)
		}
		time.Sleep(2 * lease)
		code, h := ready(t, admin, "/readyz?role=walk")
		if code != 503 || !h.Degraded || !strings.Contains(h.Roles["walk"], "[3]") {
			t.Errorf("%d %+v", code, h)
		}
		if code, _ := ready(t, admin, "/readyz"); code != 200 {
			t.Error("users can be served without a walk")
		}
		if n := len(a.Shards()); n != mayfly.Shards-1 {
			t.Errorf("it walks %d of the others", n)
		}
	})
}
