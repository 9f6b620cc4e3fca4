package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	randv2 "math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/mayflyhq/mayfly"
)

// call is a request to the API, which may be sent several times.
type call struct {
	method, path string
	query        url.Values
	body         func() (body, error) // called for each attempt; nil: no body
	key          string               // Idempotency-Key
	big          bool                 // wait for the server to accept the headers before the body is sent
	again        bool                 // may be repeated although neither method nor key allows it
	once         bool                 // must not be repeated although its method allows it
	anonymous    bool                 // sent without a token
	header       http.Header          // additional headers
	takes        int                  // a status besides 2xx that is not an error
	absolute     *url.URL             // instead of path
}

// body is the body of a request. A size of -1 means unknown.
type body struct {
	io.ReadCloser
	typ  string
	size int64
}

// maySendAgain reports whether the call may be repeated.
func (c call) maySendAgain() bool {
	idempotent := []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete}
	return !c.once && (c.again || c.key != "" || slices.Contains(idempotent, c.method))
}

// sourceError is an error of reading what is to be sent. It is not retried.
type sourceError struct{ err error }

func (e sourceError) Error() string { return e.err.Error() }
func (e sourceError) Unwrap() error { return e.err }

// longestAnswer is the most bytes of JSON that are read.
const longestAnswer = 64 << 20

// ask sends a call and decodes the JSON of the response into answer, unless that
// is nil.
func (c *Client) ask(ctx context.Context, what call, answer any) error {
	res, err := c.send(ctx, what)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // the body was read or is not needed
	if answer == nil || res.StatusCode == http.StatusNoContent {
		_, err := io.Copy(io.Discard, io.LimitReader(res.Body, longestProblem)) // so that the connection can be reused
		return err
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, longestAnswer)).Decode(answer); err != nil {
		return mayfly.Wrap(mayfly.Unknown, fmt.Errorf("%s %s: decode the response: %w", what.method, what.path, err), "is it a mayfly server?")
	}
	return nil
}

// send sends a call and retries it where that is safe and may help. It returns
// only successful responses; the caller closes the body.
func (c *Client) send(ctx context.Context, what call) (*http.Response, error) {
	renewed := false
	for try := 0; ; try++ {
		token := ""
		if !what.anonymous {
			token = c.currentToken()
		}
		res, err := c.try(ctx, what, token)
		if err == nil {
			return res, nil
		}
		if errors.Is(err, mayfly.Unauthenticated) && !renewed && !what.anonymous {
			renewed = true
			if ok, refused := c.renew(ctx, token); refused != nil {
				return nil, errors.Join(err, refused)
			} else if ok {
				try--
				continue
			}
		}
		if try >= c.o.Retries || !what.maySendAgain() || !worthAnotherTry(err) {
			return nil, err
		}
		pause, ok := c.pause(try, err)
		if !ok {
			return nil, err
		}
		if wait(ctx, pause) != nil {
			return nil, errors.Join(ctx.Err(), err)
		}
	}
}

// try sends a call once, with the given token.
func (c *Client) try(ctx context.Context, what call, token string) (*http.Response, error) {
	target := what.absolute
	if target == nil {
		target = c.base.JoinPath(what.path)
		target.RawQuery = what.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, what.method, target.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", what.method, target.Redacted(), err)
	}
	if what.body != nil {
		b, err := what.body()
		if err != nil {
			return nil, err
		}
		req.Body, req.ContentLength = b.ReadCloser, b.size
		req.Header.Set("Content-Type", b.typ)
	}
	if what.big {
		req.Header.Set("Expect", "100-continue") // the server can refuse before the body is sent
	}
	for name, values := range what.header {
		req.Header[name] = values
	}
	req.Header.Set("User-Agent", c.o.Agent)
	if what.key != "" {
		req.Header.Set("Idempotency-Key", what.key)
	}
	if !what.anonymous && c.own(target) {
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		if c.o.ActFor != "" {
			req.Header.Set("Mayfly-User", c.o.ActFor)
		}
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, unreachable(ctx, target, err)
	}
	if res.StatusCode/100 == 2 || res.StatusCode == what.takes {
		return res, nil
	}
	defer func() { _ = res.Body.Close() }() // problemOf has read it
	return nil, problemOf(res)
}

// unreachable returns the error of a request that got no response.
func unreachable(ctx context.Context, target *url.URL, err error) error {
	var source sourceError
	var sent *url.Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &source):
		return source
	case errors.As(err, &sent): // its text contains the URL, which may be signed
		return mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("%s: %w", target.Host, sent.Err), "is the server running at "+target.Scheme+"://"+target.Host+"?")
	default:
		return err
	}
}

// own reports whether a URL is on the server that the token is for.
func (c *Client) own(target *url.URL) bool {
	return target.Scheme == c.base.Scheme && target.Host == c.base.Host
}

// worthAnotherTry reports whether the same call may succeed later.
func worthAnotherTry(err error) bool {
	var answered *Error
	if errors.As(err, &answered) {
		return slices.Contains([]int{
			http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
		}, answered.Problem.Status)
	}
	return errors.Is(err, mayfly.Unavailable)
}

// pause returns how long to wait before the next attempt: what the server asks
// for, or a random part of a span that doubles. It returns false if the server
// asks for more than Longest.
func (c *Client) pause(try int, err error) (time.Duration, bool) {
	var answered *Error
	if errors.As(err, &answered) && answered.After > 0 {
		return answered.After, answered.After <= c.o.Longest
	}
	span := min(c.o.First<<min(try, 20), c.o.Longest)
	return span/2 + randv2.N(span/2+1), true
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// jsonBody returns value as the JSON body of a call.
func jsonBody(value any) (func() (body, error), error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, mayfly.Wrap(mayfly.Invalid, err, "")
	}
	return func() (body, error) {
		return body{io.NopCloser(bytes.NewReader(text)), "application/json", int64(len(text))}, nil
	}, nil
}

// askWith is ask with value as the JSON body.
func (c *Client) askWith(ctx context.Context, what call, value, answer any) (err error) {
	if what.body, err = jsonBody(value); err != nil {
		return err
	}
	return c.ask(ctx, what, answer)
}

// newKey returns a random idempotency key.
func newKey() string { return rand.Text() }
