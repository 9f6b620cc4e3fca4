package node_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/test/pace"
)

func TestRolesAreParsed(t *testing.T) {
	got, err := node.ParseRoles([]string{"api", "walk", "all"})
	if err != nil || !slices.Equal(got, []node.Role{node.API, node.Walk, node.All}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := node.ParseRoles(nil); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := node.ParseRoles([]string{"sweeper"}); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("%v", err)
	}
}

func TestAnAPINodeServesAndWalksNothing(t *testing.T) {
	inCluster(t, func(t *testing.T, w *nodeCluster) {
		var reclaimed atomic.Int32
		reclaim := func(context.Context, mayfly.Instant) error { reclaimed.Add(1); return nil }
		api := w.join("api", node.Options{Roles: []node.Role{node.API}, Reclaim: reclaim, Products: node.ProductOptions{Key: newKey(t)}})
		defer func() { stop(t, api.Node) }()
		admin, public := api.handlers(t)
		item := mustPublish(t, api.Node, 10*time.Second)
		if a := asks(public, "/v1/stories/"+item.ID.String()); a.Code != 200 {
			t.Errorf("%d %s", a.Code, a.Body)
		}
		time.Sleep(time.Minute)
		if s := state(t, w.set, item.ID); s != mayfly.Active {
			t.Errorf("it walks: %s", s)
		}
		if roll, err := walk.Members(context.Background(), w.set.Rows, mayfly.InstantOf(time.Now())); err != nil || len(roll) > 0 {
			t.Errorf("the roll: %v, %v", roll, err)
		}
		if n := reclaimed.Load(); n > 0 {
			t.Errorf("it did the upkeep %d times", n)
		}
		if got := mark(t, w.set, "api"); got.At < item.ID.Birth().Add(50*time.Second) {
			t.Errorf("its mark stays at %s", got.At)
		}
		for _, path := range []string{"/readyz", "/readyz?role=api"} {
			if code, h := ready(t, admin, path); code != 200 || h.Degraded {
				t.Errorf("%s: %d %+v", path, code, h)
			}
		}
		if code, h := ready(t, admin, "/readyz?role=walk"); code != 503 || !strings.Contains(h.Roles["walk"], "does not walk") {
			t.Errorf("%d %+v", code, h)
		}
	})
}

func TestAWalkNodeWalksAndServesNoUser(t *testing.T) {
	inCluster(t, func(t *testing.T, w *nodeCluster) {
		api := w.join("api", node.Options{Roles: []node.Role{node.API}})
		defer func() { stop(t, api.Node) }()
		walker := w.join("walk", node.Options{Roles: []node.Role{node.Walk}, Products: node.ProductOptions{Key: newKey(t)}})
		defer func() { stop(t, walker.Node) }()
		admin, public := walker.handlers(t)
		item := mustPublish(t, api.Node, 10*time.Second)
		if a := asks(public, "/v1/stories/"+item.ID.String()); a.Code != 503 || a.Header().Get("Retry-After") == "" || !strings.Contains(a.Body.String(), "role api") {
			t.Errorf("%d %s", a.Code, a.Body)
		}
		time.Sleep(15 * time.Second)
		if err := w.expired([]mayfly.Item{item}); err != nil {
			t.Error(err)
		}
		w.wantShares([]int{0, 16}, api, walker)
		for _, path := range []string{"/readyz", "/readyz?role=walk", "/healthz"} {
			if code, h := ready(t, admin, path); code != 200 || h.Degraded {
				t.Errorf("%s: %d %+v", path, code, h)
			}
		}
		if code, _ := ready(t, admin, "/readyz?role=api"); code != 503 {
			t.Errorf("it is ready for users: %d", code)
		}
		if !strings.Contains(metrics(admin), "mayfly_shards_held 16") {
			t.Error("the metrics do not say what it holds")
		}
	})
}

// When that node stops, another one does it.
func TestOneNodeOfSeveralDoesTheUpkeep(t *testing.T) {
	inCluster(t, func(t *testing.T, w *nodeCluster) {
		var counts [2]atomic.Int32
		join := func(name string, i int) *member {
			return w.join(name, node.Options{ReclaimEvery: 5 * time.Second, Reclaim: func(context.Context, mayfly.Instant) error {
				counts[i].Add(1)
				return nil
			}})
		}
		a, b := join("a", 0), join("b", 1)
		defer func() { stop(t, b.Node) }()
		time.Sleep(time.Minute)
		if x, y := counts[0].Load(), counts[1].Load(); x < 11 || y != 0 {
			t.Errorf("a did it %d times, b %d times", x, y)
		}
		stop(t, a.Node)
		time.Sleep(30 * time.Second)
		if y := counts[1].Load(); y < 4 {
			t.Errorf("b does it no more than %d times", y)
		}
	})
}

// The lag of a shard counts on the node that holds it.
func TestOnlyTheHolderReportsTheLagOfAShard(t *testing.T) {
	pace.Heavy(t, "a node that lives for hours of virtual time")
	inCluster(t, func(t *testing.T, w *nodeCluster) {
		a := w.join("a", node.Options{Products: node.ProductOptions{Key: newKey(t)}})
		defer func() { stop(t, a.Node) }()
		admin, _ := a.handlers(t)
		b := w.join("b", node.Options{})
		defer func() { stop(t, b.Node) }()
		time.Sleep(30 * time.Minute)
		text := metrics(admin)
		if !strings.Contains(text, `mayfly_walk_lag_seconds{shard="0",walk="sweep"}`) || strings.Contains(text, `mayfly_walk_lag_seconds{shard="1",walk="sweep"}`) {
			t.Error("a holds the even shards, and tells of others")
		}
		if code, h := ready(t, admin, "/readyz?role=walk"); code != 200 || h.Degraded {
			t.Errorf("%d %+v", code, h)
		}
	})
}
