package s3store

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"testing"
)

// fault is what the proxy does to one request.
type fault uint8

const (
	fine           fault = iota
	slowDown             // 503, and the server hears of nothing
	cutRequest           // the connection is cut in the middle of what is sent
	shortRequest         // half of what is sent arrives, as if it were all
	hurtRequest          // a byte of what is sent is another one
	lostReply            // it has happened, and the connection is cut instead of an answer
	cutReply             // the connection is cut in the middle of the answer
	shortReply           // half of the answer arrives, as if it were all
	hurtReply            // a byte of an object is another one, with 200
	errorAsSuccess       // it has not happened: 200 with an error in it
	faults
)

func (f fault) String() string {
	return [...]string{"fine", "slow down", "cut request", "short request", "hurt request", "lost reply", "cut reply", "short reply", "hurt reply", "error as success"}[f]
}

// proxy stands before a server and hurts what passes by plan.
type proxy struct {
	mu     sync.Mutex
	real   http.Handler
	plan   func(r *http.Request) fault
	change func(*http.Response) error // of every answer; may be nil
	seen   []*http.Request            // with their headers, without their bodies
	hit    int                        // faults that took place
}

// before starts a proxy before the server at endpoint and answers with its address.
func before(t testing.TB, endpoint string, plan func(r *http.Request) fault) (*proxy, string) {
	t.Helper()
	upstream, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	if upstream.Scheme != "http" {
		t.Fatal("the proxy of this test speaks plain HTTP with the server: start it without --secure")
	}
	p := &proxy{plan: plan}
	p.real = &httputil.ReverseProxy{
		// The host stays as it was signed.
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream); r.Out.Host = r.In.Host },
		ModifyResponse: func(res *http.Response) error {
			p.mu.Lock()
			change := p.change
			p.mu.Unlock()
			if change == nil {
				return nil
			}
			return change(res)
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(server.Close)
	return p, server.URL
}

// handle puts h in the place of the server.
func (p *proxy) handle(h http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.real = h
}

// alter changes every answer from now on.
func (p *proxy) alter(change func(*http.Response) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change = change
}

func (p *proxy) server() http.Handler {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.real
}

func (p *proxy) next(r *http.Request) fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, r.Clone(r.Context()))
	f := fine
	if p.plan != nil {
		f = p.plan(r)
	}
	if f != fine {
		p.hit++
	}
	return f
}

func (p *proxy) serve(w http.ResponseWriter, r *http.Request) {
	f := p.next(r)
	switch f {
	case fine:
		p.server().ServeHTTP(w, r)
		return
	case slowDown:
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`)
		return
	case errorAsSuccess:
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>InternalError</Code><Message>We encountered an internal error. Please try again.</Message></Error>`)
		return
	}
	content, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	switch f {
	case cutRequest:
		// The server sees a length that never comes.
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(content[:len(content)/2]), &cut{}))
		p.server().ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	case shortRequest:
		content = content[:len(content)/2]
		r.ContentLength = int64(len(content))
		r.Header.Set("Content-Length", strconv.Itoa(len(content)))
	case hurtRequest:
		content[len(content)/2] ^= 1
	}
	r.Body = io.NopCloser(bytes.NewReader(content))
	reply := httptest.NewRecorder()
	p.server().ServeHTTP(reply, r)
	body := reply.Body.Bytes()
	for name, values := range reply.Header() {
		w.Header()[name] = values
	}
	switch f {
	case lostReply:
		panic(http.ErrAbortHandler)
	case cutReply:
		w.WriteHeader(reply.Code)
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case shortReply:
		body = body[:len(body)/2]
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	case hurtReply:
		if reply.Code/100 == 2 && len(body) > 0 {
			body[len(body)/2] ^= 1
		}
	}
	w.WriteHeader(reply.Code)
	_, _ = w.Write(body)
}

// cut is a body that breaks off.
type cut struct{}

func (*cut) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func (p *proxy) requests() []*http.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*http.Request(nil), p.seen...)
}

func (p *proxy) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = nil
}

// find is the first request seen that is one of those.
func (p *proxy) find(t testing.TB, is func(*http.Request) bool) *http.Request {
	t.Helper()
	for _, r := range p.requests() {
		if is(r) {
			return r
		}
	}
	t.Fatalf("none of %d requests is the one", len(p.requests()))
	return nil
}
