//go:build servers

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/product/paste"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// A thousand readers at three nodes claim a paste at once, also while two claims of
// three lose their request or their answer: exactly as many succeed as the author
// allowed, but for readers who get no answer, in an order that one counter could have
// given them, and then the paste is gone at every node (P4).
func TestOfReadersAtThreeNodesExactlyTheAllowedNumberSucceeds(t *testing.T) {
	t.Parallel()
	random := seeded(t)
	w := reusedCluster(t, servers(t))
	claims := &lossyClaims{random: random}
	var nodes []http.Handler
	for _, name := range []string{"a", "b", "c"} {
		nodes = append(nodes, w.serveHere(name, map[string]string{"pastes.anonymous": "true"}, claims.hook))
	}
	lost := 0
	for _, reads := range []int{1, 7} {
		claims.set(false)
		w.race(random, nodes, reads, "")
		for range 3 {
			claims.set(true)
			w.race(random, nodes, reads, ", claims lost")
			lost += claims.set(false)
		}
	}
	storetest.Proof(t, proofOfReads, "claims of which the request or the answer was lost", lost)
	if lost < 5 {
		t.Error("that is little")
	}
}

const proofOfReads = "readers of a paste at three nodes"

// race lets 1,000 readers claim a paste that can be read so often, and judges what
// they get.
func (w *testCluster) race(random *rand.Rand, nodes []http.Handler, reads int, how string) {
	w.Helper()
	url := createPaste(w.T, nodes[0], reads)
	began := time.Now()
	history := attempts(random, nodes, url, 1000)
	count := map[outcome]int{}
	for _, a := range history {
		count[a.outcome]++
	}
	storetest.Proof(w, proofOfReads, fmt.Sprintf("%d of 1,000%s: read, refused, no answer", reads, how),
		fmt.Sprintf("%d, %d, %d in %s", count[wasRead], count[wasRefused], count[unanswered], time.Since(began).Round(time.Millisecond)))
	// A claim that was written and whose reader got no answer has used up its read.
	exact := count[wasRead] == reads && count[unanswered] == 0
	if linear := counted(history, reads); !linear || how == "" && !exact {
		w.Errorf("%d reads%s: %v, linearizable %t", reads, how, count, linear)
	}
	for n, h := range nodes {
		if a := send(h, http.MethodGet, url, ""); a.Code != http.StatusNotFound {
			w.Errorf("%d reads%s: node %d answers %d afterwards", reads, how, n, a.Code)
		}
	}
}

// serveHere starts a node of the cluster in this process, on a store that change may
// wrap, and returns its public API.
func (w *testCluster) serveHere(name string, sets map[string]string, change func(*store.Set)) http.Handler {
	w.Helper()
	cfg := w.config(name, sets)
	set := w.open(cfg).Set
	change(&set)
	o := node.FromConfig(cfg)
	o.Products.Key = w.key
	n, err := node.Start(context.Background(), set, o)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := n.Stop(context.Background()); err != nil {
			w.Error(err)
		}
	})
	api, err := n.API(node.ServeOptions{Listen: cfg.Listen, Version: "test"})
	if err != nil {
		w.Fatal(err)
	}
	return api.Public()
}

func send(h http.Handler, method, target, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", jsonType)
	}
	a := httptest.NewRecorder()
	h.ServeHTTP(a, r)
	return a
}

// words is what the paste says.
const words = "to be read by few"

// createPaste returns the path of the bytes of a paste that can be read so often.
func createPaste(t *testing.T, h http.Handler, reads int) string {
	t.Helper()
	a := send(h, http.MethodPost, "/v1/pastes", fmt.Sprintf(`{"content":%q,"lifetime":"1h","reads":%d}`, words, reads))
	var p wire.Paste
	if err := json.Unmarshal(a.Body.Bytes(), &p); err != nil || a.Code != http.StatusCreated {
		t.Fatalf("%d %s: %v", a.Code, a.Body, err)
	}
	return "/raw/" + p.Short
}

// lossyClaims loses claims of pastes at random, before or after they are written.
type lossyClaims struct {
	mu     sync.Mutex
	random *rand.Rand
	on     bool
	lost   int
}

// set turns it on or off and returns how many were lost since the last call.
func (l *lossyClaims) set(on bool) (lost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost, l.lost, l.on = l.lost, 0, on
	return lost
}

