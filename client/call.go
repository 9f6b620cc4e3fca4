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

// call is one operation, as it is sent and sent again.
type call struct {
	method, path string
	query        url.Values
	body         func() (body, error) // opened for each try; nil: none
	key          string               // Idempotency-Key
	big          bool                 // the body is worth asking for before it is sent
	again        bool                 // a second time does no harm, though method and key do not say so
	anonymous    bool                 // no token goes with it
	header       http.Header          // more headers
	takes        int                  // a status that is no success, and still an answer
	absolute     *url.URL             // instead of path
}

// body is what is sent; a size of -1 is not known.
type body struct {
	io.ReadCloser
	typ  string
	size int64
}

// maySendAgain says whether the call may be tried a second time.
func (c call) maySendAgain() bool {
	idempotent := []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete}
	return c.again || c.key != "" || slices.Contains(idempotent, c.method)
}

// sourceError is a failure of what was to be sent: no server can help.
type sourceError struct{ err error }

func (e sourceError) Error() string { return e.err.Error() }
func (e sourceError) Unwrap() error { return e.err }

// longestAnswer is how much JSON is read.
const longestAnswer = 64 << 20

// ask sends a call and reads the JSON that comes back into answer, if it is not nil.
func (c *Client) ask(ctx context.Context, what call, answer any) error {
	res, err := c.send(ctx, what)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // read to its end or given up
	if answer == nil || res.StatusCode == http.StatusNoContent {
		_, err := io.Copy(io.Discard, io.LimitReader(res.Body, longestProblem)) // so that the connection can be used again
		return err
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, longestAnswer)).Decode(answer); err != nil {
		return mayfly.Wrap(mayfly.Unknown, fmt.Errorf("%s %s: read the answer: %w", what.method, what.path, err), "is it a mayfly server?")
	}
	return nil
}

// send sends a call, again where that helps and does no harm. The answer is a
// success, and its body the caller's to close.
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

// try sends a call once.
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
		req.Header.Set("Expect", "100-continue") // a refusal then comes before the bytes have gone
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
	defer func() { _ = res.Body.Close() }() // the problem was read
	return nil, problemOf(res)
}

// unreachable is a failure without an answer: of this side, or of the way.
func unreachable(ctx context.Context, target *url.URL, err error) error {
	var source sourceError
	var sent *url.Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &source):
		return source
	case errors.As(err, &sent): // its text has the URL, and that of a medium is a key to it
		return mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("%s: %w", target.Host, sent.Err), "is the server running at "+target.Scheme+"://"+target.Host+"?")
	default:
		return err
	}
}

// own says whether a URL is the server's that the token is for.
func (c *Client) own(target *url.URL) bool {
	return target.Scheme == c.base.Scheme && target.Host == c.base.Host
}

// worthAnotherTry says whether the same call may go well in a moment.
func worthAnotherTry(err error) bool {
	var answered *Error
	if errors.As(err, &answered) {
		return slices.Contains([]int{
			http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
		}, answered.Problem.Status)
	}
	return errors.Is(err, mayfly.Unavailable)
}

// pause is how long to wait before the next try: what the server asks for, or a
// random part of a span that doubles. It is not ok to come sooner than asked.
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

// jsonBody is a value as the body of a call.
func jsonBody(value any) (func() (body, error), error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, mayfly.Wrap(mayfly.Invalid, err, "")
	}
	return func() (body, error) {
		return body{io.NopCloser(bytes.NewReader(text)), "application/json", int64(len(text))}, nil
	}, nil
}

// askWith is ask with value as its JSON.
func (c *Client) askWith(ctx context.Context, what call, value, answer any) (err error) {
	if what.body, err = jsonBody(value); err != nil {
		return err
	}
	return c.ask(ctx, what, answer)
}

// newKey is an idempotency key that nobody else makes.
func newKey() string { return rand.Text() }
