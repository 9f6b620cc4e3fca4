package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
)

// served starts a node with its admin handler.
func served(t *testing.T, m *machine) (n *node.Node, admin http.Handler, fuse func(error), closed func()) {
	t.Helper()
	set, done := open(t)
	return servedOn(t, m, set, done)
}

// servedOn starts a node on a store with its admin handler.
func servedOn(t *testing.T, m *machine, set store.Set, done func()) (n *node.Node, admin http.Handler, fuse func(error), closed func()) {
	t.Helper()
	key, err := account.LoadKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	n = start(t, set, node.Options{Source: m.source(), Products: node.ProductOptions{Key: key}})
	api, err := n.API(node.ServeOptions{Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	return n, api.Admin(), func(err error) { set.Fuse.Blow(err) }, func() {
		if err := n.Stop(context.Background()); err != nil && n.Err() == nil {
			t.Error(err)
		}
		done()
	}
}

func ready(t *testing.T, admin http.Handler, path string) (int, wire.Health) {
	t.Helper()
	w := httptest.NewRecorder()
	admin.ServeHTTP(w, httptest.NewRequest("GET", path, http.NoBody))
	var h wire.Health
	if err := json.Unmarshal(w.Body.Bytes(), &h); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return w.Code, h
}

func metrics(admin http.Handler) string {
	w := httptest.NewRecorder()
	admin.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", http.NoBody))
	return w.Body.String()
}

func TestANodeIsReadyUntilItsClockIsUnconfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		_, admin, _, closed := served(t, m)
		defer closed()
		time.Sleep(time.Minute)
		for _, path := range []string{"/readyz", "/readyz?role=api", "/readyz?role=walk", "/healthz"} {
			if code, h := ready(t, admin, path); code != 200 || h.Degraded || h.Version != "v1" {
				t.Errorf("%s: %d %+v", path, code, h)
			}
		}
		text := metrics(admin)
		for _, want := range []string{
			`mayfly_walk_lag_seconds{shard="0",walk="sweep"}`, `mayfly_reminder_lag_seconds{shard="15"}`, "mayfly_clock_confirmed 1",
			`mayfly_reconcile_found_total{what="active"} 0`, "mayfly_dead_letters 0", "mayfly_archive_age_seconds", "mayfly_store_blown 0", "go_goroutines",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the metrics do not say %s", want)
			}
		}
		m.step(time.Hour)
		time.Sleep(time.Minute)
		for _, role := range []string{"api", "walk"} {
			if code, h := ready(t, admin, "/readyz?role="+role); code != 503 || h.Ready || !h.Degraded || !strings.Contains(h.Roles[role], "clock") {
				t.Errorf("%s with a clock in doubt: %d %+v", role, code, h)
			}
		}
		if code, _ := ready(t, admin, "/healthz"); code != 200 {
			t.Error("a clock in doubt ends no process")
		}
		if !strings.Contains(metrics(admin), "mayfly_clock_confirmed 0") {
			t.Error("the metrics do not doubt the clock")
		}
	})
}

// The store below is in no bubble: writes to a failed disk block for good.
func TestANodeWhoseDiskFailedIsNeitherReadyNorAlive(t *testing.T) {
	_, admin, blow, closed := served(t, newMachine())
	defer closed()
	blow(errors.New("no fsync"))
	for _, path := range []string{"/readyz", "/readyz?role=walk", "/healthz"} {
		if code, h := ready(t, admin, path); code != 503 || !h.Degraded {
			t.Errorf("%s: %d %+v", path, code, h)
		}
	}
}

func TestANodeWithoutAKeyHasNoHandlers(t *testing.T) {
	set, closed := open(t)
	defer closed()
	n := start(t, set, node.Options{Idle: true})
	defer stop(t, n)
	if _, err := n.API(node.ServeOptions{}); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("%v", err)
	}
}
