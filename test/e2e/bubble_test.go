package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
)

// scripts are the golden stories; MAYFLY_STORY=name plays those only whose name
// it is in.
func scripts(t *testing.T) []script {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 12 {
		t.Fatalf("%d golden stories, %v", len(files), err)
	}
	var all []script
	for _, file := range files {
		s, err := readScript(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(s.name, os.Getenv("MAYFLY_STORY")) {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		t.Fatalf("no golden story is called %s", os.Getenv("MAYFLY_STORY"))
	}
	return all
}

// Every golden story, through the handlers of one node in a bubble: to the
// millisecond, and every answer as the served document says. The stories are
// played side by side, each by people of its own: virtual time stands still
// while any of them is at work.
func TestGoldenStoriesComeTrueToTheMillisecond(t *testing.T) {
	all := scripts(t)
	counts := make([]tally, len(all))
	synctest.Test(t, func(t *testing.T) {
		day := mayfly.InstantOf(time.Now().UTC().Truncate(24 * time.Hour))
		time.Sleep(earliest(all) - time.Minute)
		b := &bubble{testNode: openNode(t, nodeConfig()), day: day}
		defer b.close()
		var playing sync.WaitGroup
		for i, s := range all {
			playing.Go(func() { counts[i] = newPlayer(t, b, s).play() })
		}
		playing.Wait()
	})
	var sum tally
	for _, c := range counts {
		sum.add(c)
	}
	t.Logf("%d golden stories in a bubble: %s", len(all), sum)
	if sum.missed > 0 || sum.answers != sum.lines && !t.Failed() {
		t.Errorf("a bubble misses nothing: %s", sum)
	}
}

// earliest is at what time of day the first of the stories begins.
func earliest(all []script) time.Duration {
	first := all[0].lines[0].at.after
	for _, s := range all {
		first = min(first, s.lines[0].at.after)
	}
	return first
}

// bubble is the stage of virtual time.
type bubble struct {
	*testNode
	day mayfly.Instant
}

func (b *bubble) midnight() mayfly.Instant           { return b.day }
func (b *bubble) span(d time.Duration) time.Duration { return d }
func (b *bubble) lifetime(word string) string        { return word }

func (b *bubble) urls(archived bool) time.Duration {
	if archived {
		return time.Hour
	}
	return time.Minute
}

func (b *bubble) since(birth mayfly.Instant, after time.Duration) mayfly.Instant {
	return birth.Add(after)
}

func (b *bubble) wait(planned mayfly.Instant) mayfly.Instant {
	if now := b.now(); now > planned {
		b.Errorf("it is %s, and a line is planned for %s: the lines are out of order, or something let time pass", now, planned)
	}
	b.sleepUntil(planned)
	return b.now()
}

func (b *bubble) bearer(user, scope string) (string, error) { return b.testNode.bearer(user, scope) }

// bearer is a token, fresh at every request: virtual days are longer than tokens last.
func (h *testNode) bearer(user, scope string) (string, error) {
	id, scopes := mayfly.UserID{}, []account.Scope{account.Scope(scope)}
	if user != "" {
		id = mayfly.HomeUserOf(issuer, user)
		if scope != "user" {
			scopes = append(scopes, account.User)
		}
	} else {
		user = scope
	}
	token, err := h.node.Accounts().Mint(id, user, scopes, 0, h.now())
	return string(token), err
}

// ask hands a request to the handler, and holds the answer against the document.
func (h *testNode) ask(r request) (answer, error) {
	req := httptest.NewRequestWithContext(h.Context(), r.method, r.target, bytes.NewReader(r.body))
	for name, values := range r.header {
		req.Header[name] = values
	}
	handler := h.public
	if r.admin {
		handler = h.admin
	}
	rec := httptest.NewRecorder()
	a := answer{began: h.now()}
	handler.ServeHTTP(rec, req)
	a.status, a.header, a.body, a.ended = rec.Code, rec.Result().Header, rec.Body.Bytes(), h.now()
	if err := h.documented(r, a); err != nil {
		return a, fmt.Errorf("%s %s: the answer is not as the document says: %w", r.method, r.target, err)
	}
	if a.status >= http.StatusInternalServerError {
		return a, fmt.Errorf("%s %s: %d %s", r.method, r.target, a.status, excerpt(a.body))
	}
	return a, nil
}
