package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/store"
)

// specimen is an item that the matrix asks for.
type specimen struct {
	id       mayfly.ID
	state    state
	audience string
	author   string
	secrets  []string          // what no refused answer may contain
	urls     map[role][]string // of its medium and a smaller picture, as a role got them while it could see it
}

// corner is a state and an audience.
type corner struct {
	state    state
	audience string
}

// The items of one corner: the first is read, the others are for operations that
// change them.
const specimens = 12

// publish publishes everything that the matrix asks for, by one author for
// each corner, who stands to every role as its name says; who was a follower and
// who will be blocked are followers and friends still.
//
// All end at the same instant, which it answers with.
func (m *matrix) publish() (deadline mayfly.Instant) {
	m.Helper()
	for _, s := range states() {
		for _, audience := range m.audiences {
			c := corner{s, audience}
			m.relate(author(s, audience))
			for n := range specimens {
				if s.isAbsent() && n > 0 {
					break
				}
				item := m.publishOne(c, n)
				if deadline == 0 {
					deadline = item.id.Deadline()
				}
				if item.id.Deadline() != deadline {
					m.Fatalf("%s ends at %s, want %s: something let time pass", item.id, item.id.Deadline(), deadline)
				}
				m.specimens[c] = append(m.specimens[c], item)
			}
		}
	}
	return deadline
}

func (m *matrix) relate(author string) {
	m.Helper()
	for _, r := range []role{follower, exFollower, blocked} {
		m.must(request{
			method: http.MethodPut, target: fmt.Sprintf("/v1/users/%s/followers/%s", userNamed(author), userNamed(named(r))), header: m.as("", "service"),
		}, http.StatusNoContent)
	}
	for _, r := range []role{closeFriend, blocked} {
		m.must(request{method: http.MethodPut, target: "/v1/me/close-friends/" + userNamed(named(r)).String(), header: m.as(author, "user")}, http.StatusNoContent)
	}
}

func (m *matrix) publishOne(c corner, n int) *specimen {
	m.Helper()
	secret := fmt.Sprintf("%x", []byte(fmt.Sprint(c, n)))
	s := &specimen{state: c.state, audience: c.audience, author: author(c.state, c.audience), urls: map[role][]string{}}
	draft := wire.NewStory{
		Caption: "caption-" + secret, Audience: c.audience, Lifetime: "6h",
		Overlays: json.RawMessage(fmt.Sprintf(`[{"kind":"text","x":0.5,"y":0.5,"text":"overlay-%s"}]`, secret)),
	}
	body, typ, err := multipartStory(draft, [][]byte{picture(secret, 0)})
	if err != nil {
		m.Fatal(err)
	}
	header := m.as(s.author, "user")
	header.Set("Content-Type", typ)
	a := m.must(request{method: http.MethodPost, target: "/v1/stories", header: header, body: body}, http.StatusCreated)
	var story wire.Story
	if err := json.Unmarshal(a.body, &story); err != nil {
		m.Fatal(err)
	}
	s.id = story.ID
	if c.state.isAbsent() {
		s.id = neverWasLike(story.ID)
		return s
	}
	s.secrets = []string{"caption-" + secret, "overlay-" + secret, story.Media[0].SHA256, userNamed(s.author).String()}
	return s
}

// sign lets every role that can see a specimen get URLs of its media.
func (m *matrix) sign(of ...state) {
	m.Helper()
	for _, s := range of {
		for _, audience := range m.audiences {
			item := m.specimens[corner{s, audience}][0]
			for _, r := range roles() {
				a, err := m.ask(request{method: http.MethodGet, target: "/v1/stories/" + item.id.String(), header: m.header(r, item)})
				if err != nil {
					m.Fatal(err)
				}
				if a.status != http.StatusOK {
					continue
				}
				var story wire.Story
				if err := json.Unmarshal(a.body, &story); err != nil {
					m.Fatal(err)
				}
				item.urls[r] = []string{story.Media[0].URL, story.Media[0].Renditions[0].URL}
			}
		}
	}
}

