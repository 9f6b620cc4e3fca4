package node_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/pace"
)

// asks returns the answer to a user's request.
func asks(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, http.NoBody))
	return w
}

func (w *nodeCluster) origin() []byte {
	w.t.Helper()
	found, err := w.set.Rows.Get(context.Background(), walk.Watermarks, store.Key{Partition: "origin"})
	if err != nil {
		w.t.Fatal(err)
	}
	return found[0]
}

// A node whose clock is off publishes nothing, walks nothing and serves nothing (L7).
func TestANodeWhoseClockIsOffDoesNothingUntilItIsRight(t *testing.T) {
	for way, off := range map[string]time.Duration{"ahead of": 61 * time.Minute, "behind": -61 * time.Minute} {
		t.Run(way, func(t *testing.T) {
			inCluster(t, func(t *testing.T, w *nodeCluster) {
				m := newMachine()
				m.step(off)
				bad := w.join("bad", node.Options{Source: m.source(), Products: node.ProductOptions{Key: newKey(t)}})
				defer func() { stop(t, bad.Node) }()
				admin, public := bad.handlers(t)
				time.Sleep(10 * time.Second)
				if w.origin() != nil {
					t.Error("the walks begin where a wrong clock says")
				}
				good := w.join("good", node.Options{})
				defer func() { stop(t, good.Node) }()
				item := mustPublish(t, good.Node, 30*time.Second)
				long := mustPublish(t, good.Node, 24*time.Hour)
				time.Sleep(40 * time.Second)

				w.wantShares([]int{0, 16}, bad, good)
				if err := w.expired([]mayfly.Item{item}); err != nil {
					t.Error(err)
				}
				var hinted *mayfly.Error
				if _, err := publish(bad.Node, time.Hour); !errors.Is(err, mayfly.Unavailable) || !errors.As(err, &hinted) || hinted.Hint == "" {
					t.Errorf("a birth: %v", err)
				}
				for _, path := range []string{"/v1/stories/" + item.ID.String(), "/v1/stories/" + long.ID.String(), "/docs/api", "/v1/me/archive"} {
					if a := asks(public, path); a.Code != 503 || a.Header().Get("Retry-After") == "" {
						t.Errorf("%s: %d %s", path, a.Code, a.Body)
					}
				}
				for _, role := range []string{"", "?role=api", "?role=walk"} {
					if code, h := ready(t, admin, "/readyz"+role); code != 503 || h.Ready || !h.Degraded || !strings.Contains(h.Roles["api"], "1h1m0s "+way) || strings.Count(h.Roles["api"], "correct this machine's clock") != 1 {
						t.Errorf("%s: %d %+v", role, code, h)
					}
				}
				if code, _ := ready(t, admin, "/healthz"); code != 200 {
					t.Error("a wrong clock ends no process")
				}
				if text := metrics(admin); !strings.Contains(text, "mayfly_clock_off 1") || !strings.Contains(text, "mayfly_clock_offset_seconds") || !strings.Contains(text, "mayfly_shards_held 0") {
					t.Error("the metrics do not say it")
				}
				if got := mark(t, w.set, "bad"); got.At != 0 {
					t.Errorf("a wrong clock left the mark %s", got.At)
				}

				m.step(-off)
				time.Sleep(2 * lease)
				w.wantShares([]int{8, 8}, bad, good)
				mustPublish(t, bad.Node, time.Hour)
				if a := asks(public, "/v1/stories/"+long.ID.String()); a.Code != 200 {
					t.Errorf("back, and it answers %d %s", a.Code, a.Body)
				}
				if code, h := ready(t, admin, "/readyz"); code != 200 || h.Degraded {
					t.Errorf("back: %d %+v", code, h)
				}
				if !strings.Contains(metrics(admin), "mayfly_clock_off 0") {
					t.Error("the metrics do not say that it is back")
				}
			})
		})
	}
}

// A correction that a node alone would follow takes one of several out of bound.
func TestANodeThatGoesOffWhileItRunsStopsAtOnce(t *testing.T) {
	inCluster(t, func(t *testing.T, w *nodeCluster) {
		a := w.join("a", node.Options{Products: node.ProductOptions{Key: newKey(t)}})
		defer func() { stop(t, a.Node) }()
		_, public := a.handlers(t)
		b := w.join("b", node.Options{})
		defer func() { stop(t, b.Node) }()
		w.settle()
		item := mustPublish(t, a.Node, 3*time.Minute)
		saved := mark(t, w.set, "a")
		a.machine.step(4 * time.Minute)
		if r := asks(public, "/v1/stories/"+item.ID.String()); r.Code != 503 {
			t.Errorf("in the same instant it answered %d: by its clock the story has ended", r.Code)
		}
		if _, err := publish(a.Node, time.Hour); !errors.Is(err, mayfly.Unavailable) {
			t.Errorf("in the same instant: %v", err)
		}
		time.Sleep(2 * lease)
		w.wantShares([]int{0, 16}, a, b)
		if s := state(t, w.set, item.ID); s != mayfly.Active {
			t.Errorf("I5: it is %s", s)
		}
		if got := mark(t, w.set, "a"); got.At.Sub(saved.At) > 2*time.Second {
			t.Errorf("the mark went on to %s", got.At)
		}
		a.machine.step(-4 * time.Minute)
		time.Sleep(2 * lease)
		w.wantShares([]int{8, 8}, a, b)
		if r := asks(public, "/v1/stories/"+item.ID.String()); r.Code != 200 {
			t.Errorf("back, and it answers %d", r.Code)
		}
	})
}

// A store that cannot say its time for a while changes nothing.
func TestANodeThatCannotCompareKeepsItsVerdictForTenMinutes(t *testing.T) {
	pace.Heavy(t, "a node that lives for hours of virtual time")
	inCluster(t, func(t *testing.T, w *nodeCluster) {
		mute := &muteServers{}
		w.set.Time = mute
		mute.away.Store(true)
		a := w.join("a", node.Options{})
		defer func() { stop(t, a.Node) }()
		time.Sleep(10 * time.Second)
		if _, err := publish(a.Node, time.Hour); !errors.Is(err, mayfly.Unavailable) {
			t.Errorf("never compared: %v", err)
		}
		mute.away.Store(false)
		time.Sleep(2 * time.Second)
		mustPublish(t, a.Node, time.Hour)
		w.wantShares([]int{16}, a)
		mute.away.Store(true)
		time.Sleep(9 * time.Minute)
		mustPublish(t, a.Node, time.Hour)
		w.wantShares([]int{16}, a)
		time.Sleep(2 * time.Minute)
		if _, err := publish(a.Node, time.Hour); !errors.Is(err, mayfly.Unavailable) {
			t.Errorf("not compared for eleven minutes: %v", err)
		}
		mute.away.Store(false)
		time.Sleep(lease)
		mustPublish(t, a.Node, time.Hour)
		w.wantShares([]int{16}, a)
	})
}

type muteServers struct {
	servers
	away atomic.Bool
}

func (m *muteServers) Time(ctx context.Context) ([]mayfly.Instant, error) {
	if m.away.Load() {
		return nil, mayfly.Errorf(mayfly.Unavailable, "away")
	}
	return m.servers.Time(ctx)
}

func TestAnIdleNodeWithAWrongClockDoesNotStart(t *testing.T) {
	inCluster(t, func(t *testing.T, w *nodeCluster) {
		m := newMachine()
		m.step(time.Hour)
		if _, err := node.Start(context.Background(), w.set, node.Options{Idle: true, Source: m.source()}); !errors.Is(err, mayfly.Unavailable) {
			t.Errorf("%v", err)
		}
	})
}
