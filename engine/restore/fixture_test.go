package restore_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

const window = 30 * time.Minute

// env is a store with all steps of an item's life. The Restore under test uses Set,
// everything else uses Real.
type env struct {
	*fixture.Engine
	origin  mayfly.Instant
	options restore.Options
	walkers map[mayfly.Shard]*remind.Walker
	counted map[mayfly.ID]map[mayfly.EventKey]mayfly.Event
}

func open(t testing.TB) *env {
	t.Helper()
	return newEnv(fixture.Open(t))
}

func newEnv(e *fixture.Engine) *env {
	h := &env{
		Engine: e, options: restore.Options{Window: window, Retention: 3 * 365 * 24 * time.Hour},
		walkers: map[mayfly.Shard]*remind.Walker{}, counted: map[mayfly.ID]map[mayfly.EventKey]mayfly.Event{},
	}
	var err error
	h.origin, err = walk.Origin(context.Background(), e.Real.Rows, e.Now)
	h.Must(err)
	return h
}

// firstShard is a random source that puts all ids into one shard, so that one walker
// is enough.
type firstShard struct{}

func (firstShard) Read(p []byte) (int, error) {
	n, err := io.ReadFull(rand.Reader, p)
	p[7] &^= mayfly.Shards - 1
	return n, err
}

// support returns the Restore under test.
func (h *env) support() *restore.Restore {
	h.Helper()
	return h.restorer(h.Set, "test")
}

func (h *env) restorer(set store.Set, writer string) *restore.Restore {
	h.Helper()
	log, err := audit.Open(context.Background(), set.Rows, writer, h.Now)
	h.Must(err)
	r, err := restore.New(set, log, h.options)
	h.Must(err)
	return r
}

func (h *env) sweep(o sweep.Options) *sweep.Sweep {
	h.Helper()
	s, err := sweep.New(h.Real, o)
	h.Must(err)
	return s
}

func (h *env) eraser() *erase.Erase {
	h.Helper()
	e, err := erase.New(h.Real, erase.Options{})
	h.Must(err)
	return e
}

func (h *env) archiver() *archive.Archive {
	h.Helper()
	a, err := archive.New(h.Real, archive.Options{Window: window})
	h.Must(err)
	return a
}

// remind writes a reminder that replaces a walk.
func (h *env) remind(id mayfly.ID, step remind.Step, due mayfly.Instant) {
	h.Helper()
	var b store.Batch
	remind.Write(&b, remind.Reminder{Due: due, ID: id, Step: step, Reason: "the walk"})
	h.Must(h.Real.Writer.Commit(context.Background(), &b))
}

// archive archives an item after its safety window.
func (h *env) archive(id mayfly.ID) {
	h.Helper()
	item := h.Row(id)
	h.Now = max(h.Now, item.End().Add(window))
	h.WantActed(h.archiver().Act(context.Background(), walk.Batch{Items: []mayfly.Item{item}, Now: h.Now, Run: 9}))
}

// delete deletes an item as its author.
func (h *env) delete(id mayfly.ID) {
	h.Helper()
	_, err := h.eraser().Delete(context.Background(), id, mayfly.ByUser, h.Now)
	h.Must(err)
}

// acts returns the steps as a node connects them.
func (h *env) acts() remind.Acts {
	h.Helper()
	s, r, e := h.sweep(sweep.Options{Window: window}), h.restorer(h.Real, "reminders"), h.eraser()
	return remind.Acts{
		remind.Expire: func(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
			failures, err := s.Expire(ctx, b)
			if err != nil {
				return nil, err
			}
			more, err := r.Clean(ctx, b)
			return append(failures, more...), err
		},
		remind.Archive: h.archiver().Act, remind.Erase: e.Act, remind.Tidy: e.TidyAct,
	}
}

// live lets time pass and runs the reminders of the item's shard.
func (h *env) live(id mayfly.ID, d, step time.Duration) {
	h.Helper()
	w := h.walkers[id.Shard()]
	if w == nil {
		shard := walk.NewShard(h.Real.Rows, id.Shard(), fmt.Sprintf("test-%d", h.Now), 5*time.Second, h.origin)
		var err error
		w, err = remind.New(h.Real, shard, h.acts(), remind.Options{})
		h.Must(err)
		h.walkers[id.Shard()] = w
	}
	for end := h.Now.Add(d); h.Now < end; {
		h.Now = min(end, h.Now.Add(step))
		h.pass(w, h.Now)
	}
}

