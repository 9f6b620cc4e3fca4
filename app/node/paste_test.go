package node_test

import (
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/product/paste"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
	"github.com/mayflyhq/mayfly/test/pace"
)

// A server that gets no more requests holds nothing of its pastes a minute after their
// deadline: no bytes, no record, no claim, no page in memory (P6). Of the row a
// tombstone stays, which has nothing of the content.
func TestAQuietServerHoldsNothingOfAnEndedPaste(t *testing.T) {
	pace.Heavy(t, "a node that lives for minutes of virtual time")
	synctest.Test(t, func(t *testing.T) {
		s := nodetest.Serve(t, nodetest.Options{
			Node: func(o *node.Options) { o.Idle, o.Source = false, nodetest.BubbleClock() },
		})
		all := pasted(s)
		end := all[len(all)-1].Deadline()
		time.Sleep(end.Sub(s.Now()) - time.Second)
		getPage(s, all[0]) // the last request
		wantKept(s, all, map[string]int{"owner index": 4, "objects": 4, "claims": 1, "records": 4, "pages": 1})
		time.Sleep(end.Add(time.Minute).Sub(s.Now()))
		wantKept(s, all, map[string]int{})
	})
}

func createPaste(s *nodetest.Server, as, fields string) mayfly.ID {
	s.Helper()
	q := nodetest.Request{As: as, Method: http.MethodPost, Path: "/v1/pastes", Body: `{"lifetime":"10m","title":"a title",` + fields + `}`}
	return nodetest.ReadJSON[wire.Paste](s, s.Want(q, http.StatusCreated)).ID
}

// getPage returns the page of a paste.
func getPage(s *nodetest.Server, id mayfly.ID) string {
	s.Helper()
	return s.Want(nodetest.Request{As: "anonymous", Method: http.MethodGet, Path: "/" + id.Short(), Header: map[string]string{"Accept": "text/html"}}, http.StatusOK).Body.String()
}

// pasted creates pastes of ana: a large public one whose page is in memory, one with a
// read that was claimed, a private one, one with a password.
func pasted(s *nodetest.Server) []mayfly.ID {
	s.Helper()
	public, limited := createPaste(s, "ana", `"content":"`+strings.Repeat("line\\n", 30_000)+`"`), createPaste(s, "ana", `"content":"words","reads":3`)
	getPage(s, public)
	s.Want(nodetest.Request{As: "anonymous", Method: http.MethodPost, Path: "/raw/" + limited.Short()}, http.StatusOK)
	return []mayfly.ID{public, limited, createPaste(s, "ana", `"content":"words","private":true`), createPaste(s, "ana", `"content":"words","password":"secret"`)}
}

// wantKept compares what the server has of pastes of ana.
func wantKept(s *nodetest.Server, all []mayfly.ID, want map[string]int) {
	s.Helper()
	n := map[string]int{"owner index": len(s.Owned(nodetest.User("ana"))), "objects": len(s.Objects(s.Set.Hot)) + len(s.Objects(s.Set.Cold))}
	for _, id := range all {
		n["claims"] += len(s.Partition(paste.Claims, string(id[:])))
		if s.HasBody(id) {
			n["records"]++
		}
	}
	if inMemory(s) {
		n["pages"]++
	}
	for _, what := range []string{"owner index", "objects", "claims", "records", "pages"} {
		if n[what] != want[what] {
			s.Errorf("at %s: %s %d, want %d", s.Now(), what, n[what], want[what])
		}
	}
}

