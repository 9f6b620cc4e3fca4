package kvapi_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

// follow opens the stream of events of a namespace and returns its fields as they come,
// id, event or data; the channel is closed with the stream.
func follow(t *testing.T, base, key, last string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", base+"/v1/kv/eventful/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("%v, %v", res, err)
	}
	out := make(chan string, 100)
	go func() {
		defer close(out)
		defer func() { _ = res.Body.Close() }() // the test has ended
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if text := lines.Text(); strings.HasPrefix(text, "id: ") || strings.HasPrefix(text, "data: ") {
				out <- text
			}
		}
	}()
	return out
}

func next(t *testing.T, events <-chan string, want string) string {
	t.Helper()
	select {
	case got := <-events:
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		return got
	case <-time.After(30 * time.Second):
		t.Fatalf("no %s came", want)
		return ""
	}
}

func TestExpiredKeysAreStreamedAndAStreamGoesOnAfterTheLastEvent(t *testing.T) {
	s := serve(t, nodetest.Options{})
	made := s.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/me/kv", Body: `{"name":"eventful","events":true}`}, http.StatusCreated)
	credential := nodetest.ReadJSON[wire.KVNamespace](t, made).Credentials[0]
	put := func(key, ttl string) {
		t.Helper()
		s.Want(nodetest.Request{As: "ana", Method: "PUT", Path: "/v1/kv/eventful/keys/" + key, Type: "text/plain", Body: "v", Header: map[string]string{"Mayfly-TTL": ttl}}, 204)
	}
	web := httptest.NewServer(s.Handlers.Public())
	t.Cleanup(web.Close) // after the streams have ended
	put("before", "1s")
	s.Machine.Advance(time.Second)
	events, others := follow(t, web.URL, credential.Key, ""), follow(t, web.URL, credential.Key, "")
	put("first", "1s")
	put("deleted", "1s")
	s.Want(nodetest.Request{As: "ana", Method: "DELETE", Path: "/v1/kv/eventful/keys/deleted"}, 204)
	put("second", "2s")
	s.Machine.Advance(time.Second)
	id := strings.TrimPrefix(next(t, events, "id: "), "id: ")
	next(t, events, `data: {"key":"first","expired_at":"`)
	s.Machine.Advance(time.Second)
	for _, want := range []string{"id: ", `"first"`, "id: ", `"second"`} {
		next(t, others, want)
	}
	next(t, events, "id: ")
	next(t, events, `"second"`)
	again := follow(t, web.URL, credential.Key, id)
	next(t, again, "id: ")
	next(t, again, `"second"`)

	s.Machine.Advance(4*time.Minute + 59*time.Second)
	again = follow(t, web.URL, credential.Key, id) // the last millisecond
	next(t, again, "id: ")
	s.Machine.Advance(time.Millisecond)
	q := nodetest.Request{As: "ana", Method: "GET", Path: "/v1/kv/eventful/events", Header: map[string]string{"Last-Event-ID": id}}
	if w := s.Want(q, 400); !strings.Contains(w.Body.String(), "begin again") {
		t.Errorf("%s", w.Body)
	}
	s.Want(nodetest.Request{As: "ana", Method: "DELETE", Path: "/v1/me/kv/eventful/credentials/" + credential.ID}, 204)
	ended := time.After(30 * time.Second)
	for open := true; open; {
		select {
		case _, open = <-events:
		case <-ended:
			t.Fatal("the stream goes on after its key was removed")
		}
	}
}
