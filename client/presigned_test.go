package client_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
)

func noContent(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// offer returns a reservation with presigned URLs of a storage.
func offer(t *testing.T, storage string, lengths ...int64) wire.Upload {
	t.Helper()
	u := wire.Upload{ID: someID(t)}
	for _, length := range lengths {
		u.Put = append(u.Put, wire.PutTarget{Method: "PUT", URL: "/v1/uploads/x/0", Length: length, Presigned: &wire.PutURL{URL: storage + "/bucket/raw?signature=s"}})
	}
	return u
}

func TestAStoryIsPublishedThroughTheStorageWithoutSendingItTheToken(t *testing.T) {
	storage := newServer(t, noContent)
	s := newServer(t, answer(201, offer(t, storage.URL, 300, 5)), answer(201, wire.Story{ID: someID(t)}))
	file := filepath.Join(t.TempDir(), "sea.jpg")
	if err := os.WriteFile(file, bytes.Repeat([]byte("sea"), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	fromFile, err := client.File(file)
	if err != nil {
		t.Fatal(err)
	}
	reported := map[int]int64{}
	_, err = s.client(t, client.Options{Token: "secret", ActFor: "~ana"}).PublishUpload(t.Context(), client.Publication{
		Story: wire.NewStory{Caption: "sea"}, Media: []client.Source{fromFile, client.Bytes("b", []byte("bytes"))}, Key: "k",
		Progress: func(medium int, done, _ int64) { reported[medium] = done },
	})
	if err != nil {
		t.Fatal(err)
	}
	put := storage.requests()
	if len(put) != 2 || !bytes.Equal(put[0].body, bytes.Repeat([]byte("sea"), 100)) || string(put[1].body) != "bytes" {
		t.Fatalf("%+v", put)
	}
	for _, one := range put {
		if one.method != http.MethodPut || one.query != "signature=s" || one.header.Get("Content-Length") == "" {
			t.Errorf("%+v", one)
		}
		for _, private := range []string{"Authorization", "Mayfly-User", "Idempotency-Key", "Cookie"} {
			if one.header.Get(private) != "" {
				t.Errorf("the storage received %s", private)
			}
		}
	}
	asked := s.requests()
	if len(asked) != 2 || asked[0].path != "/v1/uploads" || string(asked[0].body) != `{"media":[{"length":300},{"length":5}]}` || asked[1].path != "/v1/stories" || asked[1].header.Get("Idempotency-Key") != "k" || !strings.Contains(string(asked[1].body), someID(t).String()) {
		t.Errorf("%+v", asked)
	}
	if reported[0] != 300 || reported[1] != 5 {
		t.Errorf("%v", reported)
	}
}

func TestAStorageAtTheAddressOfTheServerGetsNoTokenEither(t *testing.T) {
	s := newServer(t, noContent)
	if err := s.client(t, client.Options{Token: "secret", ActFor: "~ana"}).PutTo(t.Context(), offer(t, s.URL, 5), 0, client.Bytes("b", []byte("bytes")), nil); err != nil {
		t.Fatal(err)
	}
	if h := s.requests(); len(h) != 1 || h[0].path != "/bucket/raw" || h[0].header.Get("Authorization") != "" || h[0].header.Get("Mayfly-User") != "" {
		t.Errorf("%+v", h)
	}
}

func TestAStorageThatFailsIsRetriedAndOneThatRefusesIsNot(t *testing.T) {
	for name, c := range map[string]struct {
		storage    []http.HandlerFunc
		puts, ours int
	}{
		"busy":        {[]http.HandlerFunc{status(503), hangUp, noContent}, 3, 0},
		"always busy": {[]http.HandlerFunc{status(503)}, 3, 1},
		"expired":     {[]http.HandlerFunc{status(403)}, 1, 1},
		"redirect":    {[]http.HandlerFunc{status(307)}, 1, 1},
		"hang up":     {[]http.HandlerFunc{hangUp}, 3, 1},
	} {
		storage := newServer(t, c.storage...)
		s := newServer(t, answer(201, wire.Uploaded{}))
		err := s.client(t, client.Options{Token: "secret", Retries: 2}).PutTo(t.Context(), offer(t, storage.URL, 5), 0, client.Bytes("b", []byte("bytes")), nil)
		if err != nil || len(storage.requests()) != c.puts || len(s.requests()) != c.ours {
			t.Errorf("%s: %v, %d puts to the storage, %d to the server", name, err, len(storage.requests()), len(s.requests()))
		}
		if c.ours == 1 && (string(s.requests()[0].body) != "bytes" || s.requests()[0].header.Get("Authorization") == "") {
			t.Errorf("%s: %+v", name, s.requests()[0])
		}
	}
}

func TestAMediumThatTheStorageCannotTakeGoesToTheServer(t *testing.T) {
	storage := newServer(t, noContent)
	with := func(change func(*wire.PutTarget)) wire.Upload {
		u := offer(t, storage.URL, 5)
		change(&u.Put[0])
		return u
	}
	same := func(*wire.PutTarget) {}
	for name, c := range map[string]struct {
		upload wire.Upload
		source client.Source
	}{
		"not offered":       {with(func(p *wire.PutTarget) { p.Presigned = nil }), client.Bytes("b", []byte("bytes"))},
		"unknown size":      {with(same), client.Once("b", strings.NewReader("bytes"))},
		"another length":    {with(same), client.Bytes("b", make([]byte, 6))},
		"empty":             {with(same), client.Bytes("b", nil)},
		"other scheme":      {with(func(p *wire.PutTarget) { p.Presigned.URL = "file:///etc/passwd" }), client.Bytes("b", []byte("bytes"))},
		"relative URL":      {with(func(p *wire.PutTarget) { p.Presigned.URL = "/v1/stories" }), client.Bytes("b", []byte("bytes"))},
		"invalid URL":       {with(func(p *wire.PutTarget) { p.Presigned.URL = "http://[" }), client.Bytes("b", []byte("bytes"))},
		"nothing listening": {with(func(p *wire.PutTarget) { p.Presigned.URL = "http://127.0.0.1:1/" }), client.Bytes("b", []byte("bytes"))},
	} {
		s := newServer(t, answer(201, wire.Uploaded{}))
		if err := s.client(t, client.Options{Retries: -1}).PutTo(t.Context(), c.upload, 0, c.source, nil); err != nil || len(s.requests()) != 1 {
			t.Errorf("%s: %v, %d puts to the server", name, err, len(s.requests()))
		}
	}
	if requests := storage.requests(); len(requests) != 0 {
		t.Errorf("%+v", requests)
	}
}

func TestAClientOfATLSServerUsesNoStorageWithoutTLS(t *testing.T) {
	storage := newServer(t, noContent)
	var asked []string
	c, err := client.New("https://mayfly.test", client.Options{Retries: -1, HTTP: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		asked = append(asked, r.URL.Scheme+"://"+r.URL.Host)
		return nil, errors.New("no network")
	})}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.PutTo(t.Context(), offer(t, storage.URL, 5), 0, client.Bytes("b", []byte("bytes")), nil); !errors.Is(err, mayfly.Unavailable) {
		t.Error(err)
	}
	if !slices.Equal(asked, []string{"https://mayfly.test"}) {
		t.Errorf("%v", asked)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAnErrorOfTheFileIsNotRetried(t *testing.T) {
	storage, s := newServer(t, noContent), newServer(t, answer(201, wire.Uploaded{}))
	opened := 0
	gone := client.Source{Name: "b", Size: 5, Open: func() (io.ReadCloser, error) {
		opened++
		return nil, os.ErrNotExist
	}}
	if err := s.client(t, client.Options{}).PutTo(t.Context(), offer(t, storage.URL, 5), 0, gone, nil); !errors.Is(err, os.ErrNotExist) || opened != 1 || len(s.requests()) != 0 {
		t.Errorf("%v after %d", err, opened)
	}
}

func TestNoErrorContainsTheSignatureOfAURL(t *testing.T) {
	s := newServer(t, hangUp)
	for _, target := range []string{s.URL + "/m?signature=abc", "http://127.0.0.1:1/m?signature=abc"} {
		_, err := s.client(t, client.Options{Retries: -1}).OpenMedium(t.Context(), target, 0)
		if err == nil || strings.Contains(err.Error(), "abc") {
			t.Errorf("%v", err)
		}
	}
}

func TestAMediumIsReadFromTheStorageWithoutTheToken(t *testing.T) {
	storage := newServer(t, noContent)
	s := newServer(t, hangUp)
	r, err := s.client(t, client.Options{Token: "secret", ActFor: "~ana"}).OpenMedium(t.Context(), storage.URL+"/m?signature=abc", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if h := storage.requests()[0].header; h.Get("Authorization") != "" || h.Get("Mayfly-User") != "" {
		t.Errorf("%v", h)
	}
}
