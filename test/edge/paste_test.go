package edge_test

import (
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
	"github.com/mayflyhq/mayfly/test/pace"
)

// pasteCap is how long a shared cache may keep a public paste at most (P5).
const pasteCap = 300 * time.Second

// paste creates a paste of ana, whose answers take a while from the node to varnish.
func (e *edge) paste(t *testing.T, fields string, delay time.Duration) wire.Paste {
	t.Helper()
	p := nodetest.ReadJSON[wire.Paste](t, e.Want(nodetest.Request{As: "ana", Method: http.MethodPost, Path: "/v1/pastes", Body: fields}, http.StatusCreated))
	for _, f := range formsOf(p) {
		e.delays.Store(f.path, delay)
	}
	return p
}

// form is a way to ask for a paste.
type form struct {
	path    string
	headers []string
}

// formsOf returns every way to ask for a paste; the last one, its description, is not
// cached.
func formsOf(p wire.Paste) []form {
	page := []string{"Accept", "text/html"}
	return []form{
		{"/" + p.Short, page},
		{"/" + p.Short + ".go", page},
		{"/" + p.Short + "?language=python", page},
		{"/" + p.Short, nil},
		{"/raw/" + p.Short, nil},
		{"/raw/" + p.Short + ".txt", nil},
		{"/dl/" + p.Short, nil},
		{"/v1/pastes/" + p.ID.String(), nil},
	}
}

var sMaxAge = regexp.MustCompile(`s-maxage=(\d+)`)

// pasteEnds ends a public paste early that is cached in all its forms: with a purge all
// of them are gone within two seconds, else within the cap.
func (e *edge) pasteEnds(t *testing.T, stale bool, end func(wire.Paste)) {
	p := e.paste(t, `{"content":"words","lifetime":"24h"}`, 0)
	forms := formsOf(p)
	cached := forms[:len(forms)-1]
	for _, f := range cached {
		e.warm(t, f.path, f.headers...)
	}
	end(p)
	ended := e.Now()
	served := func(f form) (answer, bool) {
		a := e.get(f.path, f.headers...)
		if a.err != nil {
			t.Fatal(a.err)
		}
		return a, a.status == http.StatusOK
	}
	if _, ok := served(forms[len(forms)-1]); ok {
		t.Error("its description is cached")
	}
	gone := 2 * time.Second
	if stale {
		gone = pasteCap
		for _, f := range cached {
			a, ok := served(f)
			found := sMaxAge.FindStringSubmatch(a.header.Get("Cache-Control"))
			if !ok || found == nil {
				t.Fatalf("%v: without a purge it was gone at once: it was not cached: %d %v", f, a.status, a.header)
			}
			if seconds, _ := strconv.Atoi(found[1]); time.Duration(seconds)*time.Second > pasteCap {
				t.Errorf("%v may be cached for %d s", f, seconds)
			}
		}
		if !pace.Long() {
			return // the cap is five minutes; that varnish keeps to one, early shows
		}
	}
	e.sleepUntil(ended.Add(gone))
	for asked := 0; e.Now() < ended.Add(gone+2*time.Second); asked++ {
		for _, f := range forms {
			if a, ok := served(f); ok {
				t.Fatalf("%v is served %s after its end: %v", f, e.Now().Sub(ended), a.header)
			}
		}
	}
}

// What is limited, locked or private passes through varnish and is never kept, for any
// caller.
func TestOnlyPublicPastesAreCachedByVarnish(t *testing.T) {
	t.Parallel()
	e := startEdge(t, off)
	owner := []string{"Authorization", "Bearer " + e.Token("ana")}
	for _, row := range []struct {
		fields  string
		headers []string // of those who may read
		status  int      // for those who may not
	}{
		{`"burn":true`, nil, http.StatusConflict},
		{`"reads":7`, nil, http.StatusConflict},
		{`"password":"secret"`, []string{"Mayfly-Password", "secret"}, http.StatusUnauthorized},
		{`"password":"secret","burn":true`, []string{"Mayfly-Password", "secret"}, http.StatusUnauthorized},
		{`"private":true`, owner, http.StatusNotFound},
	} {
		p := e.paste(t, `{"content":"words","lifetime":"24h",`+row.fields+`}`, 0)
		for _, f := range formsOf(p) {
			for range 2 {
				if a := e.get(f.path, append(row.headers, f.headers...)...); a.err != nil || a.hit() {
					t.Errorf("%s %v: %d, hit %t, %v", row.fields, f, a.status, a.hit(), a.err)
				}
			}
		}
		for range 2 {
			if a := e.get("/raw/" + p.Short); a.status != row.status || a.hit() || a.body == "words" {
				t.Errorf("%s: %d %q, hit %t", row.fields, a.status, a.body, a.hit())
			}
		}
	}
	burn := e.paste(t, `{"content":"words","lifetime":"24h","burn":true}`, 0)
	if a := e.send(http.MethodPost, "/raw/"+burn.Short); a.status != http.StatusOK || a.body != "words" {
		t.Errorf("the read: %d %q", a.status, a.body)
	}
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		if a := e.send(method, "/raw/"+burn.Short); a.status != http.StatusNotFound || a.hit() {
			t.Errorf("%s after the read: %d %q, hit %t", method, a.status, a.body, a.hit())
		}
	}
	public := e.paste(t, `{"content":"words","lifetime":"24h"}`, 0)
	e.warm(t, "/raw/"+public.Short)
}
