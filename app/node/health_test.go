package node_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/store"
)

// patchy is a ledger in which some reads do not return.
type patchy struct {
	store.Ledger
	mu    sync.Mutex
	reads int
	away  func(read int) error // of the n-th read since it was set; nil: it answers
	ids   map[mayfly.ID]bool
}

func (p *patchy) spoil(away func(read int) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reads, p.away, p.ids = 0, away, map[mayfly.ID]bool{}
}

func (p *patchy) Get(ctx context.Context, ids ...mayfly.ID) ([]store.Found, error) {
	p.mu.Lock()
	n, away := p.reads, p.away
	p.reads++
	if away != nil {
		p.ids[ids[0]] = true
	}
	p.mu.Unlock()
	if away != nil {
		err := away(n)
		if errors.Is(err, errHangs) {
			<-ctx.Done()
		}
		if err != nil {
			return nil, err
		}
	}
	return p.Ledger.Get(ctx, ids...)
}

var (
	errHangs = errors.New("it hangs")
	errAway  = errors.New("the quorum of this partition is away")
)

// onPatchy starts a node on a ledger that can be broken, with its two handlers.
func onPatchy(t *testing.T, test func(p *patchy, n *node.Node, admin, public http.Handler)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		set, closed := open(t)
		defer closed()
		p := &patchy{Ledger: set.Ledger}
		set.Ledger = p
		n := start(t, set, node.Options{Source: newMachine().source(), Idle: true, Products: node.ProductOptions{Key: newKey(t)}})
		defer stop(t, n)
		api, err := n.API(node.ServeOptions{Version: "v1"})
		if err != nil {
			t.Fatal(err)
		}
		test(p, n, api.Admin(), api.Public())
	})
}

func TestOneUnavailablePartitionLeavesANodeReady(t *testing.T) {
	for name, err := range map[string]error{"it fails": errAway, "it hangs": errHangs} {
		t.Run(name, func(t *testing.T) {
			onPatchy(t, func(p *patchy, _ *node.Node, admin, public http.Handler) {
				p.spoil(func(read int) error {
					if read < 2 {
						return err
					}
					return nil
				})
				began := time.Now()
				if code, h := ready(t, admin, "/readyz?role=api"); code != 200 {
					t.Errorf("%d %+v", code, h)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("it waited %s for what hangs", took)
				}
				if a := asks(public, "/readyz"); a.Code != 200 {
					t.Errorf("%d %s", a.Code, a.Body)
				}
			})
		})
	}
}

func TestALedgerThatDoesNotAnswerAtAllMakesANodeNotReadyInTime(t *testing.T) {
	for name, err := range map[string]error{"it fails": errAway, "it hangs": errHangs} {
		t.Run(name, func(t *testing.T) {
			onPatchy(t, func(p *patchy, _ *node.Node, admin, public http.Handler) {
				if code, _ := ready(t, admin, "/readyz"); code != 200 {
					t.Fatal(code)
				}
				time.Sleep(time.Second)
				p.spoil(func(int) error { return err })
				began := time.Now()
				if code, h := ready(t, admin, "/readyz?role=api"); code != 503 || !strings.Contains(h.Roles["api"], "cannot be read") {
					t.Errorf("%d %+v", code, h)
				}
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("it took %s", took)
				}
				if a := asks(public, "/readyz"); a.Code != 503 || a.Header().Get("Retry-After") == "" {
					t.Errorf("%d %s", a.Code, a.Body)
				}
				p.spoil(nil)
				time.Sleep(time.Second)
				if code, h := ready(t, admin, "/readyz"); code != 200 {
					t.Errorf("it is back: %d %+v", code, h)
				}
			})
		})
	}
}

// Any client may call the public /readyz: its load on the store is bounded.
func TestReadinessReadsOtherPartitionsEachTimeAndTheStoreOnceASecond(t *testing.T) {
	onPatchy(t, func(p *patchy, _ *node.Node, _, public http.Handler) {
		p.spoil(func(int) error { return nil })
		for range 10 {
			for range 100 {
				if a := asks(public, "/readyz"); a.Code != 200 {
					t.Fatalf("%d %s", a.Code, a.Body)
				}
			}
			synctest.Wait()
			time.Sleep(time.Second)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.reads != 30 || len(p.ids) != 30 {
			t.Errorf("%d reads of %d ids", p.reads, len(p.ids))
		}
	})
}

// A caller that leaves before the answer says nothing about the ledger.
func TestAReadinessCheckWhoseCallerHasLeftIsStillRight(t *testing.T) {
	onPatchy(t, func(_ *patchy, _ *node.Node, admin, public http.Handler) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		public.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/readyz", http.NoBody).WithContext(ctx))
		if code, h := ready(t, admin, "/readyz"); code != 200 {
			t.Errorf("%d %+v", code, h)
		}
	})
}

func TestANodeThatWillStopIsNotReadyAndStillAnswers(t *testing.T) {
	inCluster(t, func(t *testing.T, w *nodeCluster) {
		a := w.join("a", node.Options{Products: node.ProductOptions{Key: newKey(t)}})
		defer func() { stop(t, a.Node) }()
		admin, public := a.handlers(t)
		item := mustPublish(t, a.Node, 10*time.Second)
		long := mustPublish(t, a.Node, time.Hour)
		a.Leave()
		for _, path := range []string{"/readyz", "/readyz?role=api", "/readyz?role=walk"} {
			if code, h := ready(t, admin, path); code != 503 || h.Ready || !strings.Contains(h.Roles["api"], "draining") || !strings.Contains(h.Roles["walk"], "draining") {
				t.Errorf("%s: %d %+v", path, code, h)
			}
		}
		if a := asks(public, "/readyz"); a.Code != 503 || strings.TrimSpace(a.Body.String()) != `{"ready":false}` {
			t.Errorf("%d %s", a.Code, a.Body)
		}
		if code, _ := ready(t, admin, "/healthz"); code != 200 {
			t.Error("it is alive")
		}
		time.Sleep(15 * time.Second)
		if a := asks(public, "/v1/stories/"+long.ID.String()); a.Code != 200 {
			t.Errorf("%d %s", a.Code, a.Body)
		}
		if err := w.expired([]mayfly.Item{item}); err != nil {
			t.Errorf("it stopped to walk: %v", err)
		}
	})
}
