package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/product/account"
)

// statusOf returns the HTTP status of a kind of error.
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
	default: // Corrupt, and errors without a kind
		return http.StatusInternalServerError
	}
}

// titleOf describes a kind in a few words.
func titleOf(kind mayfly.Kind) string {
	switch kind {
	case mayfly.NotFound:
		return "Not found"
	case mayfly.Gone, mayfly.Archived:
		return "Gone"
	case mayfly.Conflict:
		return "The current state does not allow this"
	case mayfly.Invalid:
		return "The request is not valid"
	case mayfly.TooLarge:
		return "Too large"
	case mayfly.Unsupported:
		return "This type of content is not supported"
	case mayfly.Unauthenticated:
		return "Authentication is required"
	case mayfly.Denied:
		return "The token does not allow this"
	case mayfly.Limited:
		return "Too many requests"
	case mayfly.Full:
		return "There is no space left"
	case mayfly.Unavailable:
		return "Temporarily unavailable"
	case mayfly.Unknown:
		return "The outcome is unknown"
	default:
		return "Internal error"
	}
}

const methodTitle = "The method is not allowed here"

// hintOf says what to do next when the error itself does not.
func hintOf(kind mayfly.Kind) string {
	switch kind {
	case mayfly.Unavailable:
		return "try again in a moment"
	case mayfly.Unknown:
		return "try again with the same Idempotency-Key, or check whether it happened"
	case mayfly.Full:
		return "the operator has to free space; reading and deleting still work"
	case mayfly.Unauthenticated:
		return "send Authorization: Bearer with a token"
	default:
		return ""
	}
}

// KindOf returns the kind of an error; 0 if it has none.
func KindOf(err error) mayfly.Kind {
	for _, kind := range mayfly.Kinds() {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return 0
}

// Refusal returns the error that says nothing about an id but whether its
// deadline has passed, which anyone can compute from the id (ST2).
func Refusal(id mayfly.ID, now mayfly.Instant) error {
	if id.ExpiredAt(now) {
		return mayfly.Gone
	}
	return mayfly.NotFound
}

const (
	problemType = wire.ProblemType
	brokenCode  = "broken" // the code of an error that has no kind
)

// problemOf returns the problem that an error is answered with. The problem of
// something that is hidden, absent or gone has no detail, so that all of these are
// the same bytes (ST2, I18); that of an internal error says nothing about the
// inside.
func problemOf(err error) wire.Problem {
	kind := KindOf(err)
	if kind == mayfly.Archived {
		kind = mayfly.Gone
	}
	p := wire.Problem{Title: titleOf(kind), Status: statusOf(kind), Code: kind.String(), Hint: hintOf(kind)}
	if kind == 0 || kind == mayfly.Corrupt {
		p.Code = brokenCode
		p.Hint = "give the Mayfly-Request id of this answer to the operator"
	}
	p.Type = "/docs/api#" + p.Code
	switch kind {
	case mayfly.Conflict, mayfly.Invalid, mayfly.TooLarge, mayfly.Unsupported, mayfly.Unauthenticated, mayfly.Denied, mayfly.Limited:
		p.Detail, p.Hint = detailOf(err, p.Hint)
	case mayfly.Unavailable, mayfly.Full:
		if hinted := (*mayfly.Error)(nil); errors.As(err, &hinted) && hinted.Hint != "" {
			p.Hint = hinted.Hint
		}
	}
	return p
}

// detailOf separates the message of an error from its hint.
func detailOf(err error, defaultHint string) (detail, hint string) {
	var e *mayfly.Error
	if !errors.As(err, &e) {
		return err.Error(), defaultHint
	}
	hint = cmp.Or(e.Hint, defaultHint)
	if e.Err == nil {
		return "", hint
	}
	return e.Err.Error(), hint
}

// problemTypes are the media types in which a problem can be sent, in the order
// of preference when the caller accepts several equally.
func problemTypes() []string { return []string{problemType, "text/plain", "text/html"} }

// refusals are the bytes of the two problems that say nothing, made once, by
// media type.
type refusals struct{ notFound, gone map[string][]byte }

func newRefusals() refusals {
	r := refusals{map[string][]byte{}, map[string][]byte{}}
	for _, typ := range problemTypes() {
		r.notFound[typ] = problemBytes(problemOf(mayfly.NotFound), typ)
		r.gone[typ] = problemBytes(problemOf(mayfly.Gone), typ)
	}
	return r
}

// problemBytes returns a problem as JSON for programs, or as a text or a page for
// people.
func problemBytes(p wire.Problem, typ string) []byte {
	var lines []string
	for _, line := range []string{p.Detail, p.Hint} {
		if line != "" {
			lines = append(lines, line)
		}
	}
	switch typ {
	case "text/plain":
		return []byte(strings.Join(append([]string{p.Title}, lines...), "\n") + "\n")
	case "text/html":
		title, body := html.EscapeString(p.Title), ""
		for _, line := range lines {
			body += "<p>" + html.EscapeString(line) + "</p>\n"
		}
		return []byte("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>" + title + "</title>\n<h1>" + title + "</h1>\n" + body + "</html>\n")
	}
	b, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("httpapi: encode problem: %v", err)) // cannot happen: strings and a number
	}
	return append(b, '\n')
}

