package client_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
)

// tokenServer accepts the access token "new", which it returns once for the
// refresh token "r1".
func tokenServer(t *testing.T) *server {
	used := false
	var mu sync.Mutex
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.URL.Path == "/v1/token" && used:
			problem(mayfly.Unauthenticated, 401)(w, r)
		case r.URL.Path == "/v1/token":
			used = true
			answer(200, wire.Tokens{AccessToken: "new", RefreshToken: "r2"})(w, r)
		case r.Header.Get("Authorization") == "Bearer new":
			answer(200, wire.Preflight{MayPublish: true})(w, r)
		default:
			problem(mayfly.Unauthenticated, 401)(w, r)
		}
	})
	return s
}

func TestAnExpiredTokenIsRenewedOnceForConcurrentCalls(t *testing.T) {
	s := tokenServer(t)
	var kept wire.Tokens
	c := s.client(t, client.Options{Token: "old", Refresh: "r1", Renewed: func(tokens wire.Tokens) { kept = tokens }})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if p, err := c.Preflight(t.Context()); err != nil || !p.MayPublish {
				t.Error(err)
			}
		})
	}
	all.Wait()
	renewals := 0
	for _, a := range s.requests() {
		if a.path == "/v1/token" {
			renewals++
			if a.header.Get("Authorization") != "" || !strings.Contains(string(a.body), `"refresh_token":"r1"`) {
				t.Errorf("%+v %s", a.header, a.body)
			}
		}
	}
	if renewals != 1 || kept.RefreshToken != "r2" {
		t.Errorf("%d renewals, kept %q", renewals, kept.RefreshToken)
	}
}

func TestWithoutAValidRefreshTokenTheCallIsUnauthenticated(t *testing.T) {
	s := tokenServer(t)
	if _, err := s.client(t, client.Options{Token: "old"}).Preflight(t.Context()); !errors.Is(err, mayfly.Unauthenticated) || len(s.requests()) != 1 {
		t.Error(err, len(s.requests()))
	}
	s = tokenServer(t)
	one := s.client(t, client.Options{Token: "old", Refresh: "r1"})
	if _, err := one.Preflight(t.Context()); err != nil {
		t.Fatal(err)
	}
	two := s.client(t, client.Options{Token: "old", Refresh: "r1"}) // has a refresh token that was used
	for range 2 {
		if _, err := two.Preflight(t.Context()); !errors.Is(err, mayfly.Unauthenticated) {
			t.Error(err)
		}
	}
	refreshes := 0
	for _, a := range s.requests() {
		if a.path == "/v1/token" {
			refreshes++
		}
	}
	if refreshes != 2 {
		t.Errorf("a refresh token that was refused was sent again: %d", refreshes)
	}
}

func TestARefreshWhoseResponseWasLostIsRetried(t *testing.T) {
	s := newServer(t, hangUp, answer(200, wire.Tokens{AccessToken: "new", RefreshToken: "r2"}))
	got, err := s.client(t, client.Options{}).RefreshTokens(t.Context(), "r1")
	if err != nil || got.RefreshToken != "r2" || len(s.requests()) != 2 {
		t.Errorf("%v after %d", err, len(s.requests()))
	}
}