// pass lets a walker walk up to an instant.
func (h *env) pass(w interface {
	Pass(ctx context.Context, now mayfly.Instant) (bool, error)
}, now mayfly.Instant,
) {
	h.Helper()
	for more := true; more; {
		var err error
		more, err = w.Pass(context.Background(), now)
		h.Must(err)
	}
}

// unnamed returns the objects of an item that its row does not name.
func (h *env) unnamed(item mayfly.Item) (keys []string) {
	h.Helper()
	for g := mayfly.Born; g <= item.Generation+3; g++ {
		for n := range int(item.Media) {
			for tier, blobs := range map[string]store.Blobs{"hot": h.Real.Hot, "cold": h.Real.Cold} {
				named := tier == "hot" && item.Keys.Hot == g || tier == "cold" && item.Keys.Cold == g
				if (!named || item.State == mayfly.Deleted) && h.Has(blobs, item.MediaKey(g, n)) {
					keys = append(keys, fmt.Sprintf("%s %s", tier, item.MediaKey(g, n)))
				}
			}
		}
	}
	return keys
}

// events returns the ends of an item by key, over all calls. A repeat must be the same
// event (I13).
func (h *env) events(id mayfly.ID) map[mayfly.EventKey]mayfly.Event {
	h.Helper()
	for _, e := range h.NewEvents(mayfly.Ends) {
		if h.counted[e.ID] == nil {
			h.counted[e.ID] = map[mayfly.EventKey]mayfly.Event{}
		}
		if first, found := h.counted[e.ID][e.Key()]; found && first != e {
			h.Errorf("DOUBLE: %+v, and %+v with the same key", first, e)
		}
		h.counted[e.ID][e.Key()] = e
	}
	return h.counted[id]
}

// verbs counts the ends of an item by verb, each key once.
func (h *env) verbs(id mayfly.ID) map[mayfly.Verb]int {
	h.Helper()
	count := map[mayfly.Verb]int{}
	for key := range h.events(id) {
		count[key.Verb]++
	}
	return count
}

// restored reports whether an item is in the restored set.
func (h *env) restored(id mayfly.ID) bool {
	h.Helper()
	return h.HasRow(engine.Restored, engine.RestoredKey(id))
}

// stage is a state in which an item can be restored.
type stage int

const (
	pending stage = iota // active after its deadline
	expired
	claimed // by an archive worker that died
	named   // the same, after the row named the cold copy
	cold
	stages
)

func (s stage) String() string {
	return [...]string{"sweep_pending", "expired_hot", "archiving", "archiving, both named", "cold"}[s]
}

// at publishes a story and brings it to a stage.
func (h *env) at(s stage, media int) mayfly.Item {
	h.Helper()
	return h.bring(h.Story(media), s)
}

// bring brings a story that has just been published to a stage.
func (h *env) bring(item mayfly.Item, s stage) mayfly.Item {
	h.Helper()
	h.Now = max(h.Now, item.ID.Deadline().Add(time.Minute))
	if s == pending { // the sweep comes later
		h.remind(item.ID, remind.Expire, h.Now.Add(10*time.Minute))
		return item
	}
	h.WantActed(h.sweep(sweep.Options{}).Act(context.Background(), walk.Batch{Items: []mayfly.Item{item}, Now: h.Now, Run: 1}))
	h.remind(item.ID, remind.Archive, h.Now.Add(window))
	if s == cold {
		h.archive(item.ID)
	}
	if s == claimed || s == named {
		claim := h.Change(item.ID, mayfly.Change{To: mayfly.Archiving, Cause: mayfly.ByArchive})
		if s == claimed || item.Media == 0 {
			return claim
		}
		for n := range int(item.Media) {
			_, err := h.Real.Hot.CopyTo(context.Background(), h.Real.Cold, claim.MediaKey(claim.Keys.Hot, n), claim.MediaKey(claim.Generation, n))
			h.Must(err)
		}
		h.Change(item.ID, mayfly.Change{To: mayfly.Archiving, Cause: mayfly.ByArchive, Keys: &mayfly.Keys{Hot: claim.Keys.Hot, Cold: claim.Generation}})
	}
	return h.Row(item.ID)
}

func (h *env) request(id mayfly.ID) restore.Request {
	return restore.Request{ID: id, Until: h.Now.Add(20 * time.Minute), By: audit.Actor{Subject: "ben"}, Reason: "ticket 7"}
}
