package httpapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/api/wire"
)

// scenario is a row: who asks for what, and what comes of it. Words in braces
// stand for what the city has.
type scenario struct {
	as, method, path string
	typ, body        string
	header           map[string]string
	status           int
	has              []string // what stands in the answer
	hasNot           []string
}

// city is a house with people and stories in it: ana has written them; ben
// follows her; the others are what their names say.
type city struct {
	*house
	words *strings.Replacer
}

func newCity(t testing.TB, set ...settings) *city {
	t.Helper()
	h := newHouse(t, set...)
	for _, follower := range []string{"ben", "blocked"} {
		h.follow("ana", follower)
	}
	h.must(request{as: "ana", method: "PUT", path: "/v1/me/close-friends/~friend"}, http.StatusNoContent)
	h.must(request{as: "ana", method: "PUT", path: "/v1/me/blocks/~blocked"}, http.StatusNoContent)
	ended := h.publish("ana", `{"audience":"everyone","lifetime":"6h","caption":"ended"}`)
	h.machine.Advance(7 * time.Hour)
	all := h.publish("ana", `{"audience":"everyone","caption":"to all","overlays":[{"kind":"text","x":0.5,"y":0.5,"text":"hi"}]}`)
	some := h.publish("ana", `{"audience":"followers","caption":"to followers"}`)
	few := h.publish("ana", `{"audience":"close_friends","caption":"to friends"}`)
	away := h.publish("ana", `{"audience":"everyone","caption":"deleted"}`)
	h.must(request{as: "ana", method: "DELETE", path: "/v1/stories/" + away.ID.String()}, http.StatusNoContent)
	held := h.publish("ana", `{"audience":"everyone","caption":"held"}`)
	h.must(request{as: "moderator", method: "PUT", path: "/v1/holds/" + held.ID.String(), body: `{"reason":"a court asks"}`, admin: true}, http.StatusNoContent)
	upload := read[wire.Upload](t, h.must(request{as: "ana", method: "POST", path: "/v1/uploads", body: `{"media":2}`}, http.StatusCreated))
	now := h.node.Clock().Read().Now
	return &city{house: h, words: strings.NewReplacer(
		"{all}", all.ID.String(), "{followers}", some.ID.String(), "{friends}", few.ID.String(), "{deleted}", away.ID.String(), "{held}", held.ID.String(),
		"{ended}", ended.ID.String(), "{never}", never(t, now, 24*time.Hour).String(), "{past}", never(t, now.Add(-48*time.Hour), 24*time.Hour).String(),
		"{short}", all.Short, "{upload}", upload.ID.String(), "{ana}", user("ana").String(),
		"{url}", read[wire.Story](t, h.get("anonymous", "/v1/stories/"+all.ID.String(), 200)).Media[0].URL,
		"{url-ben}", read[wire.Story](t, h.get("ben", "/v1/stories/"+some.ID.String(), 200)).Media[0].URL,
		"{small}", read[wire.Story](t, h.get("ben", "/v1/stories/"+some.ID.String(), 200)).Media[0].Renditions[0].URL,
		"{url-ended}", read[wire.Story](t, h.get("ana", "/v1/stories/"+ended.ID.String(), 200)).Media[0].URL,
	)}
}

func (c *city) play(t *testing.T, s scenario, admin bool) {
	t.Helper()
	q := request{as: s.as, method: s.method, path: c.words.Replace(s.path), typ: s.typ, body: c.words.Replace(s.body), header: s.header, admin: admin}
	w := c.ask(q)
	what := fmt.Sprintf("%s %s as %s", s.method, s.path, s.as)
	if w.Code != s.status {
		t.Errorf("%s: %d, not %d: %.400s", what, w.Code, s.status, w.Body)
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

func TestEveryRouteAnswersAsItsRowsSay(t *testing.T) {
	rows := 0
	for _, admin := range []bool{false, true} {
		table := publicScenarios(t)
		if admin {
			table = adminScenarios()
		}
		for operation, scenarios := range table {
			rows += len(scenarios)
			t.Run(operation, func(t *testing.T) {
				c := newCity(t)
				for _, s := range scenarios {
					c.play(t, s, admin)
				}
			})
		}
	}
	t.Logf("%d rows", rows)
}

func TestEveryRouteHasRowsAndEveryRowARoute(t *testing.T) {
	h := newHouse(t)
	check := func(handler http.Handler, table map[string][]scenario) {
		var said []string
		for path, item := range documentOf(t, handler).Paths.Map() {
			for method, op := range item.Operations() {
				said = append(said, op.OperationID)
				if len(table[op.OperationID]) == 0 {
					t.Errorf("%s %s (%s) has no scenario row", method, path, op.OperationID)
				}
			}
		}
		for operation := range table {
			if !slices.Contains(said, operation) {
				t.Errorf("%s has rows and is no route", operation)
			}
		}
		if slices.Sort(said); len(slices.Compact(said)) != len(said) {
			t.Errorf("an operation id stands twice in %v", said)
		}
	}
	check(h.public, publicScenarios(t))
	check(h.admin, adminScenarios())
}
