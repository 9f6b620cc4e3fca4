//go:build servers

package cluster

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
)

// claims counts the steps of the archive that were done once more than an item needs.
// A row that one step has claimed is taken over by the next one: after a failure,
// and where a walk and a reminder, or two walks, meet. Each such step counts one in the
// row's generation, and how many there are depends on who was faster.
type claims struct {
	mu    sync.Mutex
	steps map[mayfly.ID]int // since the row was claimed
	again map[mayfly.ID]int // of those, more than one to name the copy
}

func newClaims() *claims {
	return &claims{steps: map[mayfly.ID]int{}, again: map[mayfly.ID]int{}}
}

// watch is a ledger whose transitions c sees.
func (c *claims) watch(l store.Ledger) store.Ledger { return watched{Ledger: l, claims: c} }

type watched struct {
	store.Ledger
	*claims
}

func (w watched) Transition(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
	all, err := w.Ledger.Transition(ctx, changes)
	if err != nil {
		return all, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, change := range changes {
		if all[i].Result == store.Applied && change.Hold == mayfly.KeepHold {
			w.saw(change)
		}
	}
	return all, nil
}

func (c *claims) saw(change mayfly.Change) {
	switch {
	case change.From != mayfly.Archiving:
		c.steps[change.ID] = 0
	case change.To == mayfly.Archiving:
		c.steps[change.ID]++
	case change.To == mayfly.Cold:
		c.again[change.ID] += c.steps[change.ID] - 1
	default:
		c.again[change.ID] += c.steps[change.ID]
	}
}

// total is how many steps were done again.
func (c *claims) total() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, again := range c.again {
		n += again
	}
	return n
}

var generation = regexp.MustCompile(`generation (\d+)`)

// without says a text on an item as it would be had no step been done again.
func (c *claims) without(id mayfly.ID, text string) string {
	c.mu.Lock()
	again := c.again[id]
	c.mu.Unlock()
	return generation.ReplaceAllStringFunc(text, func(said string) string {
		n, err := strconv.Atoi(said[len("generation "):])
		if err != nil {
			return said // more digits than a generation has
		}
		return fmt.Sprintf("generation %d", n-again)
	})
}

// kind is a kind of request. ask composes one; what after does with the answer, it
// does when both sides gave the same.
type kind struct {
	name string
	ask  func(d *drama) (q question, after func(reply))
}

// kinds are all of them: every operation of the public listener, what support does,
// what is wrong, and time.
func kinds() []kind {
	reads, writes := readKinds(), writeKinds()
	return append(append(append(reads, writes...), supportKinds()...), oddKinds()...)
}

func get(target, who string) question {
	q := question{method: http.MethodGet, target: target, who: who, scope: account.User}
	switch who {
	case "":
		q.scope = ""
	case "moderator":
		q.scope = account.Moderator
	}
	return q
}

// anyCaller returns a user, the moderator, or "" for an anonymous caller.
func (d *drama) anyCaller() string {
	switch d.rng.IntN(8) {
	case 0:
		return ""
	case 1:
		return "moderator"
	default:
		return d.anyUser()
	}
}

// viewer returns the author more often than any other caller.
func (d *drama) viewer(s *tale) string {
	if d.rng.IntN(3) == 0 {
		return s.author
	}
	return d.anyCaller()
}

// id is the place of a story's id: now and then of one that never was.
func (d *drama) id(s *tale) string {
	if d.rng.IntN(12) == 0 {
		return "{never:" + s.name + "}"
	}
	return "{id:" + s.name + "}"
}

// of is a kind that is about a story.
func of(name string, ask func(d *drama, s *tale) (question, func(reply))) kind {
	return kind{name, func(d *drama) (question, func(reply)) {
		if s := d.some(); s != nil {
			return ask(d, s)
		}
		return question{}, nil
	}}
}

