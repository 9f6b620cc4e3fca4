package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

// kernel returns the public handler of an API that has these routes and those of
// the kernel only.
func kernel(t *testing.T, routes ...httpapi.Route) http.Handler {
	t.Helper()
	n := nodetest.Start(t, nodetest.Options{})
	for i := range routes {
		routes[i].Tag, routes[i].Product = "test", "test"
	}
	api, err := httpapi.New(httpapi.Options{Accounts: n.Accounts(), Clock: n.Clock(), Routes: routes, Origins: []string{"*"}})
	n.Must(err)
	return api.Public()
}

func get(h http.Handler, path, accept string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestAProblemIsSentInTheTypeThatTheCallerAccepts(t *testing.T) {
	const jsonType, text, page = "application/problem+json", "text/plain; charset=utf-8", "text/html; charset=utf-8"
	bad := httpapi.Route{Method: "GET", Pattern: "/v1/test", ID: "test", Handle: func(*httpapi.Call) error {
		return mayfly.Errorf(mayfly.Invalid, "a <b> is not valid").WithHint("send a & b")
	}}
	h := kernel(t, bad)
	for accept, want := range map[string]string{
		"":                                  jsonType,
		"*/*":                               jsonType,
		"image/png":                         jsonType,
		"nonsense":                          jsonType,
		"application/json":                  jsonType,
		"application/problem+json":          jsonType,
		"application/json, text/plain, */*": jsonType,
		"text/html, application/json":       jsonType,
		"text/plain":                        text,
		"text/plain, */*;q=0.1":             text,
		"text/*, application/json;q=0.5":    text,
		"text/html":                         page,
		"text/html;q=0.9, text/plain;q=0.8": page,
		"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8": page, // a browser
		"text/html;q=0, */*": jsonType,
	} {
		w := get(h, "/v1/test", accept)
		if got := w.Header().Get("Content-Type"); got != want || w.Code != http.StatusBadRequest {
			t.Errorf("Accept %q: %d %s, want %s", accept, w.Code, got, want)
		}
	}
	if got := get(h, "/v1/test", "text/plain").Body.String(); got != "a <b> is not valid (send a & b)\n" {
		t.Errorf("%q", got)
	}
	if got := get(h, "/v1/test", "text/html").Body.String(); !strings.Contains(got, "<p>a &lt;b&gt; is not valid</p>\n<p>send a &amp; b</p>") {
		t.Errorf("%q", got)
	}
}

func TestARouteMayHaveARateOfItsOwn(t *testing.T) {
	ok := func(c *httpapi.Call) error { return c.NoContent() }
	answers := []httpapi.Answer{{Status: http.StatusNoContent, About: "Done."}}
	h := kernel(t,
		httpapi.Route{Method: "GET", Pattern: "/v1/rare", ID: "rare", Rate: account.Rate{Count: 2, Per: time.Minute}, Answers: answers, Handle: ok},
		httpapi.Route{Method: "GET", Pattern: "/v1/often", ID: "often", Limit: httpapi.ReadLimit, Answers: answers, Handle: ok},
	)
	for i, want := range []int{204, 204, 429} {
		if w := get(h, "/v1/rare", ""); w.Code != want {
			t.Errorf("request %d: %d, want %d", i, w.Code, want)
		}
	}
	if w := get(h, "/v1/rare", ""); w.Header().Get("Retry-After") != "30" {
		t.Errorf("Retry-After %s", w.Header().Get("Retry-After"))
	}
	if w := get(h, "/v1/often", ""); w.Code != http.StatusNoContent {
		t.Errorf("another route: %d", w.Code)
	}
	if doc := get(h, "/openapi.json", "").Body.String(); strings.Count(doc, `"429"`) != 2 {
		t.Error("the document does not say that both routes are limited")
	}
}

func TestABrowserMaySendPatch(t *testing.T) {
	h := kernel(t, httpapi.Route{Method: "PATCH", Pattern: "/v1/test", ID: "test", Handle: func(c *httpapi.Call) error { return c.NoContent() }})
	r := httptest.NewRequest(http.MethodOptions, "/v1/test", http.NoBody)
	r.Header.Set("Origin", "https://app.example.org")
	r.Header.Set("Access-Control-Request-Method", "PATCH")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if methods := w.Header().Get("Access-Control-Allow-Methods"); !strings.Contains(methods, "PATCH") {
		t.Errorf("%d %s", w.Code, methods)
	}
}

func TestATableOfRoutesThatContradictsItselfIsRefused(t *testing.T) {
	n := nodetest.Start(t, nodetest.Options{})
	ok := func(c *httpapi.Call) error { return c.NoContent() }
	good := httpapi.Route{Method: "GET", Pattern: "/v1/a/{id}", ID: "a", Product: "test", Handle: ok}
	for name, bad := range map[string]httpapi.Route{
		"the same id":      {Method: "GET", Pattern: "/v1/b", ID: "a", Product: "test", Handle: ok},
		"the same pattern": {Method: "GET", Pattern: "/v1/a/{item}", ID: "b", Product: "test", Handle: ok},
		"no handler":       {Method: "GET", Pattern: "/v1/b", ID: "b", Product: "test"},
		"no product":       {Method: "GET", Pattern: "/v1/b", ID: "b", Handle: ok},
	} {
		if _, err := httpapi.New(httpapi.Options{Accounts: n.Accounts(), Clock: n.Clock(), Routes: []httpapi.Route{good, bad}}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
