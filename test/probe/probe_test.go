package probe_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/logread"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
	"github.com/mayflyhq/mayfly/test/probe"
)

const path = "/v1/me/births"

// serve starts a node with the probe added to its products, with loops.
func serve(t *testing.T, p *probe.Probe, off bool) *nodetest.Server {
	t.Helper()
	return nodetest.Serve(t, nodetest.Options{
		Products: []node.Product{p.Product(off)},
		Node:     func(o *node.Options) { o.Idle = false },
	})
}

// lagsOf returns how far the probe's readers are behind.
func lagsOf(s *nodetest.Server) []logread.Lag {
	return slices.DeleteFunc(s.Lags(), func(l logread.Lag) bool { return l.Group != probe.Name })
}

// published publishes a story by ana and waits until the probe has handled its event.
func published(t *testing.T, s *nodetest.Server, p *probe.Probe) mayfly.ID {
	t.Helper()
	story := s.Publish("ana", `{"audience":"everyone"}`)
	if _, err := p.Committed.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return story.ID
}

func TestAProductIsAddedByOneEntry(t *testing.T) {
	p := probe.New(probe.Table())
	s := serve(t, p, false)
	id := published(t, s, p)

	s.Get("anonymous", path, http.StatusUnauthorized)
	s.Get("service", path, http.StatusForbidden)
	if got := nodetest.ReadJSON[probe.Births](t, s.Get("ana", path, http.StatusOK)); got.Births != 1 {
		t.Errorf("ana has %d births", got.Births)
	}
	if got := nodetest.ReadJSON[probe.Births](t, s.Get("ben", path, http.StatusOK)); got.Births != 0 {
		t.Errorf("ben has %d births", got.Births)
	}
	if document := s.Get("anonymous", "/openapi.json", http.StatusOK).Body.String(); !strings.Contains(document, `"countBirths"`) {
		t.Error("the document does not have the probe's route")
	}
	if lags := lagsOf(s); len(lags) != 1 || lags[0].Stream != mayfly.Births {
		t.Errorf("lags %+v", lags)
	}
	metrics := s.Want(nodetest.Request{As: "admin", Method: http.MethodGet, Path: "/metrics", Admin: true}, http.StatusOK).Body.String()
	for _, want := range []string{`mayfly_consumer_lag{group="probe",stream="births"}`, `product="probe"`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics do not have %s", want)
		}
	}
	if _, err := s.Explain(t.Context(), id, mayfly.Viewer{}, s.Now()); err != nil {
		t.Error(err)
	}
	if !p.Started {
		t.Error("the probe was not started")
	}
}

// erased erases the account of ana, of whom the probe has counted one story, and
// returns what the proof names before and after.
func erased(t *testing.T, s *nodetest.Server) (before, after []string, receipt accounterase.Receipt) {
	t.Helper()
	named := func() []string {
		left, err := s.AccountErase().Scan(t.Context(), nodetest.User("ana"))
		s.Must(err)
		return slices.DeleteFunc(left.Examples, func(e string) bool { return !strings.HasPrefix(e, probe.Name) })
	}
	before = named()
	receipt, err := s.AccountErase().Account(t.Context(), nodetest.User("ana"), audit.Actor{Subject: "support"}, "asked to", s.Now())
	s.Must(err)
	return before, named(), receipt
}

// The proof finds what the product holds before the erasure, in its table and
// outside of it, and nothing after it.
func TestAccountErasureAndItsProofCoverAProduct(t *testing.T) {
	for name, off := range map[string]bool{"on": false, "off": true} {
		t.Run(name, func(t *testing.T) {
			p := probe.New(probe.Table())
			on := serve(t, p, false)
			published(t, on, p)
			s := on
			if off { // the same data, in a node that has the product switched off
				if err := on.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
				s = nodetest.Serve(t, nodetest.Options{Engine: on.Engine, Products: []node.Product{p.Product(true)}})
			}
			before, after, receipt := erased(t, s)
			if len(before) != 2 || !strings.HasPrefix(before[0], probe.Table().Name) || len(after) != 0 {
				t.Errorf("named before: %v; after: %v", before, after)
			}
			left, err := p.Count(t.Context(), nodetest.User("ana"))
			if receipt.Rows[probe.Table().Name] != 1 || receipt.Rows[probe.Name] != 1 || left+p.Greeted(nodetest.User("ana")) != 0 || err != nil {
				t.Errorf("receipt %+v, %d left, %v", receipt.Rows, left, err)
			}
		})
	}
}

// A rule that says too little leaves rows, and the proof does not believe it.
func TestTheProofNamesRowsThatAWrongErasureRuleLeaves(t *testing.T) {
	for name, rule := range map[string]store.Erasure{"no user": store.NoUser, "names items": store.NamesItems, "partition is item": store.PartitionIsItem} {
		t.Run(name, func(t *testing.T) {
			d := probe.Table()
			d.Erasure = rule
			p := probe.New(d)
			s := serve(t, p, false)
			published(t, s, p)
			if _, after, _ := erased(t, s); len(after) != 1 || !strings.HasPrefix(after[0], d.Name) {
				t.Errorf("the proof names %v", after)
			}
		})
	}
}

func TestAProductThatIsOffHasNoRoutesAndNoReaders(t *testing.T) {
	p := probe.New(probe.Table())
	s := serve(t, p, true)
	s.Publish("ana", `{"audience":"everyone"}`)
	s.Get("ana", path, http.StatusNotFound)
	if len(lagsOf(s)) != 0 || p.Started || p.Greeted(nodetest.User("ana")) != 0 {
		t.Errorf("lags %+v, started %t", lagsOf(s), p.Started)
	}
}

func TestTheHookRunsAtTheFirstRequestOfEachUserAndAgainAfterAnError(t *testing.T) {
	p := probe.New(probe.Table())
	s := serve(t, p, false)
	ana, ben := nodetest.User("ana"), nodetest.User("ben")
	for range 3 {
		s.Get("ana", path, http.StatusOK)
	}
	s.Get("anonymous", path, http.StatusUnauthorized)
	if p.Greeted(ana) != 1 || p.Greeted(ben) != 0 {
		t.Errorf("ana %d, ben %d", p.Greeted(ana), p.Greeted(ben))
	}
	p.HookFail = errors.New("unavailable")
	s.Get("ben", path, http.StatusOK)
	p.HookFail = nil
	s.Get("ben", path, http.StatusOK)
	s.Get("ben", path, http.StatusOK)
	if p.Greeted(ben) != 2 {
		t.Errorf("ben %d", p.Greeted(ben))
	}
}

func TestProductsNeedNamesOfTheirOwn(t *testing.T) {
	p := probe.New(probe.Table())
	s := nodetest.Start(t, nodetest.Options{})
	_, err := node.Start(t.Context(), s.Set, node.Options{Idle: true, Source: s.Machine.Source()}, p.Product(false), p.Product(false))
	if !errors.Is(err, mayfly.Invalid) {
		t.Errorf("two products of one name: %v", err)
	}
}
