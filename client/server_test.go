package client_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
)

// server answers each request with the next of its answers, repeats the last one,
// and records the requests.
type server struct {
	*httptest.Server
	answers []http.HandlerFunc

	mu       sync.Mutex
	received []request
}

// request is a request as the server received it.
type request struct {
	method, path, query string
	header              http.Header
	body                []byte
}

func newServer(t *testing.T, answers ...http.HandlerFunc) *server {
	t.Helper()
	s := &server{answers: answers}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		n := len(s.received)
		s.received = append(s.received, request{method: r.Method, path: r.URL.EscapedPath(), query: r.URL.RawQuery, header: r.Header})
		s.mu.Unlock()
		body, _ := io.ReadAll(r.Body) // of an aborted request, what has arrived
		s.mu.Lock()
		s.received[n].body = body
		s.mu.Unlock()
		s.answers[min(n, len(s.answers)-1)](w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// requests returns the requests so far.
func (s *server) requests() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]request(nil), s.received...)
}

// client returns a client of s with short pauses.
func (s *server) client(t *testing.T, o client.Options) *client.Client {
	t.Helper()
	o.First, o.Longest = time.Millisecond, max(o.Longest, 5*time.Millisecond)
	c, err := client.New(s.URL, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func answer(status int, value any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(value)
	}
}

func problem(kind mayfly.Kind, status int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", wire.ProblemType)
		w.Header().Set("Mayfly-Request", "r-1")
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(wire.Problem{Title: "title", Status: status, Code: kind.String(), Detail: "detail", Hint: "do this"})
	}
}

// hangUp closes the connection without an answer.
func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func someID(t *testing.T) mayfly.ID {
	t.Helper()
	life, err := mayfly.LifetimeOf(24 * time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	id, err := mayfly.NewID(1_700_000_000_000, life, 5, 77)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
