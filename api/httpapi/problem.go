package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/product/account"
)

// statusOf is the one table from kinds of failure to HTTP.
func statusOf(kind mayfly.Kind) int {
	switch kind {
	case mayfly.NotFound:
		return http.StatusNotFound
	case mayfly.Gone, mayfly.Archived:
		return http.StatusGone
	case mayfly.Conflict:
		return http.StatusConflict
	case mayfly.Invalid:
		return http.StatusBadRequest
	case mayfly.TooLarge:
		return http.StatusRequestEntityTooLarge
	case mayfly.Unsupported:
		return http.StatusUnsupportedMediaType
	case mayfly.Unauthenticated:
		return http.StatusUnauthorized
	case mayfly.Denied:
		return http.StatusForbidden
	case mayfly.Limited:
		return http.StatusTooManyRequests
	case mayfly.Full:
		return http.StatusInsufficientStorage
	case mayfly.Unavailable, mayfly.Unknown:
		return http.StatusServiceUnavailable
	default: // Corrupt, and whatever has no kind
		return http.StatusInternalServerError
	}
}

// titleOf says a kind in a few words.
func titleOf(kind mayfly.Kind) string {
	switch kind {
	case mayfly.NotFound:
		return "There is nothing here"
	case mayfly.Gone, mayfly.Archived:
		return "It is gone"
	case mayfly.Conflict:
		return "The current state does not allow it"
	case mayfly.Invalid:
		return "The request makes no sense as written"
	case mayfly.TooLarge:
		return "It is too large"
	case mayfly.Unsupported:
		return "This kind of content is not taken"
	case mayfly.Unauthenticated:
		return "Who is asking is not known"
	case mayfly.Denied:
		return "The token does not allow it"
	case mayfly.Limited:
		return "Too often"
	case mayfly.Full:
		return "There is no room"
	case mayfly.Unavailable:
		return "Not now"
	case mayfly.Unknown:
		return "It may or may not have happened"
	default:
		return "Something broke"
	}
}

// hintOf is what to do next when the error itself does not say.
func hintOf(kind mayfly.Kind) string {
	switch kind {
	case mayfly.Unavailable:
		return "try again in a moment"
	case mayfly.Unknown:
		return "try again with the same Idempotency-Key, or look whether it happened"
	case mayfly.Full:
		return "the operator has to make room; reading and deleting go on"
	case mayfly.Unauthenticated:
		return "send Authorization: Bearer with a token"
	default:
		return ""
	}
}

// kindOf is the kind of err; 0 for what has none.
func kindOf(err error) mayfly.Kind {
	for _, kind := range mayfly.Kinds() {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return 0
}

// broken is the code of a failure that has no kind.
const broken = "broken"

// problemOf is err as it goes on the wire. What is refused, absent or gone says
// nothing but that, so that denial and absence are the same bytes (ST2, I18);
// what broke inside says nothing of the inside.
func problemOf(err error) wire.Problem {
	kind := kindOf(err)
	if kind == mayfly.Archived {
		kind = mayfly.Gone
	}
	p := wire.Problem{Title: titleOf(kind), Status: statusOf(kind), Code: kind.String(), Hint: hintOf(kind)}
	if kind == 0 || kind == mayfly.Corrupt {
		p.Code = broken
		p.Hint = "tell the operator the Mayfly-Request id of this answer"
	}
	p.Type = "/docs/api#" + p.Code
	switch kind {
	case mayfly.Conflict, mayfly.Invalid, mayfly.TooLarge, mayfly.Unsupported, mayfly.Unauthenticated, mayfly.Denied, mayfly.Limited:
		p.Detail, p.Hint = wordsOf(err, p.Hint)
	case mayfly.Unavailable, mayfly.Full:
		if hinted := (*mayfly.Error)(nil); errors.As(err, &hinted) && hinted.Hint != "" {
			p.Hint = hinted.Hint
		}
	}
	return p
}

// wordsOf parts the message of err from its hint.
func wordsOf(err error, hint string) (detail, next string) {
	var e *mayfly.Error
	if !errors.As(err, &e) {
		return err.Error(), hint
	}
	if e.Hint != "" {
		hint = e.Hint
	}
	if e.Err == nil {
		return "", hint
	}
	return e.Err.Error(), hint
}

// refusals are the fixed bytes of the two answers that tell nothing.
type refusals struct{ notFound, gone []byte }

func newRefusals() refusals {
	return refusals{notFound: problemBytes(problemOf(mayfly.NotFound)), gone: problemBytes(problemOf(mayfly.Gone))}
}

func problemBytes(p wire.Problem) []byte {
	b, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("httpapi: a problem cannot be written: %v", err)) // strings and a number
	}
	return append(b, '\n')
}

// fail answers with err.
func (c *call) fail(err error) {
	h := c.w.Header()
	for _, name := range []string{"Etag", "Accept-Ranges", "Content-Range", "Content-Length", "Content-Disposition", "Location", "Last-Modified"} {
		h.Del(name)
	}
	h.Set("Cache-Control", "private, no-store")
	h.Set("Content-Type", problemType)
	kind := kindOf(err)
	switch kind {
	case mayfly.NotFound:
		c.refused(http.StatusNotFound, c.refusals.notFound)
		return
	case mayfly.Gone, mayfly.Archived:
		c.refused(http.StatusGone, c.refusals.gone)
		return
	case mayfly.Unauthenticated:
		h.Set("WWW-Authenticate", challenge(c.presented()))
	case mayfly.Limited:
		h.Set("Retry-After", retryAfter(err))
	case mayfly.Unavailable, mayfly.Unknown:
		h.Set("Retry-After", "1")
	}
	p := problemOf(err)
	if kind == 0 && c.r.Context().Err() != nil { // the client has gone: nobody reads it, and nothing of ours broke
		p = problemOf(mayfly.Unavailable)
	}
	if p.Status == http.StatusInternalServerError {
		c.log.ErrorContext(c.r.Context(), "request failed", "request", c.id, "route", c.route.pattern, "error", err)
	}
	c.send(p.Status, problemBytes(p))
}

func (c *call) refused(status int, body []byte) {
	c.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	c.send(status, body)
}

func challenge(presented bool) string {
	if presented {
		return `Bearer realm="mayfly", error="invalid_token"`
	}
	return `Bearer realm="mayfly"`
}

func retryAfter(err error) string {
	wait := time.Second
	if limited := (account.Limited{}); errors.As(err, &limited) {
		wait = limited.RetryAfter
	}
	return strconv.Itoa(max(1, int((wait+time.Second-1)/time.Second)))
}