func (l *lossyClaims) hook(set *store.Set) {
	set.Rows = fixture.Hook(*set, &fixture.Hooks{Swap: func(_ context.Context, t store.Table, _ store.Key, do fixture.Swap) (bool, []byte, error) {
		if t != paste.Claims {
			return do()
		}
		switch l.next() {
		case 0:
			return do()
		case 1:
			return false, nil, mayfly.Errorf(mayfly.Unknown, "the request is lost")
		default:
			_, _, err := do()
			return false, nil, errors.Join(mayfly.Errorf(mayfly.Unknown, "the answer is lost"), err)
		}
	}}).Rows
}

// next is 0 if nothing is lost, 1 for a request and 2 for an answer.
func (l *lossyClaims) next() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.on {
		return 0
	}
	fate := l.random.IntN(3)
	l.lost += min(fate, 1)
	return fate
}

// outcome is how a request ended.
type outcome int

const (
	wasRead outcome = iota
	wasRefused
	unanswered // it may have used up a read, or not
)

// attempt is a request that uses up a read, and when it was under way.
type attempt struct {
	began, ended time.Duration
	outcome
}

// attempts are what readers get who begin within a tenth of a second.
func attempts(random *rand.Rand, nodes []http.Handler, url string, racing int) []attempt {
	history := make([]attempt, racing)
	origin := time.Now()
	var wg sync.WaitGroup
	for i := range history {
		after := time.Duration(random.IntN(100)) * time.Millisecond
		wg.Go(func() {
			time.Sleep(after)
			one := attempt{began: time.Since(origin), outcome: unanswered}
			a := send(nodes[i%len(nodes)], http.MethodPost, url, "")
			switch one.ended = time.Since(origin); {
			case a.Code == http.StatusOK && a.Body.String() == words:
				one.outcome = wasRead
			case a.Code == http.StatusNotFound:
				one.outcome = wasRefused
			}
			history[i] = one
		})
	}
	wg.Wait()
	return history
}

// counted says whether a history is linearizable: whether some order of its requests,
// each at an instant at which it was under way, lets the first n succeed and refuses
// all others. A request without an answer may have been one of the n, at any time
// since it began. Of the refusals only the one that returned first is judged: the n are
// used up for good by then, so that every other one may come at its own end.
func counted(history []attempt, n int) bool {
	counter := porcupine.NondeterministicModel{
		Init: func() []any { return []any{0} },
		Step: func(state, _, output any) []any {
			used := state.(int)
			switch left := used < n; {
			case output == wasRead && left:
				return []any{used + 1}
			case output == wasRefused && !left:
				return []any{used}
			case output == unanswered && left:
				return []any{used, used + 1}
			case output == unanswered:
				return []any{used}
			}
			return nil
		},
	}
	first := time.Duration(math.MaxInt64) // end of a refusal
	for _, a := range history {
		if a.outcome == wasRefused {
			first = min(first, a.ended)
		}
	}
	var operations []porcupine.Operation
	for i, a := range history {
		if a.outcome == wasRefused && a.ended > first {
			continue
		}
		if a.outcome == unanswered {
			a.ended = math.MaxInt64
		}
		operations = append(operations, porcupine.Operation{ClientId: i, Call: int64(a.began), Output: a.outcome, Return: int64(a.ended)})
	}
	return porcupine.CheckOperationsTimeout(counter.ToModel(), operations, 10*time.Second) == porcupine.Ok
}

func TestAHistoryThatNoCounterGivesIsFound(t *testing.T) {
	for _, c := range []struct {
		name    string
		n       int
		history []attempt
		wrong   bool
	}{
		{"one reads, one is refused", 1, []attempt{{0, 2, wasRead}, {1, 3, wasRefused}}, false},
		{"a refusal returns before the read that caused it", 1, []attempt{{0, 5, wasRead}, {1, 2, wasRefused}}, false},
		{"a lost claim used it up", 1, []attempt{{0, 1, unanswered}, {2, 3, wasRefused}}, false},
		{"a lost claim used up nothing", 1, []attempt{{0, 1, unanswered}, {2, 3, wasRead}, {4, 5, wasRefused}}, false},
		{"nothing is used up yet", 2, []attempt{{0, 1, wasRead}, {2, 3, unanswered}}, false},
		{"two read", 1, []attempt{{0, 2, wasRead}, {1, 3, wasRead}}, true},
		{"it is refused and then read", 1, []attempt{{0, 1, wasRefused}, {2, 3, wasRead}}, true},
		{"it is refused with a read left", 2, []attempt{{0, 1, wasRead}, {2, 3, wasRefused}}, true},
		{"it is refused before the claim that was lost", 1, []attempt{{0, 1, wasRefused}, {2, 3, unanswered}}, true},
	} {
		if counted(c.history, c.n) == c.wrong {
			t.Errorf("%s: judged wrongly", c.name)
		}
	}
}
