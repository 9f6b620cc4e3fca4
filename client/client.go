// Package client is in charge of talking to a mayfly server from Go: every
// operation of its API, on the shapes of wire.
//
// What can be sent again without harm is sent again when the network or the
// server fails for a moment; publishing and resharing carry an idempotency key
// that stays the same over tries, so that nothing happens twice. A token goes to
// the server that the client was made for and to nobody else.
package client

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

// Options are a client's settings; what is zero takes its default.
type Options struct {
	Token   string            // an access token; empty: anonymous
	Refresh string            // a refresh token: a new pair is asked for when Token has run out
	Renewed func(wire.Tokens) // is told each new pair, so that the refresh token can be kept; may be nil
	ActFor  string            // for services: the user who is acted for, by UUID or ~subject (Mayfly-User)

	HTTP    *http.Client  // default: one with time-outs
	Retries int           // how often a call is sent again at most; default 4, negative for never
	First   time.Duration // the pause before the first of them, about; it doubles; default 100 ms
	Longest time.Duration // the longest pause, also one that the server asks for; default 30 s
	Agent   string        // User-Agent; default "mayfly-client"
}

// Client talks to one server. Safe for concurrent use.
type Client struct {
	base *url.URL
	o    Options
	http *http.Client

	mu      sync.Mutex // of the tokens
	token   string
	refresh string
}

// New is a client of the server at base, such as http://127.0.0.1:7420; or of its
// admin listener, for what is in admin.go.
func New(base string, o Options) (*Client, error) {
	u, err := url.Parse(strings.TrimSuffix(base, "/"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.User != nil {
		return nil, mayfly.Errorf(mayfly.Invalid, "client: %q is not the URL of a server", base).WithHint("write it like http://127.0.0.1:7420")
	}
	if o.First < 0 || o.Longest < 0 {
		return nil, mayfly.Errorf(mayfly.Invalid, "client: a pause is negative").WithHint("leave First and Longest at zero for the defaults")
	}
	o = o.withDefaults()
	c := &Client{base: u, o: o, token: o.Token, refresh: o.Refresh}
	copied := *o.HTTP
	// A redirect would turn a POST into a GET, and might carry media elsewhere.
	copied.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &copied
	return c, nil
}

func (o Options) withDefaults() Options {
	if o.HTTP == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.ResponseHeaderTimeout = time.Minute // counted from the end of the upload
		t.MaxIdleConnsPerHost = 16
		o.HTTP = &http.Client{Transport: t}
	}
	switch {
	case o.Retries == 0:
		o.Retries = 4
	case o.Retries < 0:
		o.Retries = 0
	}
	if o.First == 0 {
		o.First = 100 * time.Millisecond
	}
	if o.Longest == 0 {
		o.Longest = 30 * time.Second
	}
	if o.Agent == "" {
		o.Agent = "mayfly-client"
	}
	return o
}

// Close closes connections that are kept open for the next call.
func (c *Client) Close() { c.http.CloseIdleConnections() }