// Of small pastes only those that everyone may read stay in memory, and no deleted one.
func TestOnlyPublicPastesStayInMemory(t *testing.T) {
	s := nodetest.Serve(t, nodetest.Options{})
	// The cache counts its bytes when it gets to it.
	wantInMemory := func(want bool) {
		t.Helper()
		for try := 0; inMemory(s) != want; try++ {
			if try == 1000 {
				t.Fatalf("a paste is in memory: %t, want %t", !want, want)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	private, locked := createPaste(s, "ana", `"content":"words","private":true`), createPaste(s, "ana", `"content":"words","password":"secret"`)
	s.Get("ana", "/raw/"+private.Short(), http.StatusOK)
	s.Want(nodetest.Request{As: "anonymous", Method: http.MethodGet, Path: "/raw/" + locked.Short(), Header: map[string]string{"Mayfly-Password": "secret"}}, http.StatusOK)
	wantInMemory(false)
	public := createPaste(s, "ana", `"content":"words"`)
	for range 2 {
		if got := s.Get("anonymous", "/raw/"+public.Short(), http.StatusOK).Body.String(); got != "words" {
			t.Errorf("%q", got)
		}
		wantInMemory(true)
	}
	s.Want(nodetest.Request{As: "ana", Method: http.MethodDelete, Path: "/" + public.Short()}, http.StatusNoContent)
	s.Get("anonymous", "/raw/"+public.Short(), http.StatusNotFound)
	wantInMemory(false)
}

func inMemory(s *nodetest.Server) bool {
	s.Helper()
	return !regexp.MustCompile(`(?m)^mayfly_paste_page_cache_bytes 0$`).MatchString(metrics(s.Admin))
}

// The erasure of an account takes its pastes, and their pages from memory within
// minutes; of other accounts it takes none.
func TestAnErasedAccountTakesItsPastes(t *testing.T) {
	pace.Heavy(t, "a node that lives for minutes of virtual time")
	synctest.Test(t, func(t *testing.T) {
		s := nodetest.Serve(t, nodetest.Options{Node: func(o *node.Options) { o.Idle, o.Source = false, nodetest.BubbleClock() }})
		all := pasted(s)
		other := createPaste(s, "ben", `"content":"words"`)
		wantKept(s, all, map[string]int{"owner index": 4, "objects": 5, "claims": 1, "records": 4, "pages": 1})
		s.Want(nodetest.Request{As: "admin", Method: http.MethodDelete, Path: "/v1/users/~ana", Body: `{"reason":"she asked"}`, Admin: true}, http.StatusOK)
		wantKept(s, all, map[string]int{"objects": 1, "pages": 1})
		for _, id := range all {
			s.Get("moderator", "/raw/"+id.Short(), http.StatusNotFound)
		}
		time.Sleep(5*time.Minute + 30*time.Second)
		wantKept(s, all, map[string]int{"objects": 1})
		s.Get("anonymous", "/raw/"+other.Short(), http.StatusOK)
	})
}

// A moderator takes a paste down by a hold, which the audit log has with its reason,
// and explain says what became of it, without its title and content.
func TestATakenDownPasteIsAuditedAndExplained(t *testing.T) {
	s := nodetest.Serve(t, nodetest.Options{})
	id := createPaste(s, "ana", `"content":"words of hate","reads":3`)
	explain := func(verdict string, says ...string) {
		t.Helper()
		w := s.Want(nodetest.Request{As: "moderator", Method: http.MethodGet, Path: "/v1/explain/" + id.String(), Admin: true}, http.StatusOK)
		if e := nodetest.ReadJSON[wire.Explanation](t, w); e.Verdict != verdict {
			t.Errorf("verdict %s, want %s", e.Verdict, verdict)
		}
		for _, text := range append(says, "paste") {
			if !strings.Contains(w.Body.String(), text) {
				t.Errorf("explain does not say %q: %s", text, w.Body)
			}
		}
		for _, text := range []string{"a title", "words of hate"} {
			if strings.Contains(w.Body.String(), text) {
				t.Errorf("explain says %q", text)
			}
		}
	}
	read := nodetest.Request{As: "anonymous", Method: http.MethodPost, Path: "/raw/" + id.Short()}
	s.Want(read, http.StatusOK)
	explain("serve", "This paste is visible", `{"about":"paste","name":"reads left","value":"2"}`)
	hold := nodetest.Request{As: "ben", Method: http.MethodPut, Path: "/v1/holds/" + id.String(), Body: `{"reason":"a complaint"}`, Admin: true}
	s.Want(hold, http.StatusForbidden)
	hold.As = "moderator"
	s.Want(hold, http.StatusNoContent)
	s.Want(read, http.StatusNotFound)
	s.Get("ana", "/raw/"+id.Short(), http.StatusNotFound)
	explain("hidden", "This paste is hidden", "held")
	s.Get("moderator", "/raw/"+id.Short(), http.StatusOK)
	s.Want(nodetest.Request{As: "moderator", Method: http.MethodDelete, Path: "/v1/holds/" + id.String(), Body: `{"reason":"no ground"}`, Admin: true}, http.StatusNoContent)
	s.Want(read, http.StatusOK)
	records := nodetest.ReadJSON[wire.AuditRecords](t, s.Want(nodetest.Request{As: "admin", Method: http.MethodGet, Path: "/v1/audit", Admin: true}, http.StatusOK)).Records
	var found []string
	for _, r := range records {
		if r.Item != nil && *r.Item == id && r.Outcome == "done" && r.Actor == "moderator" {
			found = append(found, r.Verb+": "+r.Reason)
		}
	}
	if want := []string{"release: no ground", "hold: a complaint"}; !slices.Equal(found, want) {
		t.Errorf("the audit log has %q, want %q: %+v", found, want, records)
	}
}

// Content that would take a highlighter long is shown as plain text, in bounded time and
// memory, and is stored byte for byte.
func TestPathologicalPastesAreShownPlain(t *testing.T) {
	pace.Heavy(t, "it measures time and memory")
	s := nodetest.Serve(t, nodetest.Options{Config: func(c *config.Config) { c.Pastes.Anonymous, c.Pastes.HourlyBytes = true, 0 }})
	for name, content := range map[string]string{
		"10 MiB":                  strings.Repeat("func main() { /* \"\n", 10<<20/19),
		"one line of 5 MB":        strings.Repeat("x", 5_000_000),
		"100,000 nested brackets": strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
		"nested on many lines":    strings.Repeat("{[(\n", 30_000),
	} {
		w := s.Want(nodetest.Request{As: "anonymous", Method: http.MethodPost, Path: "/?language=javascript", Type: "application/octet-stream", Body: content, Header: map[string]string{"Accept": "application/json"}}, http.StatusCreated)
		id := nodetest.ReadJSON[wire.Paste](t, w).ID
		if got := s.Get("anonymous", "/raw/"+id.Short(), http.StatusOK).Body.String(); got != content {
			t.Errorf("%s: %d bytes came back of %d", name, len(got), len(content))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		page := getPage(s, id)
		took := time.Since(began)
		runtime.ReadMemStats(&after)
		allocated := after.TotalAlloc - before.TotalAlloc
		t.Logf("%s: page of %d KiB in %s with %d MiB", name, len(page)>>10, took.Round(time.Millisecond), allocated>>20)
		if took > 5*time.Second || allocated > 200<<20 || len(page) > 4<<20 {
			t.Errorf("%s: the page has %d bytes, took %s and %d bytes of memory", name, len(page), took, allocated)
		}
		if name != "nested on many lines" && !strings.Contains(page, "plain text") {
			t.Errorf("%s: the page is not plain: %.500s", name, page)
		}
	}
}
