package httpapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
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
// media type, and the Content-Security-Policy of a problem that is a page.
type refusals struct {
	notFound, gone map[string][]byte
	policy         string
}

func newRefusals() refusals {
	sum := sha256.Sum256([]byte(pageStyle))
	r := refusals{
		map[string][]byte{},
		map[string][]byte{},
		"default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; sandbox; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	}
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
		text := cmp.Or(p.Detail, p.Title)
		if p.Hint != "" {
			text += " (" + p.Hint + ")"
		}
		return []byte(text + "\n") // one line, for people who use curl
	case "text/html":
		return problemPage(p, lines)
	}
	b, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("httpapi: encode problem: %v", err)) // cannot happen: strings and a number
	}
	return append(b, '\n')
}

//go:embed page_problem.html
var problemTemplate string

// problemPage returns a problem as a page. It is made from the problem alone, so
// that a refusal is the same bytes whatever its reason.
func problemPage(p wire.Problem, lines []string) []byte {
	if len(lines) == 0 {
		lines = []string{explanationOf(p.Status)}
	}
	body := ""
	for _, line := range lines {
		body += "<p>" + html.EscapeString(line) + "</p>\n"
	}
	return []byte(strings.NewReplacer(
		"{{style}}", pageStyle, "{{status}}", strconv.Itoa(p.Status), "{{title}}", html.EscapeString(p.Title), "{{body}}", body,
	).Replace(problemTemplate))
}

// explanationOf says to people what a status means of which the problem says
// nothing more.
func explanationOf(status int) string {
	switch status {
	case http.StatusNotFound:
		return "Nothing is shown at this address. It may have been deleted, read for the last time, be meant for others, or never have existed."
	case http.StatusGone:
		return "This link has expired. What was here is no longer shown."
	default:
		return "The request was not carried out."
	}
}

// problemType returns the media type in which the caller prefers a problem:
// problem+json, or text if the route says so, unless it accepts another one more.
func (c *Call) problemType() string {
	if c.route.TextFirst {
		return c.Prefers("text/plain", problemType, "text/html")
	}
	return c.Prefers(problemTypes()...)
}

// Prefers returns the media type that the caller accepts most, of those offered; the
// first of them if it prefers none.
func (c *Call) Prefers(offered ...string) string {
	return preferred(c.Request.Header["Accept"], offered)
}

func preferred(accept, offered []string) string {
	best, bestQuality := offered[0], 0.0
	for _, typ := range offered {
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
	typ := c.problemType()
	c.sendProblemBytes(p.Status, typ, problemBytes(p, typ))
}

func (c *Call) sendProblemBytes(status int, typ string, body []byte) {
	if typ == "text/html" {
		c.w.Header().Set("Content-Security-Policy", c.api.refusals.policy)
	}
	if strings.HasPrefix(typ, "text/") {
		typ += "; charset=utf-8"
	}
	c.DrainBody()
	c.send(status, typ, body)
}

// refuse sends one of the two problems that say nothing.
func (c *Call) refuse(status int, bodies map[string][]byte) {
	typ := c.problemType()
	c.sendProblemBytes(status, typ, bodies[typ])
}

// fail answers with the problem of an error.
func (c *Call) fail(err error) {
	h := c.w.Header()
	for _, name := range []string{"Etag", "Accept-Ranges", "Content-Range", "Content-Length", "Content-Disposition", "Location", "Last-Modified", "Surrogate-Key", "Mayfly-Until"} {
		h.Del(name)
	}
	h.Set("Cache-Control", noStore)
	if errors.Is(err, ErrNoRoute) {
		c.sendNoRoute()
		return
	}
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
	if errors.Is(err, ErrPrecondition) {
		p.Status = http.StatusPreconditionFailed
	}
	if errors.As(err, &impossible{}) {
		p.Status, p.Title = http.StatusUnprocessableEntity, "This operation is not supported here"
	}
	if p.Status >= http.StatusInternalServerError && c.clientLeft() {
		p = problemOf(mayfly.Invalid)
		p.Status, p.Title, p.Hint = statusClientLeft, "The client closed the connection", ""
	}
	if p.Status == http.StatusInternalServerError {
		c.api.log.ErrorContext(c.Context(), "request failed", "request", c.id, "route", c.route.Pattern, "error", err)
	}
	c.sendProblem(p)
}

// ErrPrecondition, wrapped in an error of kind Conflict, is answered with 412.
var ErrPrecondition = errors.New("it is not as If-Match or If-None-Match demands")

// impossible is an error that Impossible has made.
type impossible struct{ error }

func (i impossible) Unwrap() error { return i.error }

// Impossible returns err as one that is answered with 422 if its kind is Unsupported: the
// operation is not supported, and another format of the request would not help.
func Impossible(err error) error {
	if KindOf(err) != mayfly.Unsupported {
		return err
	}
	return impossible{err}
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
	var waits interface{ RetryAfter() time.Duration }
	if limited := (account.Limited{}); errors.As(err, &limited) {
		wait = limited.RetryAfter
	} else if errors.As(err, &waits) {
		wait = waits.RetryAfter()
	}
	return strconv.Itoa(max(1, int((wait+time.Second-1)/time.Second)))
}
