//go:build servers

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// fault is what happens to one request to S3.
type fault string

const (
	slowDown     fault = "503"                     // and the server hears of nothing
	cutRequest   fault = "cut while it is sent"    // the server sees a length that never comes
	lostReply    fault = "success, reply lost"     // it has happened, and the connection is cut
	cutReply     fault = "cut in the answer"       // in the middle of it
	shortReply   fault = "truncated body"          // half of the answer, as if it were all
	corruptReply fault = "200 with wrong bytes"    // one byte is another
	wrongCopy    fault = "a copy of wrong bytes"   // 200, and what lies in cold is not what lay in hot
	falseReply   fault = "200 with an error in it" // and nothing has happened
)

// weather is what a share of the requests meets.
type weather struct {
	share  float64
	faults []fault
}

// coast stands before the S3 server of some nodes and makes its weather.
type coast struct {
	server http.Handler
	cold   store.Blobs // past the weather
	prefix string      // of objects in cold, in a URL
	url    string

	mu  sync.Mutex
	rng *rand.Rand
	now weather
	hit map[fault]int // that took place
	ice map[fault]int // of those, at objects in cold
	all int
}

func newCoast(t testing.TB, endpoint, place string, cold store.Blobs, rng *rand.Rand) *coast {
	t.Helper()
	upstream, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	c := &coast{cold: cold, prefix: "/" + place + "/", rng: rng, hit: map[fault]int{}, ice: map[fault]int{}}
	c.server = &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(upstream); r.Out.Host = r.In.Host }, // as it was signed
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	listener := httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(listener.Close)
	c.url = listener.URL
	return c
}

// turn changes the weather.
func (c *coast) turn(w weather) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = w
}

// draw says what a request meets; "" is nothing.
func (c *coast) draw(r *http.Request) fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all++
	if len(c.now.faults) == 0 || c.rng.Float64() >= c.now.share {
		return ""
	}
	f := c.now.faults[c.rng.IntN(len(c.now.faults))]
	inCold := strings.HasPrefix(r.URL.Path, c.prefix)
	switch {
	case f == wrongCopy && (!inCold || r.Header.Get("X-Amz-Copy-Source") == ""),
		f == corruptReply && (r.Method != http.MethodGet || r.URL.RawQuery != ""),
		f == falseReply && r.Header.Get("X-Amz-Copy-Source") == "" && r.Method != http.MethodPost, // where S3 may answer so
		f == cutRequest && r.ContentLength < 2:
		return ""
	}
	c.hit[f]++
	if inCold {
		c.ice[f]++
	}
	return f
}

// met says whether each of some faults has met so many requests for objects in
// cold; nothing is sent there that could be cut.
func (c *coast) met(faults []fault, times int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range faults {
		if c.ice[f] < times && (f != cutRequest || c.hit[f] < times) {
			return false
		}
	}
	return true
}

func (c *coast) serve(w http.ResponseWriter, r *http.Request) {
	f := c.draw(r)
	switch f {
	case "":
		c.server.ServeHTTP(w, r)
		return
	case slowDown:
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`)
		return
	case falseReply:
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>InternalError</Code><Message>We encountered an internal error. Please try again.</Message></Error>`)
		return
	}
	content, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(content))
	if f == cutRequest {
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(content[:len(content)/2]), brokenOff{}))
	}
	said := httptest.NewRecorder()
	c.server.ServeHTTP(said, r)
	c.answer(f, w, r, said)
}

// answer passes on what is left of the server's answer.
func (c *coast) answer(f fault, w http.ResponseWriter, r *http.Request, said *httptest.ResponseRecorder) {
	if f == cutRequest || f == lostReply {
		panic(http.ErrAbortHandler)
	}
	body := said.Body.Bytes()
	for name, values := range said.Header() {
		w.Header()[name] = values
	}
	switch {
	case f == cutReply:
		w.WriteHeader(said.Code)
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case f == shortReply:
		body = body[:len(body)/2]
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	case f == corruptReply && said.Code/100 == 2 && len(body) > 0:
		body[len(body)/2] ^= 1
	case f == wrongCopy && said.Code/100 == 2:
		if err := c.spoil(mayfly.BlobKey(strings.TrimPrefix(r.URL.Path, c.prefix))); err != nil {
			panic(fmt.Errorf("spoil %s: %w", r.URL.Path, err))
		}
	}
	w.WriteHeader(said.Code)
	_, _ = w.Write(body)
}

// spoil replaces an object in cold by one with another byte in it.
func (c *coast) spoil(key mayfly.BlobKey) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	content, err := readAll(ctx, c.cold, key)
	if err != nil || len(content) == 0 {
		return err
	}
	content[len(content)/2] ^= 1
	_, err = c.cold.Put(ctx, key, bytes.NewReader(content))
	return err
}

func readAll(ctx context.Context, from store.Blobs, key mayfly.BlobKey) ([]byte, error) {
	r, _, err := from.Open(ctx, key, store.Span{})
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(r)
	if closed := r.Close(); err == nil {
		err = closed
	}
	return content, err
}

// brokenOff is a body that ends before its end.
type brokenOff struct{}

func (brokenOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
