package faultnet

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

// Fault is what a Proxy does to one request.
type Fault uint8

// The faults.
const (
	Fine           Fault = iota
	SlowDown             // 503, and the server sees nothing
	CutRequest           // the connection is cut in the middle of what is sent
	ShortRequest         // half of what is sent arrives, as if it were all
	CorruptRequest       // a byte of what is sent is changed
	LostReply            // the request was done, and the connection is cut instead of an answer
	CutReply             // the connection is cut in the middle of the answer
	ShortReply           // half of the answer arrives, as if it were all
	CorruptReply         // a byte of an object is changed, with status 200
	ErrorAsSuccess       // the request was not done: status 200 with an error of S3 in it
	Faults               // how many there are
)

// String is the fault in words.
func (f Fault) String() string {
	return [...]string{"fine", "slow down", "cut request", "short request", "corrupt request", "lost reply", "cut reply", "short reply", "corrupt reply", "error as success"}[f]
}

// Proxy stands before an HTTP server and damages requests and answers by plan.
type Proxy struct {
	mu     sync.Mutex
	real   http.Handler
	plan   func(r *http.Request) Fault
	change func(*http.Response) error // of every answer; may be nil
	seen   []*http.Request            // with their headers, without their bodies
	hit    int                        // faults that took place
}

// NewProxy starts a proxy before the server at endpoint and returns its address.
// The plan, which may be nil, is called for one request at a time.
func NewProxy(t testing.TB, endpoint string, plan func(r *http.Request) Fault) (p *Proxy, address string) {
	t.Helper()
	upstream, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	if upstream.Scheme != "http" {
		t.Fatal("the proxy of this test speaks plain HTTP with the server: start it without --secure")
	}
	p = &Proxy{plan: plan}
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

// Handle puts h in the place of the server.
func (p *Proxy) Handle(h http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.real = h
}

// Alter changes every answer from now on.
func (p *Proxy) Alter(change func(*http.Response) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change = change
}

// Server returns what the proxy passes requests to.
func (p *Proxy) Server() http.Handler {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.real
}

func (p *Proxy) next(r *http.Request) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, r.Clone(r.Context()))
	f := Fine
	if p.plan != nil {
		f = p.plan(r)
	}
	if f != Fine {
		p.hit++
	}
	return f
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	f := p.next(r)
	switch f {
	case Fine:
		p.Server().ServeHTTP(w, r)
		return
	case SlowDown:
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`)
		return
	case ErrorAsSuccess:
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>InternalError</Code><Message>We encountered an internal error. Please try again.</Message></Error>`)
		return
	}
	content, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	switch f {
	case CutRequest:
		// The server sees a length that never comes.
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(content[:len(content)/2]), &cut{}))
		p.Server().ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	case ShortRequest:
		content = content[:len(content)/2]
		r.ContentLength = int64(len(content))
		r.Header.Set("Content-Length", strconv.Itoa(len(content)))
	case CorruptRequest:
		content[len(content)/2] ^= 1
	}
	r.Body = io.NopCloser(bytes.NewReader(content))
	reply := httptest.NewRecorder()
	p.Server().ServeHTTP(reply, r)
	body := reply.Body.Bytes()
	for name, values := range reply.Header() {
		w.Header()[name] = values
	}
	switch f {
	case LostReply:
		panic(http.ErrAbortHandler)
	case CutReply:
		w.WriteHeader(reply.Code)
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case ShortReply:
		body = body[:len(body)/2]
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	case CorruptReply:
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

// Requests returns the requests that were seen.
func (p *Proxy) Requests() []*http.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*http.Request(nil), p.seen...)
}

// Hit returns how many faults took place.
func (p *Proxy) Hit() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hit
}

// Forget forgets the requests that were seen.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = nil
}

// Find returns the first request seen that is one of those.
func (p *Proxy) Find(t testing.TB, is func(*http.Request) bool) *http.Request {
	t.Helper()
	for _, r := range p.Requests() {
		if is(r) {
			return r
		}
	}
	t.Fatalf("none of %d requests is the one", len(p.Requests()))
	return nil
}
