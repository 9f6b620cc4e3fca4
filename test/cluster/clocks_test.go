//go:build servers

package cluster

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// A node whose clock is 61 minutes ahead and one that is as much behind join a node
// whose clock is right: they are not ready, mint nothing, walk nothing and serve
// nothing, and come back when their clocks are right (L7).
func TestNodesWhoseClocksAreWrongServeAndMintNothing(t *testing.T) {
	t.Parallel()
	const proof = "clocks 61 minutes off"
	w := reusedCluster(t, servers(t))
	right := w.start("right", nil)
	ana, ben := w.person(right, "ana"), w.person(right, "ben")
	tag := newName()
	serving, gone := w.publish(ana, tag+"serving", "everyone", "600s"), w.publish(ana, tag+"gone", "everyone", "60s")
	over := w.publish(ana, tag+"over", "everyone", "4s")
	wrong := []*shifted{w.startShifted("ahead", 61*time.Minute), w.startShifted("behind", -61*time.Minute)}
	w.record.deleting(gone.ID)
	if err := ana.Delete(context.Background(), gone.ID); err != nil {
		t.Fatal(err)
	}
	w.record.deletedNow(gone.ID)
	time.Sleep(time.Until(over.ID.Deadline().Time().Add(bound)))

	for until := time.Now().Add(pick(6*time.Second, 30*time.Second)); time.Now().Before(until); {
		for _, s := range wrong {
			s.refuses(serving.ID, gone.ID, over.ID)
			s.walksNothing()
		}
		if _, err := ben.Story(context.Background(), serving.ID); err != nil {
			t.Errorf("the right node: %v", err)
		}
	}
	for _, s := range wrong {
		storetest.Proof(t, proof, "answers of the one "+s.name, sorted(s.answers))
		onlyAnswers(t, "asks of the one "+s.name, s.answers, "read: 503", "ring: 503", "birth: 503")
		if s.answers["read: 503"] < 50 || s.answers["birth: 503"] < 5 || s.looks < 5 {
			t.Error("that tells little")
		}
	}
	eventually(t, 30*time.Second, "the right node walks every shard", func() bool { return len(right.held()) == mayfly.Shards })
	if s, err := ana.Story(context.Background(), serving.ID); err != nil || s.State != "active" {
		t.Errorf("a story that serves is %q, %v", s.State, err)
	}
	for _, s := range wrong {
		back := s.comesBack(serving.ID, gone.ID, over.ID)
		storetest.Proof(t, proof, "the one "+s.name+" is ready after its clock was set right", back.Round(time.Millisecond))
		w.publish(s.ana, tag+s.name, "everyone", "4s")
	}
	for _, s := range wrong {
		s.stop() // what expires while it is being looked at looks early
	}
	w.audit().close(proof)
}

// refuses asks a node whose clock is wrong for everything: a story that serves,
// one that is deleted, one that is over, and a birth.
func (s *shifted) refuses(stories ...mayfly.ID) {
	s.Helper()
	ctx := context.Background()
	h, err := s.operator.Ready(ctx, "")
	if err != nil || h.Ready || h.Roles["api"] == "ready" || h.Roles["walk"] == "ready" {
		s.Fatalf("the one %s says that it is ready: %+v, %v", s.name, h, err)
	}
	if len(s.answers) == 0 {
		s.Logf("the one %s says: %v", s.name, h.Roles)
	}
	for _, p := range []*person{s.ana, s.ben} {
		for _, id := range stories {
			_, err := p.Story(ctx, id)
			s.answers["read: "+answerOf(err)]++
		}
		_, err := p.Ring(ctx, "~ana")
		s.answers["ring: "+answerOf(err)]++
	}
	born, err := s.ana.Publish(ctx, publication(newName(), "everyone", "60s"))
	s.answers["birth: "+answerOf(err)]++
	if err == nil {
		s.Errorf("%s was born at a node whose clock is wrong", born.ID)
		return
	}
	s.record.failedTry(err)
}

// walksNothing wants it to hold no shard, by its own word and by the leases.
func (s *shifted) walksNothing() {
	s.Helper()
	if all := s.node.Shards(); len(all) > 0 {
		s.Fatalf("the one %s says that it walks %v", s.name, all)
	}
	all, err := holders(context.Background(), s.rows)
	if err != nil {
		s.Log(err) // that tells nothing
		return
	}
	s.looks++
	if slices.Contains(all[:], s.holder) {
		s.Fatalf("the one %s holds leases: %v", s.name, all)
	}
}

// comesBack sets its clock right and says how long it takes to be ready; then the
// first of the stories is served, and the others are not.
func (s *shifted) comesBack(stories ...mayfly.ID) time.Duration {
	s.Helper()
	s.shift.Store(0)
	took := eventually(s, 30*time.Second, "the one "+s.name+" comes back when its clock is right", func() bool {
		h, err := s.operator.Ready(context.Background(), "")
		return err == nil && h.Ready
	})
	for i, id := range stories {
		asked := time.Now()
		story, err := s.ben.Story(context.Background(), id)
		s.record.read(s.record.notes[id], false, asked, story, err)
		if (err == nil) != (i == 0) {
			s.Errorf("the one %s, which is right again, answers %s: %v", s.name, id, err)
		}
	}
	return took
}

// shifted is a node in this process with a clock of its own.
type shifted struct {
	*testCluster
	name               string
	shift              atomic.Int64 // nanoseconds
	ana, ben, operator *person
	answers            map[string]int
	node               *node.Node
	holder             string
	rows               store.Rows
	looks              int // at the leases
	stop               func()
}

// startShifted starts a node whose wall is off.
func (w *testCluster) startShifted(name string, off time.Duration) *shifted {
	w.Helper()
	s := &shifted{testCluster: w, name: name, answers: map[string]int{}}
	s.shift.Store(int64(off))
	source := clock.System()
	read := source.Read
	source.Read = func() clock.Moment {
		m := read()
		m.Wall += s.shift.Load()
		return m
	}
	own := clock.New(source, clock.Options{}, clock.Mark{})
	cfg := w.config(name, nil)
	st := w.openBy(cfg, profile.Time{
		Now:     func() mayfly.Instant { return own.Read().Steady },
		Elapsed: func() time.Duration { return source.Read().Boot },
	})
	o := node.FromConfig(cfg)
	o.Source, o.Products.Key, o.Walk.Holder = source, w.key, name+"-"+newName()
	n, err := node.Start(context.Background(), st.Set, o)
	if err != nil {
		w.Fatal(err)
	}
	s.node, s.holder, s.rows = n, o.Walk.Holder, st.Set.Rows
	s.stop = sync.OnceFunc(func() {
		if err := n.Stop(context.Background()); err != nil {
			w.Error(err)
		}
	})
	w.Cleanup(s.stop)
	handlers, err := n.API(node.ServeOptions{Listen: cfg.Listen, Version: "test"})
	if err != nil {
		w.Fatal(err)
	}
	serve := func(h http.Handler) string {
		server := httptest.NewServer(h)
		w.Cleanup(server.Close)
		return server.URL
	}
	public := serve(handlers.Public())
	s.ana, s.ben = w.personAt(public, "ana", account.User), w.personAt(public, "ben", account.User)
	s.operator = w.personAt(serve(handlers.Admin()), "operator", account.Admin)
	return s
}
