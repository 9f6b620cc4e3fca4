package client_test

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
)

// parts returns the names and the contents of the parts of a form, in order.
func parts(t *testing.T, a request) (names []string, texts []string) {
	t.Helper()
	_, params, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	form := multipart.NewReader(bytes.NewReader(a.body), params["boundary"])
	for {
		p, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return names, texts
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(p)
		if err != nil {
			t.Fatal(err)
		}
		names, texts = append(names, p.FormName()+" "+p.FileName()+" "+p.Header.Get("Content-Type")), append(texts, string(text))
	}
}

func TestAPublicationIsRetriedWithTheSameKeyAndAllBytes(t *testing.T) {
	id := someID(t)
	s := newServer(t, problem(mayfly.Unavailable, 503), hangUp, answer(201, wire.Story{ID: id}))
	path := filepath.Join(t.TempDir(), "b.png")
	if err := os.WriteFile(path, []byte(strings.Repeat("b", 100_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := client.File(path)
	if err != nil {
		t.Fatal(err)
	}
	last := map[int]int64{}
	story, err := s.client(t, client.Options{Token: "secret"}).Publish(t.Context(), client.Publication{
		Story:    wire.NewStory{Caption: "hello", Audience: "everyone"},
		Media:    []client.Source{client.Bytes("a.jpg", []byte("aaa")), file},
		Progress: func(n int, done, _ int64) { last[n] = done },
	})
	if err != nil || story.ID != id {
		t.Fatal(err)
	}
	requests := s.requests()
	if len(requests) != 3 {
		t.Fatalf("%d attempts", len(requests))
	}
	for n, a := range requests {
		names, texts := parts(t, a)
		if strings.Join(names, "|") != "story  application/json|media a.jpg application/octet-stream|media b.png application/octet-stream" {
			t.Errorf("attempt %d: %q", n, names)
		}
		if !strings.Contains(texts[0], `"caption":"hello"`) || texts[1] != "aaa" || len(texts[2]) != 100_000 {
			t.Errorf("attempt %d: %.100q", n, texts)
		}
		if key := a.header.Get("Idempotency-Key"); len(key) < 20 || key != requests[0].header.Get("Idempotency-Key") {
			t.Errorf("attempt %d: key %q", n, key)
		}
		if a.header.Get("Authorization") != "Bearer secret" {
			t.Errorf("attempt %d: no token", n)
		}
	}
	if last[0] != 3 || last[1] != 100_000 {
		t.Errorf("progress ended at %v", last)
	}
}

func TestAMediumThatCannotBeReadEndsThePublication(t *testing.T) {
	s := newServer(t, answer(201, wire.Story{}))
	broken := errors.New("the file cannot be read")
	_, err := s.client(t, client.Options{}).Publish(t.Context(), client.Publication{Media: []client.Source{{
		Name: "a", Open: func() (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<20)), failing{broken})), nil
		},
	}}})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	for _, a := range s.requests() { // no complete form has arrived
		if bytes.Contains(a.body, []byte("--\r\n")) {
			t.Error("the form has its final boundary")
		}
	}
	if len(s.requests()) > 1 {
		t.Error("the request was retried")
	}
	if _, err := client.File(t.TempDir()); !errors.Is(err, mayfly.Invalid) {
		t.Error(err)
	}
	if _, err := client.File("nowhere"); !errors.Is(err, mayfly.NotFound) {
		t.Error(err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestAMediumThatCanBeReadOnceIsNotRetried(t *testing.T) {
	s := newServer(t, hangUp, answer(201, wire.Story{}))
	_, err := s.client(t, client.Options{}).Publish(t.Context(), client.Publication{Media: []client.Source{client.Once("pipe", strings.NewReader("abc"))}})
	if err == nil || !strings.Contains(err.Error(), "cannot be read again") {
		t.Error(err)
	}
}

func TestReservedMediaArePutAndPublished(t *testing.T) {
	id := someID(t)
	s := newServer(t,
		answer(201, wire.Upload{ID: id, Put: []wire.PutTarget{{Method: "PUT"}}}),
		problem(mayfly.Unavailable, 503), answer(200, wire.Uploaded{Size: 3}),
		answer(200, wire.Upload{ID: id, Put: []wire.PutTarget{{Method: "PUT", Done: true}}}),
		answer(201, wire.Story{ID: id}))
	c := s.client(t, client.Options{})
	upload, err := c.Reserve(t.Context(), client.Bytes("a", []byte("abc")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Reserve(t.Context(), client.Once("pipe", strings.NewReader("abc"))); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("of an unknown size: %v", err)
	}
	if got, err := c.Put(t.Context(), upload.ID, 0, client.Bytes("a", []byte("abc")), nil); err != nil || got.Size != 3 {
		t.Fatal(err)
	}
	if got, err := c.Upload(t.Context(), upload.ID); err != nil || !got.Put[0].Done {
		t.Fatal(err)
	}
	if _, err := c.Publish(t.Context(), client.Publication{Story: wire.NewStory{Upload: &upload.ID}}); err != nil {
		t.Fatal(err)
	}
	requests := s.requests()
	if requests[2].path != "/v1/uploads/"+id.String()+"/0" || string(requests[2].body) != "abc" || requests[4].header.Get("Content-Type") != "application/json" || requests[4].header.Get("Idempotency-Key") == "" {
		t.Errorf("%+v", requests)
	}
}
