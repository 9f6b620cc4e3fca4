// Package client calls the API of a Mayfly server from Go. It has one method for
// each operation, and uses the types of package wire.
//
// A request is retried when the network or the server fails temporarily and a
// repetition is safe. Publishing and resharing send an idempotency key that is
// the same in every attempt, so that nothing happens twice. The token is sent to
// the server of the client only, never to another host.
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

// Options are the settings of a client; a zero value means the default.
type Options struct {
	Token   string            // an access token; empty: anonymous
	Refresh string            // a refresh token, used when Token has expired
	Renewed func(wire.Tokens) // called with each new pair, so that the refresh token can be saved; may be nil
	ActFor  string            // for services: the user to act for, a UUID or ~subject (Mayfly-User)

	HTTP    *http.Client  // default: a client with timeouts
	Retries int           // retries of a request at most; default 4, negative: none
	First   time.Duration // about the pause before the first retry, which then doubles; default 100 ms
	Longest time.Duration // the longest pause, also of those that the server asks for; default 30 s
	Agent   string        // User-Agent; default "mayfly-client"
}

// Client calls one server. It is safe for concurrent use.
type Client struct {
	base *url.URL
	o    Options
	http *http.Client

	mu      sync.Mutex // guards token and refresh
	token   string
	refresh string
}

// New returns a client of the server at base, such as http://127.0.0.1:7420. The
// methods in admin.go need the base of the admin listener instead.
func New(base string, o Options) (*Client, error) {
	u, err := url.Parse(strings.TrimSuffix(base, "/"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.User != nil {
		return nil, mayfly.Errorf(mayfly.Invalid, "client: invalid server URL %q", base).WithHint("write it like http://127.0.0.1:7420")
	}
	if o.First < 0 || o.Longest < 0 {
		return nil, mayfly.Errorf(mayfly.Invalid, "client: negative pause: First %s, Longest %s", o.First, o.Longest).WithHint("leave First and Longest at zero for the defaults")
	}
	o = o.withDefaults()
	c := &Client{base: u, o: o, token: o.Token, refresh: o.Refresh}
	copied := *o.HTTP
	// A redirect would turn a POST into a GET, and might send media to another host.
	copied.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &copied
	return c, nil
}

func (o Options) withDefaults() Options {
	if o.HTTP == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.ResponseHeaderTimeout = time.Minute // from the end of the upload on
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

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }
