package edge

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
)

// VarnishOptions are the settings of Varnish servers that run deploy/varnish/mayfly.vcl.
type VarnishOptions struct {
	URLs    []string      // of the servers: every one is purged and asked
	Secret  mayfly.Secret // as in MAYFLY_PURGE_SECRET of the servers' environment
	Timeout time.Duration // of one request; default 2 s
}

// Varnish is an Edge of Varnish servers with the module xkey.
type Varnish struct {
	o      VarnishOptions
	client *http.Client
}

// NewVarnish returns the Edge of Varnish servers. Errors: Invalid.
func NewVarnish(o VarnishOptions) (*Varnish, error) {
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Second
	}
	if len(o.URLs) == 0 || o.Secret == "" {
		return nil, mayfly.Errorf(mayfly.Invalid, "varnish: a URL and the secret are required")
	}
	for _, text := range o.URLs {
		if u, err := url.Parse(text); err != nil || u.Host == "" {
			return nil, mayfly.Errorf(mayfly.Invalid, "varnish: invalid URL").WithHint("write it like http://10.0.0.5:6081")
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // a purge goes to the server itself
	return &Varnish{o, &http.Client{
		Transport: transport, Timeout: o.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close closes idle connections.
func (v *Varnish) Close() { v.client.CloseIdleConnections() }

// Purge drops every answer that a server has cached under one of the keys.
func (v *Varnish) Purge(ctx context.Context, keys []string) error {
	_, err := v.Cached(ctx, keys)
	return err
}

// Cached returns how many answers the servers had cached under the keys. They are
// purged by that: xkey cannot only look.
func (v *Varnish) Cached(ctx context.Context, keys []string) (int, error) {
	counts, errs := make([]int, len(v.o.URLs)), make([]error, len(v.o.URLs))
	var asked sync.WaitGroup
	for i, server := range v.o.URLs {
		asked.Go(func() {
			for rest := keys; len(rest) > 0 && errs[i] == nil; {
				var n int
				n, rest, errs[i] = v.send(ctx, server, rest)
				counts[i] += n
			}
		})
	}
	asked.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	return total, errors.Join(errs...)
}

// maxHeader is how many bytes of keys one request carries: Varnish takes 8 KiB by
// default (http_req_hdr_len).
const maxHeader = 6 << 10

// send purges as many keys as one request takes, and returns how many answers there
// were and the keys that are left.
func (v *Varnish) send(ctx context.Context, server string, keys []string) (purged int, rest []string, err error) {
	n, size := 0, 0
	for n < len(keys) && (n == 0 || size+len(keys[n]) < maxHeader) {
		size += len(keys[n]) + 1
		n++
	}
	r, err := http.NewRequestWithContext(ctx, "PURGE", server, http.NoBody)
	if err != nil {
		return 0, keys, err
	}
	r.Header.Set("xkey-purge", strings.Join(keys[:n], " "))
	r.Header.Set("Mayfly-Purge-Secret", v.o.Secret.Reveal())
	answer, err := v.client.Do(r)
	if err != nil {
		return 0, keys, mayfly.Errorf(mayfly.Unavailable, "purge: %w", err)
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10) // so that the connection can be used again
	purged, err = strconv.Atoi(answer.Header.Get("Mayfly-Purged"))
	if answer.StatusCode != http.StatusOK || err != nil {
		return 0, keys, mayfly.Errorf(mayfly.Unavailable, "purge: %s answered %d", r.URL.Host, answer.StatusCode).WithHint(hint(answer.StatusCode))
	}
	return purged, keys[n:], nil
}

func hint(status int) string {
	if status == http.StatusForbidden {
		return "edge.secret must be MAYFLY_PURGE_SECRET of the environment of varnishd"
	}
	return "edge.varnish must name a Varnish that runs deploy/varnish/mayfly.vcl"
}
