package edge_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	varnishd "github.com/mayflyhq/mayfly/deploy/varnish"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/pace"
)

// varnish is a running varnishd with our configuration.
type varnish struct {
	url    string
	client *http.Client
}

// startVarnish starts a varnishd before an origin and stops it when the test ends.
func startVarnish(t *testing.T, origin string) *varnish {
	t.Helper()
	pace.Slow(t, "it starts varnishd")
	if _, err := exec.LookPath("varnishd"); err != nil {
		t.Skip("varnishd is not installed: apt-get install varnish varnish-modules")
	}
	process, err := varnishd.Start(varnishd.Options{Origin: origin, Secret: fixture.PurgeSecret, Memory: "32m"})
	must(t, err)
	v := &varnish{url: process.URL, client: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 16}}}
	t.Cleanup(func() {
		v.client.CloseIdleConnections()
		must(t, process.Stop())
		if t.Failed() {
			t.Logf("varnishd: %s", process.Log())
		}
	})
	return v
}

// freeAddress returns an address that no one listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := varnishd.FreeAddress()
	must(t, err)
	return address
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// answer is an answer that was read whole.
type answer struct {
	status int
	header http.Header
	body   string
	err    error
}

// hit reports whether the answer came from the cache.
func (a answer) hit() bool { return len(strings.Fields(a.header.Get("X-Varnish"))) == 2 }

// send sends a request to varnish; headers are names and values.
func (v *varnish) send(method, path string, headers ...string) answer {
	r, err := http.NewRequest(method, v.url+path, http.NoBody)
	if err != nil {
		return answer{err: err}
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	got, err := v.client.Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	return answer{got.StatusCode, got.Header, string(body), err}
}

func (v *varnish) get(path string, headers ...string) answer { return v.send("GET", path, headers...) }

// An origin of fixed answers shows what our configuration caches.
func TestWhatVarnishCachesAndWhatItHides(t *testing.T) {
	until := func(left time.Duration) string {
		return fmt.Sprintf("%.3f", float64(time.Now().Add(left).UnixMilli())/1000)
	}
	const shared = "public, max-age=60, s-maxage=60, stale-while-revalidate=0, stale-if-error=0"
	answers := map[string]map[string]string{
		"/keyed":     {"Cache-Control": shared, "Surrogate-Key": "i-1 o-ana"},
		"/other":     {"Cache-Control": shared, "Surrogate-Key": "i-2 o-ana"},
		"/ends":      {"Cache-Control": shared, "Surrogate-Key": "i-3", "Mayfly-Until": until(time.Hour)},
		"/unkeyed":   {"Cache-Control": shared},
		"/no-store":  {"Cache-Control": "private, no-store", "Surrogate-Key": "i-4"},
		"/cookie":    {"Cache-Control": shared, "Surrogate-Key": "i-5", "Set-Cookie": "a=b"},
		"/unlimited": {"Cache-Control": "public", "Surrogate-Key": "i-6", "Mayfly-Until": "nonsense"},
	}
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader("0123456789"))
	}))
	defer origin.Close()
	v := startVarnish(t, origin.URL)
	for _, row := range []struct {
		path    string
		headers []string
		cached  bool
	}{
		{"/keyed", nil, true},
		{"/ends", nil, true},
		{"/keyed?other=query", nil, true},
		{"/keyed", []string{"Authorization", "Bearer x"}, false},
		{"/keyed", []string{"Cookie", "a=b"}, false},
		{"/unkeyed", nil, false},
		{"/no-store", nil, false},
		{"/cookie", nil, false},
		{"/unlimited", nil, false},
		{"/absent", nil, false},
	} {
		v.get(row.path, row.headers...)
		a := v.get(row.path, row.headers...)
		if a.err != nil || a.hit() != row.cached {
			t.Errorf("%s %v: %d, hit %t, %v", row.path, row.headers, a.status, a.hit(), a.err)
		}
		for _, name := range []string{"Surrogate-Key", "Mayfly-Until", "xkey"} {
			if got := a.header.Get(name); got != "" {
				t.Errorf("%s: a client gets %s %q", row.path, name, got)
			}
		}
		if row.cached && a.header.Get("Cache-Control") != shared {
			t.Errorf("%s: %v", row.path, a.header)
		}
	}

	v.get("/other", "Range", "bytes=2-4") // of what is not cached, the whole is fetched
	for _, path := range []string{"/other", "/keyed", "/no-store", "/unkeyed"} {
		a := v.get(path, "Range", "bytes=2-4")
		if a.status != http.StatusPartialContent || a.body != "234" || a.header.Get("Content-Range") != "bytes 2-4/10" {
			t.Errorf("a range of %s: %d %q %v", path, a.status, a.body, a.header)
		}
	}
	if a := v.get("/other"); !a.hit() || a.body != "0123456789" {
		t.Errorf("after a range: hit %t, %q", a.hit(), a.body)
	}
	if a := v.send("HEAD", "/other"); !a.hit() || a.status != 200 {
		t.Errorf("HEAD: %d, hit %t", a.status, a.hit())
	}

	for _, headers := range [][]string{{}, {"Mayfly-Purge-Secret", "guess"}, {"Mayfly-Purge-Secret", ""}} {
		if a := v.send("PURGE", "/", append(headers, "xkey-purge", "i-1")...); a.status != http.StatusForbidden || !v.get("/keyed").hit() {
			t.Errorf("a purge with %v: %d", headers, a.status)
		}
	}
	if a := v.send("PURGE", "/", "Mayfly-Purge-Secret", fixture.PurgeSecret); a.status != http.StatusBadRequest {
		t.Errorf("a purge without keys: %d", a.status)
	}
	purge := func(keys string) string {
		t.Helper()
		a := v.send("PURGE", "/", "Mayfly-Purge-Secret", fixture.PurgeSecret, "xkey-purge", keys)
		if a.status != http.StatusOK {
			t.Fatalf("purge of %s: %d %v", keys, a.status, a.err)
		}
		return a.header.Get("Mayfly-Purged")
	}
	// A purged answer is never delivered again, but a thread of varnishd takes it out of the
	// index later: until then a purge counts it once more.
	purgeUntilNone := func(keys string) {
		t.Helper()
		for until := time.Now().Add(time.Minute); purge(keys) != "0"; time.Sleep(time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("%s is in the index a minute after its purge", keys)
			}
		}
	}
	if n := purge("i-1 i-9"); n != "2" { // with the other query
		t.Errorf("i-1: %s purged", n)
	}
	if v.get("/keyed").hit() || !v.get("/other").hit() {
		t.Error("i-1 is cached, or i-2 is not")
	}
	purgeUntilNone("i-1")
	v.get("/keyed")
	if n := purge("o-ana"); n != "2" {
		t.Errorf("o-ana: %s purged", n)
	}
	if v.get("/other").hit() || v.get("/keyed").hit() {
		t.Error("i-1 or i-2 is cached")
	}
	purgeUntilNone("o-ana")
	if v.get("/other").hit() {
		t.Error("i-2 is cached")
	}
}
