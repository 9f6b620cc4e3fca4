package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

// Error is an answer that is not what was asked for. errors.Is(err, mayfly.Gone)
// says which kind of failure it is.
type Error struct {
	Kind    mayfly.Kind
	Problem wire.Problem
	Request string        // the id of the request in the server's log
	After   time.Duration // how long the server asks to wait; 0: it does not say
}

// Error says what happened and what to do next.
func (e *Error) Error() string {
	text := e.Problem.Detail
	if text == "" {
		text = e.Problem.Title
	}
	if text == "" {
		text = strings.ToLower(http.StatusText(e.Problem.Status))
	}
	if e.Problem.Status >= http.StatusInternalServerError && e.Request != "" {
		text += ", request " + e.Request
	}
	if e.Problem.Hint != "" {
		text += " (" + e.Problem.Hint + ")"
	}
	return text
}

// Unwrap is the failure in mayfly's own words, with its hint.
func (e *Error) Unwrap() error {
	return mayfly.Wrap(e.Kind, errors.New(strings.TrimSuffix(e.Error(), " ("+e.Problem.Hint+")")), e.Problem.Hint)
}

// longestProblem is how much of an error's body is read.
const longestProblem = 64 << 10

// problemOf reads the error that an answer is. A proxy in between may answer
// something else than a problem.
func problemOf(res *http.Response) *Error {
	e := &Error{Request: res.Header.Get("Mayfly-Request"), After: retryAfter(res.Header)}
	text, err := io.ReadAll(io.LimitReader(res.Body, longestProblem))
	typ, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil || typ != wire.ProblemType || json.Unmarshal(text, &e.Problem) != nil {
		e.Problem = wire.Problem{Title: fmt.Sprintf("the server answered %s", res.Status)}
	}
	e.Problem.Status = res.StatusCode
	if location := res.Header.Get("Location"); res.StatusCode/100 == 3 && location != "" {
		e.Problem.Hint = "it points to " + location + ": use that address"
	}
	e.Kind = kindOf(e.Problem.Code, res.StatusCode)
	return e
}

// kindOf is the kind of a problem by its code, or by the status of one that has none.
func kindOf(code string, status int) mayfly.Kind {
	for _, kind := range mayfly.Kinds() {
		if kind.String() == code {
			return kind
		}
	}
	switch status {
	case http.StatusUnauthorized:
		return mayfly.Unauthenticated
	case http.StatusForbidden:
		return mayfly.Denied
	case http.StatusNotFound:
		return mayfly.NotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		return mayfly.Conflict
	case http.StatusGone:
		return mayfly.Gone
	case http.StatusRequestEntityTooLarge:
		return mayfly.TooLarge
	case http.StatusUnsupportedMediaType:
		return mayfly.Unsupported
	case http.StatusTooManyRequests:
		return mayfly.Limited
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return mayfly.Unavailable
	case http.StatusInsufficientStorage:
		return mayfly.Full
	}
	if status >= http.StatusInternalServerError {
		return mayfly.Unknown
	}
	return mayfly.Invalid
}

// retryAfter is how long the server asks to wait. A date is held against the
// server's own, so that the clock of this machine does not matter.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return max(0, at.Sub(now))
}
