package client_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
)

func mediumOf(b []byte) wire.Medium {
	sum := sha256.Sum256(b)
	return wire.Medium{Size: int64(len(b)), SHA256: hex.EncodeToString(sum[:]), URL: "/v1/media/x/0?sig=1"}
}

func TestAnInterruptedDownloadIsResumed(t *testing.T) {
	whole := []byte(strings.Repeat("0123456789", 10_000))
	half := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100000")
		_, _ = w.Write(whole[:40_000])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	rest := func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(whole))
	}
	all := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(whole) }
	for name, second := range map[string]http.HandlerFunc{"range": rest, "no range": all} {
		s := newServer(t, half, second)
		var got bytes.Buffer
		var reported int64
		err := s.client(t, client.Options{}).Download(t.Context(), mediumOf(whole), &got, func(done, _ int64) { reported = done })
		if err != nil || !bytes.Equal(got.Bytes(), whole) || reported != int64(len(whole)) {
			t.Errorf("%s: %v, %d bytes, reported %d", name, err, got.Len(), reported)
		}
		if requests := s.requests(); len(requests) != 2 || !strings.HasPrefix(requests[1].header.Get("Range"), "bytes=") || requests[0].query != "sig=1" {
			t.Errorf("%s: %+v", name, requests)
		}
	}
}

func TestADownloadOfWrongBytesIsCorrupt(t *testing.T) {
	whole := []byte("what was published")
	for name, sent := range map[string]string{"changed": "what was publishes", "short": "what was", "long": "what was published and more"} {
		s := newServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(sent)) })
		if err := s.client(t, client.Options{}).Download(t.Context(), mediumOf(whole), new(bytes.Buffer), nil); !errors.Is(err, mayfly.Corrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestATokenIsSentToItsServerOnly(t *testing.T) {
	whole := []byte("x")
	other := newServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(whole) })
	own := newServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(whole) })
	c := own.client(t, client.Options{Token: "secret", ActFor: "~ana"})
	m := mediumOf(whole)
	if err := c.Download(t.Context(), m, new(bytes.Buffer), nil); err != nil {
		t.Fatal(err)
	}
	m.URL = other.URL + m.URL
	if err := c.Download(t.Context(), m, new(bytes.Buffer), nil); err != nil {
		t.Fatal(err)
	}
	if h := own.requests()[0].header; h.Get("Authorization") != "Bearer secret" || h.Get("Mayfly-User") != "~ana" {
		t.Error("the token was not sent to its server")
	}
	if h := other.requests()[0].header; h.Get("Authorization") != "" || h.Get("Mayfly-User") != "" {
		t.Error("the token was sent to another server")
	}
}