// part ends what the ex-follower and the blocked were.
func (m *matrix) part() {
	m.Helper()
	for c := range m.specimens {
		owner := author(c.state, c.audience)
		m.must(request{
			method: http.MethodDelete, target: fmt.Sprintf("/v1/users/%s/followers/%s", userNamed(owner), userNamed(named(exFollower))), header: m.as("", "service"),
		}, http.StatusNoContent)
		m.must(request{method: http.MethodPut, target: "/v1/me/blocks/" + userNamed(named(blocked)).String(), header: m.as(owner, "user")}, http.StatusNoContent)
	}
}

// each does something to every specimen of some states.
func (m *matrix) each(do func(s *specimen), of ...state) {
	for _, s := range of {
		for _, audience := range m.audiences {
			for _, item := range m.specimens[corner{s, audience}] {
				do(item)
			}
		}
	}
}

func (m *matrix) deletes(s *specimen) {
	m.must(request{method: http.MethodDelete, target: "/v1/stories/" + s.id.String(), header: m.as(s.author, "user")}, http.StatusNoContent)
}

func (m *matrix) holds(s *specimen) {
	r := request{method: http.MethodPut, target: "/v1/holds/" + s.id.String(), header: m.as("support", "moderator"), admin: true}
	if err := r.json(wire.Reason{Reason: "the matrix"}); err != nil {
		m.Fatal(err)
	}
	m.must(r, http.StatusNoContent)
}

func (m *matrix) restores(s *specimen) {
	until := s.id.Deadline().Add(restoredAfter)
	r := request{method: http.MethodPost, target: "/v1/restores", header: m.as("support", "moderator"), admin: true}
	if err := r.json(wire.RestoreRequest{ID: &s.id, Until: &until, Reason: "the matrix"}); err != nil {
		m.Fatal(err)
	}
	m.must(r, http.StatusOK)
}

// claims makes a specimen one that an archive worker has claimed and not
// finished: the state between two steps of the archive, held still.
func (m *matrix) claims(s *specimen) {
	ctx := context.Background()
	found, err := m.store.Set.Ledger.Get(ctx, s.id)
	if err != nil || !found[0].Found {
		m.Fatal(found, err)
	}
	out, err := m.store.Set.Ledger.Transition(ctx, []mayfly.Change{{
		ID: s.id, From: found[0].Item.State, Generation: found[0].Item.Generation, To: mayfly.Archiving,
		Nonce: 1, Cause: mayfly.ByArchive, At: m.now(),
	}})
	if err != nil || out[0].Result != store.Applied {
		m.Fatal(out, err)
	}
	if err := m.store.Set.Signals.Publish(ctx, store.Signal{Topic: store.RowChanged, ID: s.id}); err != nil {
		m.Fatal(err)
	}
}

// restoredAfter is until when, from its deadline, a restored specimen serves.
const restoredAfter = 4 * time.Hour

// isInState asserts that the walks, or the test itself, have brought specimens
// where the matrix says they are.
func (m *matrix) isInState(want mayfly.State, of ...state) {
	m.Helper()
	m.each(func(s *specimen) {
		found, err := m.store.Set.Ledger.Get(context.Background(), s.id)
		if err != nil || !found[0].Found || found[0].Item.State != want {
			m.Fatalf("%s for %s: %+v, %v", s.state, s.audience, found, err)
		}
	}, of...)
}

// views asserts that every look that counts has counted, and no other (ST8).
func (m *matrix) views(of ...state) {
	m.Helper()
	for _, s := range of {
		for _, audience := range m.audiences {
			if !sees(owner, s, audience) {
				continue
			}
			item := m.specimens[corner{s, audience}][0]
			a := m.must(request{method: http.MethodGet, target: "/v1/stories/" + item.id.String() + "/viewers", header: m.as(item.author, "user")}, http.StatusOK)
			var got wire.Viewers
			if err := json.Unmarshal(a.body, &got); err != nil {
				m.Fatal(err)
			}
			users := map[mayfly.UserID]bool{}
			for _, r := range roles() {
				if r == serviceForFollower {
					r = follower
				}
				if counts(r, s, audience) {
					users[userNamed(named(r))] = true
				}
			}
			if got.Count != len(users) || len(got.Viewers) != len(users) {
				m.Errorf("%s for %s was seen by %d, and %d are counted: %+v", s, audience, len(users), got.Count, got.Viewers)
			}
		}
	}
}