// acceptedProblemType returns the media type in which the caller prefers a
// problem: problem+json unless it accepts another one more.
func acceptedProblemType(accept []string) string {
	best, bestQuality := problemType, 0.0
	for _, typ := range problemTypes() {
		if q := acceptedQuality(accept, typ); q > bestQuality {
			best, bestQuality = typ, q
		}
	}
	return best
}

// acceptedQuality returns the quality that the header Accept gives a media type:
// that of the most specific range that matches.
func acceptedQuality(accept []string, typ string) float64 {
	quality, specific := 0.0, 0
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		mediaRange, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		rank := 0
		switch group, _, _ := strings.Cut(typ, "/"); mediaRange {
		case typ:
			rank = 3
		case "application/json": // a caller that reads JSON reads a problem
			if typ == problemType {
				rank = 3
			}
		case group + "/*":
			rank = 2
		case "*/*":
			rank = 1
		}
		if rank <= specific {
			continue
		}
		q := 1.0
		if text, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		quality, specific = q, rank
	}
	return quality
}

// sendProblem sends a problem in the media type that the caller prefers.
func (c *Call) sendProblem(p wire.Problem) {
	typ := acceptedProblemType(c.Request.Header["Accept"])
	c.sendProblemBytes(p.Status, typ, problemBytes(p, typ))
}

func (c *Call) sendProblemBytes(status int, typ string, body []byte) {
	if strings.HasPrefix(typ, "text/") {
		typ += "; charset=utf-8"
	}
	c.drainBody()
	c.send(status, typ, body)
}

// refuse sends one of the two problems that say nothing.
func (c *Call) refuse(status int, bodies map[string][]byte) {
	typ := acceptedProblemType(c.Request.Header["Accept"])
	c.sendProblemBytes(status, typ, bodies[typ])
}

// fail answers with the problem of an error.
func (c *Call) fail(err error) {
	h := c.w.Header()
	for _, name := range []string{"Etag", "Accept-Ranges", "Content-Range", "Content-Length", "Content-Disposition", "Location", "Last-Modified"} {
		h.Del(name)
	}
	h.Set("Cache-Control", noStore)
	kind := KindOf(err)
	switch kind {
	case mayfly.NotFound:
		c.refuse(http.StatusNotFound, c.api.refusals.notFound)
		return
	case mayfly.Gone, mayfly.Archived:
		c.refuse(http.StatusGone, c.api.refusals.gone)
		return
	case mayfly.Unauthenticated:
		h.Set("WWW-Authenticate", challenge(c.HasToken()))
	case mayfly.Limited:
		h.Set("Retry-After", retryAfter(err))
	case mayfly.Unavailable, mayfly.Unknown:
		h.Set("Retry-After", "1")
	}
	p := problemOf(err)
	if p.Status >= http.StatusInternalServerError && c.clientLeft() {
		p = problemOf(mayfly.Invalid)
		p.Status, p.Title, p.Hint = statusClientLeft, "The client closed the connection", ""
	}
	if p.Status == http.StatusInternalServerError {
		c.api.log.ErrorContext(c.Context(), "request failed", "request", c.id, "route", c.route.Pattern, "error", err)
	}
	c.sendProblem(p)
}

// statusClientLeft is the status, in metrics and logs, of a request whose client
// closed the connection before it was answered: nothing of ours failed.
const statusClientLeft = 499

// clientLeft reports whether the client has closed the connection.
func (c *Call) clientLeft() bool { return errors.Is(c.Context().Err(), context.Canceled) }

func challenge(hasToken bool) string {
	if hasToken {
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
