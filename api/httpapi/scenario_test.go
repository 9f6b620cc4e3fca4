package httpapi_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

// scenario is a row of the table of requests: caller, request, and the expected
// answer. Words in braces are replaced by what scenarioNode contains.
type scenario struct {
	as, method, path string
	typ, body        string
	header           map[string]string
	status           int
	has              []string // texts that the answer contains
	hasNot           []string // texts that it does not
}

// scenarioNode is a test node with users and stories. Ana is the author of all
// stories and ben follows her; the other users are named after their relation.
type scenarioNode struct {
	*testNode
	words *strings.Replacer
}

func newScenarioNode(t testing.TB, set ...setting) *scenarioNode {
	t.Helper()
	h := newTestNode(t, append([]setting{anonymousPastes}, set...)...)
	for _, follower := range []string{"ben", "blocked"} {
		h.Follow("ana", follower)
	}
	h.Want(nodetest.Request{As: "ana", Method: "PUT", Path: "/v1/me/close-friends/~friend"}, http.StatusNoContent)
	h.Want(nodetest.Request{As: "ana", Method: "PUT", Path: "/v1/me/blocks/~blocked"}, http.StatusNoContent)
	ended := h.Publish("ana", `{"audience":"everyone","lifetime":"6h","caption":"ended"}`)
	h.Machine.Advance(7 * time.Hour)
	all := h.Publish("ana", `{"audience":"everyone","caption":"to all","overlays":[{"kind":"text","x":0.5,"y":0.5,"text":"hi"}]}`)
	some := h.Publish("ana", `{"audience":"followers","caption":"to followers"}`)
	few := h.Publish("ana", `{"audience":"close_friends","caption":"to friends"}`)
	away := h.Publish("ana", `{"audience":"everyone","caption":"deleted"}`)
	h.Want(nodetest.Request{As: "ana", Method: "DELETE", Path: "/v1/stories/" + away.ID.String()}, http.StatusNoContent)
	held := h.Publish("ana", `{"audience":"everyone","caption":"held"}`)
	h.Want(nodetest.Request{As: "moderator", Method: "PUT", Path: "/v1/holds/" + held.ID.String(), Body: `{"reason":"a court asks"}`, Admin: true}, http.StatusNoContent)
	upload := nodetest.ReadJSON[wire.Upload](t, h.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/uploads", Body: announced(2)}, http.StatusCreated))
	h.Must(h.KV().Configure(t.Context(), "jobs", h.KV().Defaults(), h.Now())) // as kv.namespaces does at the start
	_, credential, err := h.KV().AddKey(t.Context(), mayfly.UserID{}, "jobs", h.Now())
	h.Must(err)
	pastes := append(append(append(pasteWords(t, h), feedWords(t, h)...), kvWords(t, h)...), "{kv-credential}", credential.ID)
	now := h.Clock().Read().Now
	return &scenarioNode{testNode: h, words: strings.NewReplacer(append(pastes,
		"{all}", all.ID.String(), "{followers}", some.ID.String(), "{friends}", few.ID.String(), "{deleted}", away.ID.String(), "{held}", held.ID.String(),
		"{ended}", ended.ID.String(), "{never}", never(t, now, 24*time.Hour).String(), "{past}", never(t, now.Add(-48*time.Hour), 24*time.Hour).String(),
		"{short}", all.Short, "{token}", h.Token("stranger"), "{upload}", upload.ID.String(), "{ana}", nodetest.User("ana").String(), "{stranger}", nodetest.User("stranger").String(),
		"{url}", nodetest.ReadJSON[wire.Story](t, h.Get("anonymous", "/v1/stories/"+all.ID.String(), 200)).Media[0].URL,
		"{url-ben}", nodetest.ReadJSON[wire.Story](t, h.Get("ben", "/v1/stories/"+some.ID.String(), 200)).Media[0].URL,
		"{small}", nodetest.ReadJSON[wire.Story](t, h.Get("ben", "/v1/stories/"+some.ID.String(), 200)).Media[0].Renditions[0].URL,
		"{avatar}", nodetest.ReadJSON[wire.Profile](t, h.Want(nodetest.Request{As: "friend", Method: "PUT", Path: "/v1/me/avatar", Type: "image/jpeg", Body: padded(t, 1)}, 200)).Avatar,
		"{url-ended}", nodetest.ReadJSON[wire.Story](t, h.Get("ana", "/v1/stories/"+ended.ID.String(), 200)).Media[0].URL,
	)...)}
}

// play sends the request of a scenario and checks the answer.
func (c *scenarioNode) play(t *testing.T, s scenario, admin bool) {
	t.Helper()
	q := nodetest.Request{As: s.as, Method: s.method, Path: c.words.Replace(s.path), Type: s.typ, Body: c.words.Replace(s.body), Header: c.replaced(s.header), Admin: admin}
	w := c.Do(q)
	what := fmt.Sprintf("%s %s as %s", s.method, s.path, s.as)
	if w.Code != s.status {
		t.Errorf("%s: %d, want %d: %.400s", what, w.Code, s.status, w.Body)
	}
	all := fmt.Sprint(w.Header()) + w.Body.String()
	for _, want := range s.has {
		if want = c.words.Replace(want); !strings.Contains(all, want) {
			t.Errorf("%s: %q is not in %.600s", what, want, all)
		}
	}
	for _, not := range s.hasNot {
		if not = c.words.Replace(not); strings.Contains(all, not) {
			t.Errorf("%s: %q is in %.600s", what, not, all)
		}
	}
}

func (c *scenarioNode) replaced(header map[string]string) map[string]string {
	all := map[string]string{}
	for name, value := range header {
		all[name] = c.words.Replace(value)
	}
	return all
}

// reads reports whether no scenario changes anything, so that others may follow on the
// same node. Asking for a locked paste does: passwords are limited.
func reads(scenarios []scenario) bool {
	return !slices.ContainsFunc(scenarios, func(s scenario) bool {
		return s.method != http.MethodGet && s.method != http.MethodHead || strings.Contains(s.path, "{paste-locked}")
	})
}

func TestEveryRouteAnswersAsItsScenariosExpect(t *testing.T) {
	rows, shared := 0, newScenarioNode(t)
	for _, admin := range []bool{false, true} {
		table := publicScenarios(t)
		maps.Copy(table, pasteScenarios(t))
		maps.Copy(table, kvScenarios())
		maps.Copy(table, feedScenarios())
		if admin {
			table = adminScenarios()
		}
		for operation, scenarios := range table {
			rows += len(scenarios)
			t.Run(operation, func(t *testing.T) {
				c := shared
				if !reads(scenarios) {
					c = newScenarioNode(t)
				}
				for _, s := range scenarios {
					c.play(t, s, admin)
				}
			})
		}
	}
	t.Logf("%d rows", rows)
}

func TestEveryRouteHasScenariosAndEveryScenarioARoute(t *testing.T) {
	h := newTestNode(t)
	check := func(handler http.Handler, table map[string][]scenario) {
		var found []string
		for path, item := range nodetest.Document(t, handler).Paths.Map() {
			for method, op := range item.Operations() {
				found = append(found, op.OperationID)
				if len(table[op.OperationID]) == 0 {
					t.Errorf("%s %s (%s) has no scenario", method, path, op.OperationID)
				}
			}
		}
		for operation := range table {
			if !slices.Contains(found, operation) {
				t.Errorf("%s has scenarios and is no route", operation)
			}
		}
		if slices.Sort(found); len(slices.Compact(found)) != len(found) {
			t.Errorf("duplicate operation id in %v", found)
		}
	}
	public := publicScenarios(t)
	maps.Copy(public, pasteScenarios(t))
	maps.Copy(public, kvScenarios())
	maps.Copy(public, feedScenarios())
	check(h.Public, public)
	check(h.Admin, adminScenarios())
}
