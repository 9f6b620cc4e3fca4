package client_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
)

func TestTemporaryFailuresAreRetried(t *testing.T) {
	for name, first := range map[string]http.HandlerFunc{
		"429": problem(mayfly.Limited, 429), "502": problem(mayfly.Unavailable, 502),
		"503": problem(mayfly.Unavailable, 503), "504": problem(mayfly.Unavailable, 504), "hang up": hangUp,
	} {
		s := newServer(t, first, first, answer(200, wire.Preflight{MayPublish: true}))
		got, err := s.client(t, client.Options{}).Preflight(t.Context())
		if err != nil || !got.MayPublish || len(s.requests()) != 3 {
			t.Errorf("%s: %v after %d", name, err, len(s.requests()))
		}
	}
}

func TestPermanentFailuresAreNotRetried(t *testing.T) {
	for kind, status := range map[mayfly.Kind]int{
		mayfly.NotFound: 404, mayfly.Gone: 410, mayfly.Conflict: 409, mayfly.Invalid: 400, mayfly.Full: 507, mayfly.Denied: 403, mayfly.Unauthenticated: 401, mayfly.Corrupt: 500,
	} {
		s := newServer(t, problem(kind, status))
		_, err := s.client(t, client.Options{Token: "t"}).Story(t.Context(), someID(t))
		if !errors.Is(err, kind) || len(s.requests()) != 1 {
			t.Errorf("%s: %v after %d", kind, err, len(s.requests()))
		}
		var e *client.Error
		if !errors.As(err, &e) || e.Request != "r-1" || e.Problem.Hint != "do this" || !strings.Contains(err.Error(), "detail") {
			t.Errorf("%s: %+v", kind, e)
		}
		var own *mayfly.Error
		if !errors.As(err, &own) || own.Hint != "do this" {
			t.Errorf("%s: no hint in %v", kind, err)
		}
	}
}

func TestRetriesAreLimited(t *testing.T) {
	s := newServer(t, problem(mayfly.Unavailable, 503))
	if _, err := s.client(t, client.Options{Retries: 2}).Preflight(t.Context()); !errors.Is(err, mayfly.Unavailable) || len(s.requests()) != 3 {
		t.Errorf("%v after %d", err, len(s.requests()))
	}
	s = newServer(t, problem(mayfly.Unavailable, 503))
	if _, err := s.client(t, client.Options{Retries: -1}).Preflight(t.Context()); !errors.Is(err, mayfly.Unavailable) || len(s.requests()) != 1 {
		t.Errorf("%v after %d", err, len(s.requests()))
	}
}

func TestCallsThatAreNotIdempotentAreNotRetried(t *testing.T) {
	for name, do := range map[string]func(*client.Client) error{
		"token": func(c *client.Client) error { _, err := c.TokenFor(t.Context(), "~ana"); return err },
		"reserve": func(c *client.Client) error {
			_, err := c.Reserve(t.Context(), client.Bytes("a", []byte("a")))
			return err
		},
		"restore": func(c *client.Client) error { _, err := c.Restore(t.Context(), wire.RestoreRequest{}); return err },
	} {
		s := newServer(t, hangUp)
		if err := do(s.client(t, client.Options{})); err == nil || len(s.requests()) != 1 {
			t.Errorf("%s: %v after %d", name, err, len(s.requests()))
		}
	}
}

func TestRetryAfterIsObeyed(t *testing.T) {
	s := newServer(t, problem(mayfly.Limited, 429, "Retry-After", "1"), answer(200, wire.Preflight{}))
	start := time.Now()
	if _, err := s.client(t, client.Options{Longest: 2 * time.Second}).Preflight(t.Context()); err != nil || time.Since(start) < time.Second {
		t.Errorf("%v after %s", err, time.Since(start))
	}
	s = newServer(t, problem(mayfly.Limited, 429, "Retry-After", "3600"))
	_, err := s.client(t, client.Options{}).Preflight(t.Context())
	var e *client.Error
	if !errors.As(err, &e) || e.After != time.Hour || len(s.requests()) != 1 {
		t.Errorf("%v after %d", err, len(s.requests()))
	}
	s = newServer(t, problem(mayfly.Limited, 429, "Retry-After", "Mon, 05 Jan 2026 10:00:30 GMT", "Date", "Mon, 05 Jan 2026 10:00:00 GMT"))
	if _, err = s.client(t, client.Options{}).Preflight(t.Context()); !errors.As(err, &e) || e.After != 30*time.Second {
		t.Errorf("%+v", e)
	}
}

func TestACanceledContextEndsThePause(t *testing.T) {
	s := newServer(t, problem(mayfly.Limited, 429, "Retry-After", "600"))
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	_, err := s.client(t, client.Options{Longest: time.Hour}).Preflight(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, mayfly.Limited) {
		t.Error(err)
	}
}

func TestAnUnreachableServerIsUnavailableWithAHint(t *testing.T) {
	s := newServer(t, hangUp)
	s.Close()
	_, err := s.client(t, client.Options{Retries: -1}).Preflight(t.Context())
	if !errors.Is(err, mayfly.Unavailable) || !strings.Contains(err.Error(), "is the server running at "+s.URL) {
		t.Error(err)
	}
}

func TestAResponseThatIsNotAProblemHasAKindByItsStatus(t *testing.T) {
	for status, kind := range map[int]mayfly.Kind{404: mayfly.NotFound, 410: mayfly.Gone, 413: mayfly.TooLarge, 500: mayfly.Unknown, 400: mayfly.Invalid, 302: mayfly.Invalid} {
		s := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://elsewhere.example/")
			http.Error(w, "error of a proxy", status)
		})
		_, err := s.client(t, client.Options{}).Preflight(t.Context())
		if !errors.Is(err, kind) {
			t.Errorf("%d: %v", status, err)
		}
		if status == 302 && !strings.Contains(err.Error(), "elsewhere.example") {
			t.Error(err)
		}
	}
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })
	if _, err := s.client(t, client.Options{}).Preflight(t.Context()); err == nil || !strings.Contains(err.Error(), "is it a mayfly server?") {
		t.Error(err)
	}
}

func TestAnInvalidServerURLIsRefused(t *testing.T) {
	for _, base := range []string{"", "localhost:7420", "ftp://x", "http://", "http://a:b@x", "http://x?y=1"} {
		if _, err := client.New(base, client.Options{}); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%q: %v", base, err)
		}
	}
}
