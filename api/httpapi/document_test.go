package httpapi_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

// documentOf returns the OpenAPI document of a listener, which must be valid.
func documentOf(t testing.TB, h http.Handler) *openapi3.T {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/openapi.json", http.NoBody))
	doc, err := openapi3.NewLoader().LoadFromData(w.Body.Bytes())
	if err != nil {
		t.Fatalf("the document cannot be read: %v", err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		t.Fatalf("the document is not valid: %v", err)
	}
	if !doc.IsOpenAPI31OrLater() {
		t.Fatalf("the document is %s", doc.OpenAPI)
	}
	return doc
}

// known has the routers of documents that were parsed before, by document: every
// test node has the same two.
var known sync.Map

func routerOf(t testing.TB, h http.Handler) routers.Router {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/openapi.json", http.NoBody))
	if r, ok := known.Load(w.Body.String()); ok {
		return r.(routers.Router)
	}
	doc, no := documentOf(t, h), false
	for _, s := range doc.Components.Schemas {
		s.Value.AdditionalProperties = openapi3.AdditionalProperties{Has: &no}
	}
	router, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	known.Store(w.Body.String(), router)
	return router
}

// validated returns a handler that validates every answer against its own
// document. A field that the document does not name is an error.
func validated(t testing.TB, h http.Handler) http.Handler {
	t.Helper()
	router := routerOf(t, h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorded := &recording{ResponseWriter: w}
		h.ServeHTTP(recorded, r)
		if recorded.status != 0 {
			validate(t, router, r, recorded)
		}
	})
}

// recording is a ResponseWriter that keeps what was sent.
type recording struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (k *recording) WriteHeader(status int) {
	if k.status == 0 {
		k.status = status
	}
	k.ResponseWriter.WriteHeader(status)
}

func (k *recording) Write(p []byte) (int, error) {
	if k.status == 0 {
		k.WriteHeader(http.StatusOK)
	}
	k.body.Write(p)
	return k.ResponseWriter.Write(p)
}

func (k *recording) Unwrap() http.ResponseWriter { return k.ResponseWriter }

// validate checks an answer against the document.
func validate(t testing.TB, router routers.Router, r *http.Request, k *recording) {
	t.Helper()
	if k.Header().Get("Mayfly-Request") == "" {
		t.Errorf("%s %s: the answer has no Mayfly-Request", r.Method, r.URL.Path)
	}
	typ := k.Header().Get("Content-Type")
	if k.status >= 400 && r.Header.Get("Accept") == "" && r.Method != http.MethodHead && !strings.HasPrefix(typ, "application/problem+json") && r.URL.Path != "/healthz" && r.URL.Path != "/readyz" {
		t.Errorf("%s %s: %d is no problem: %s", r.Method, r.URL.Path, k.status, typ)
	}
	if k.status == http.StatusMethodNotAllowed || strings.Contains(k.body.String(), "there is no such route") {
		return // the library's router accepts more than ours
	}
	bare := r.Clone(context.Background())
	bare.Body = http.NoBody
	bare.URL.RawQuery = ""
	route, params, err := router.FindRoute(bare)
	if err != nil {
		if k.status != http.StatusNotFound && k.status != http.StatusMethodNotAllowed && k.status != http.StatusBadRequest && r.Method != http.MethodOptions {
			t.Errorf("%s %s: %d, but the document has no such route", r.Method, r.URL.Path, k.status)
		}
		return
	}
	in := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: bare, PathParams: params, Route: route},
		Status:                 k.status, Header: k.Header(),
		Body:    io.NopCloser(bytes.NewReader(k.body.Bytes())),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
	}
	if isMedia(typ) || k.status == http.StatusNoContent || k.status == http.StatusNotModified || r.Method == http.MethodHead || !strings.Contains(typ, "json") {
		in.Options.ExcludeResponseBody = true
		documented(t, route, r, k, typ)
	}
	if err := openapi3filter.ValidateResponse(context.Background(), in); err != nil {
		t.Errorf("%s %s: %d does not match the document: %v\n%s", r.Method, r.URL.Path, k.status, err, k.body.String())
	}
}

func isMedia(typ string) bool {
	return strings.HasPrefix(typ, "image/") || strings.HasPrefix(typ, "video/")
}

// documented checks that the document names the media type of the answer.
func documented(t testing.TB, route *routers.Route, r *http.Request, k *recording, typ string) {
	t.Helper()
	if typ == "" || r.Method == http.MethodHead {
		return
	}
	want := route.Operation.Responses.Status(k.status)
	if want == nil || want.Value.Content.Get(typ) == nil {
		t.Errorf("%s %s: the document has no %s for %d", r.Method, r.URL.Path, typ, k.status)
	}
}

// errorCounter is a testing.TB that counts errors instead of failing.
type errorCounter struct {
	testing.TB
	errors int
}

func (w *errorCounter) Errorf(string, ...any) { w.errors++ }
func (w *errorCounter) Helper()               {}

func TestAnAnswerThatIsNotInTheDocumentIsAnError(t *testing.T) {
	h := newTestNode(t)
	s := h.publish("ana", `{"audience":"everyone"}`)
	good := h.get("anonymous", "/v1/stories/"+s.ID.String(), 200).Body.String()
	for name, wrong := range map[string]struct {
		status    int
		typ, body string
	}{
		"a status":        {418, "application/problem+json", `{"type":"x","title":"x","status":418,"code":"x"}`},
		"a field":         {200, "application/json", strings.Replace(good, `{"id"`, `{"colour":"red","id"`, 1)},
		"a missing field": {200, "application/json", strings.Replace(good, `"audience":"everyone",`, ``, 1)},
		"a wrong word":    {200, "application/json", strings.Replace(good, `"audience":"everyone"`, `"audience":"all"`, 1)},
		"a wrong type":    {200, "application/json", strings.Replace(good, `"media":[`, `"media":7,"x":[`, 1)},
		"not a problem":   {404, "text/plain", "nothing"},
		"a page":          {200, "text/html", "<p>"},
	} {
		t.Run(name, func(t *testing.T) {
			seen := &errorCounter{TB: t}
			answer := &recording{ResponseWriter: httptest.NewRecorder()}
			answer.Header().Set("Mayfly-Request", "x")
			answer.Header().Set("Content-Type", wrong.typ)
			answer.WriteHeader(wrong.status)
			_, _ = io.WriteString(answer, wrong.body)
			validate(seen, routerOf(t, h.public), httptest.NewRequest("GET", "/v1/stories/"+s.ID.String(), http.NoBody), answer)
			if seen.errors == 0 {
				t.Error("no error was reported")
			}
		})
	}
}