func readKinds() []kind {
	return []kind{
		of("open", func(d *drama, s *tale) (question, func(reply)) {
			who := d.viewer(s)
			q := get("/v1/stories/"+d.id(s), who)
			q.about = s.name + "/" + who
			return q, nil
		}),
		of("open again", func(d *drama, s *tale) (question, func(reply)) { // If-None-Match
			who := d.viewer(s)
			q := get("/v1/stories/{id:"+s.name+"}", who)
			q.header = map[string]string{"If-None-Match": "{etag:" + s.name + "/" + who + "}"}
			return q, nil
		}),
		of("media", func(d *drama, s *tale) (question, func(reply)) { return d.medium(s, http.MethodGet, "") }),
		of("media part", func(d *drama, s *tale) (question, func(reply)) {
			return d.medium(s, http.MethodGet, fmt.Sprintf("bytes=%d-%d", d.rng.IntN(30), 20+d.rng.IntN(90)))
		}),
		of("media head", func(d *drama, s *tale) (question, func(reply)) { return d.medium(s, http.MethodHead, "") }),
		of("viewers", func(d *drama, s *tale) (question, func(reply)) {
			return get(fmt.Sprintf("/v1/stories/%s/viewers?limit=%d", d.id(s), 1+d.rng.IntN(5)), d.viewer(s)), nil
		}),
		{"ring", func(d *drama) (question, func(reply)) {
			return get("/v1/users/"+userPath(d.anyUser())+"/ring", d.anyCaller()), nil
		}},
		{"archive", func(d *drama) (question, func(reply)) {
			q, who := url.Values{}, d.anyUser()
			if d.rng.IntN(3) > 0 {
				q.Set("limit", fmt.Sprint(1+d.rng.IntN(2)))
			}
			if d.rng.IntN(4) == 0 {
				q.Set("from", d.now.Add(-time.Duration(d.rng.IntN(600))*time.Second).String())
				q.Set("to", d.now.Add(-time.Duration(d.rng.IntN(60))*time.Second).String())
			}
			list := get("/v1/me/archive?"+q.Encode(), who)
			list.about = "archive/" + who
			return list, nil
		}},
		{"archive page", func(d *drama) (question, func(reply)) {
			for _, who := range d.people() {
				if d.cluster.own["next:archive/"+who] != "" {
					q := get("/v1/me/archive?limit=2&cursor={next:archive/"+who+"}", who)
					q.about = "archive/" + who
					return q, nil
				}
			}
			return question{}, nil
		}},
		{"preflight", func(d *drama) (question, func(reply)) { return get("/v1/me/preflight", d.anyUser()), nil }},
		{"close friends", func(d *drama) (question, func(reply)) { return get("/v1/me/close-friends", d.anyUser()), nil }},
		{"blocks", func(d *drama) (question, func(reply)) {
			return get(fmt.Sprintf("/v1/me/blocks?limit=%d", 1+d.rng.IntN(5)), d.anyUser()), nil
		}},
	}
}

// medium asks for bytes: by the URL that a user got last, or without a signature.
func (d *drama) medium(s *tale, method, part string) (question, func(reply)) {
	who := d.viewer(s)
	object := fmt.Sprint(d.rng.IntN(s.media + d.rng.IntN(2)))
	if d.rng.IntN(3) == 0 {
		object += "-320"
	}
	q := get("/v1/media/{id:"+s.name+"}/"+object, who)
	if place := "url:" + s.name + "/" + who + "/" + object; d.cluster.own[place] != "" && d.rng.IntN(4) > 0 {
		q = get("{"+place+"}", "")
	}
	q.method = method
	if part != "" {
		q.header = map[string]string{"Range": part}
	}
	return q, nil
}

// relation is a kind that changes what two users are to each other.
func relationKind(name, method, path string) kind {
	return kind{name, func(d *drama) (question, func(reply)) {
		q := get(path+"/"+userPath(d.anyUser()), d.anyUser())
		q.method = method
		return q, nil
	}}
}

func followKind(name, method string) kind {
	return kind{name, func(d *drama) (question, func(reply)) {
		q := question{method: method, target: "/v1/users/" + userPath(d.anyUser()) + "/followers/" + userPath(d.anyUser()), scope: account.Service}
		return q, nil
	}}
}

// The comparison proves something only if it finds a planted fault: a store of the
// cluster that is wrong in one small way.
func TestADifferenceThatIsPlantedInTheClusterIsFound(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(*store.Set){
		"every fifth row of the owner index is lost": func(s *store.Set) { s.Writer = &forgetfulWriter{Writer: s.Writer} },
		"a row is read one state behind, once":       func(s *store.Set) { s.Ledger = &lateLedger{Ledger: s.Ledger, was: map[mayfly.ID]store.Found{}} },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrama(newPair(t, plant), seeded(t).Uint64())
			d.patience = settledWithin // to wait in vain is one way to find it
			different := d.play(800, 0)
			if different == "" {
				t.Fatalf("after %d requests no difference was found:%s", d.requests, d.count())
			}
			first, _, _ := strings.Cut(different, "\n")
			t.Logf("found after %d requests and %d stories: %s", d.requests, len(d.stories), first)
		})
	}
}

// forgetfulWriter drops every fifth row of the owner index and of the rings, and says nothing.
type forgetfulWriter struct {
	store.Writer
	puts atomic.Uint64
}

func (w *forgetfulWriter) Commit(ctx context.Context, b *store.Batch) error {
	var kept store.Batch
	for _, s := range b.Stages() {
		kept.Then()
		kept.Insert(s.Inserts...)
		for _, p := range s.Puts {
			if (p.Table == engine.Owners || p.Table == engine.Rings) && w.puts.Add(1)%5 == 0 {
				continue
			}
			kept.Put(p.Table, p.Key, p.Value, p.ReclaimAt)
		}
		for _, d := range s.Deletes {
			kept.Delete(d.Table, d.Key)
		}
		for _, d := range s.Drops {
			kept.DeletePartition(d.Table, d.Partition)
		}
		kept.Append(s.Events...)
	}
	return w.Writer.Commit(ctx, &kept)
}

// lateLedger answers with the row of before, the first time that a row has changed
// since it was read last.
type lateLedger struct {
	store.Ledger
	mu  sync.Mutex
	was map[mayfly.ID]store.Found
}

func (l *lateLedger) Get(ctx context.Context, ids ...mayfly.ID) ([]store.Found, error) {
	all, err := l.Ledger.Get(ctx, ids...)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, id := range ids {
		was, known := l.was[id]
		l.was[id] = all[i]
		if known && was.Found && all[i].Found && was.Item.Generation < all[i].Item.Generation {
			all[i] = was
		}
	}
	return all, nil
}
