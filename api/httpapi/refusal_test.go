package httpapi_test

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

// bytesOf returns an answer without the headers that differ from request to
// request.
func bytesOf(w *httptest.ResponseRecorder) string {
	h := w.Header().Clone()
	h.Del("Mayfly-Request")
	h.Del("Date")
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(h)) {
		lines = append(lines, name+": "+strings.Join(h[name], ", "))
	}
	return fmt.Sprintf("%d\n%s\n\n%s", w.Code, strings.Join(lines, "\n"), w.Body)
}

// A caller who may not see a story gets the same bytes, whether it is hidden, was
// deleted or never existed, in each of the types that a problem can have.
func TestARefusalIsTheSameBytesWhateverTheReason(t *testing.T) {
	for accept, typ := range map[string]string{"": "application/problem+json", "text/plain": "text/plain; charset=utf-8", "text/html": "text/html; charset=utf-8"} {
		t.Run(typ, func(t *testing.T) { compareRefusals(t, map[string]string{"Accept": accept}, typ) })
	}
}

func compareRefusals(t *testing.T, accept map[string]string, typ string) {
	c := newScenarioNode(t)
	refused := map[string][]string{
		"404": {"{never}", "{followers}", "{friends}", "{deleted}", "{held}"},
		"410": {"{past}", "{ended}"},
	}
	routes := []struct{ method, path string }{
		{"GET", "/v1/stories/%s"},
		{"DELETE", "/v1/stories/%s"},
		{"POST", "/v1/stories/%s/view"},
		{"GET", "/v1/stories/%s/viewers"},
		{"POST", "/v1/stories/%s/reshare"},
		{"GET", "/v1/media/%s/0"},
		{"GET", "/v1/media/%s/0-320"},
		{"GET", "/v1/media/%s/0?sig=AAAA&until=1"},
		{"HEAD", "/v1/media/%s/0"},
		{"GET", "/v1/media/%s/9"},
	}
	compared := 0
	check := func(t *testing.T) {
		for status, ids := range refused {
			first := ""
			for _, route := range routes {
				for _, id := range ids {
					w := c.Do(nodetest.Request{As: "stranger", Method: route.method, Path: c.words.Replace(fmt.Sprintf(route.path, id)), Header: accept})
					got := bytesOf(w)
					if w.Header().Get("Content-Type") != typ {
						t.Errorf("%s %s of %s: %s", route.method, route.path, id, w.Header().Get("Content-Type"))
					}
					if route.method == "HEAD" {
						got += string(problemBody(c, status, accept))
					}
					if first == "" {
						first = got
					}
					if got != first || !strings.HasPrefix(got, status) {
						t.Errorf("%s %s of %s differs:\n%s\nfrom\n%s", route.method, route.path, id, got, first)
					}
					compared++
				}
			}
		}
	}
	check(t)
	c.Machine.Advance(48 * time.Hour)
	refused = map[string][]string{"410": {"{never}", "{followers}", "{friends}", "{deleted}", "{held}", "{all}", "{past}", "{ended}"}}
	check(t)
	t.Logf("%d answers compared", compared)
	if compared < 130 {
		t.Errorf("only %d answers compared", compared)
	}
}

func problemBody(c *scenarioNode, status string, accept map[string]string) []byte {
	id := "{never}"
	if status == "410" {
		id = "{past}"
	}
	return c.Do(nodetest.Request{As: "stranger", Method: "GET", Path: c.words.Replace("/v1/stories/" + id), Header: accept}).Body.Bytes()
}

func TestRoutesForTheAuthorRevealNothingToOtherUsers(t *testing.T) {
	c := newScenarioNode(t)
	for _, path := range []string{"/v1/stories/%s/viewers", "/v1/stories/%s/reshare", "/v1/stories/%s"} {
		method := map[string]string{"/v1/stories/%s/viewers": "GET", "/v1/stories/%s/reshare": "POST", "/v1/stories/%s": "DELETE"}[path]
		seen := bytesOf(c.Do(nodetest.Request{As: "ben", Method: method, Path: c.words.Replace(fmt.Sprintf(path, "{all}"))}))
		never := bytesOf(c.Do(nodetest.Request{As: "ben", Method: method, Path: c.words.Replace(fmt.Sprintf(path, "{never}"))}))
		if seen != never {
			t.Errorf("%s %s answers differently for a story of another user and for one that does not exist:\n%s\n%s", method, path, seen, never)
		}
	}
}
