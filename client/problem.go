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

// Error is an error response of the server. Use errors.Is(err, mayfly.Gone), and
// so on, to find out its kind.
type Error struct {
	Kind    mayfly.Kind
	Problem wire.Problem
	Request string        // the id of the request in the server's log
	After   time.Duration // how long the server asks to wait; 0: not specified
}

// Error returns what happened and what to do next.
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

// Unwrap returns the same error as a mayfly.Error with its kind and hint.
func (e *Error) Unwrap() error {
	return mayfly.Wrap(e.Kind, errors.New(strings.TrimSuffix(e.Error(), " ("+e.Problem.Hint+")")), e.Problem.Hint)
}

// longestProblem is the most bytes of an error response that are read.
const longestProblem = 64 << 10

// problemOf reads an error response. A proxy in between may have sent something
// other than a problem.
func problemOf(res *http.Response) *Error {
	e := &Error{Request: res.Header.Get("Mayfly-Request"), After: retryAfter(res.Header)}
	text, err := io.ReadAll(io.LimitReader(res.Body, longestProblem))
	typ, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil || typ != wire.ProblemType || json.Unmarshal(text, &e.Problem) != nil {
		e.Problem = wire.Problem{Title: fmt.Sprintf("the server answered %s", res.Status)}
	}
	e.Problem.Status = res.StatusCode
	if location := res.Header.Get("Location"); res.StatusCode/100 == 3 && location != "" {
		e.Problem.Hint = "the server redirects to " + location + ": use that address"
	}
	e.Kind = kindOf(e.Problem.Code, res.StatusCode)
	return e
}

// kindOf returns the kind of a problem by its code, or by its status if the code
// is unknown.
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

// retryAfter returns how long the server asks to wait. A date is compared with the
// server's own, so that the local clock does not matter.
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
