package httpapi

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
)

// Limit names the rate of a caller that a route counts against (C3).
type Limit string

// The limits.
const (
	NoLimit    Limit = ""
	ReadLimit  Limit = "read"
	WriteLimit Limit = "write"
)

// Route is one operation of the API. The handler, the OpenAPI document, the page
// for people and the tests are all made from it.
type Route struct {
	Method  string
	Pattern string // as http.ServeMux reads it, without the method
	ID      string // operationId of the document; unique on its listener
	Tag     string // groups operations in the document
	Product string // the product that the route belongs to, for metrics
	Summary string
	About   string // a longer description for the document

	// Host is the host name that the route is served on; empty: on every one that has
	// no routes of its own.
	Host string
	// TextFirst sends problems as text to callers that accept anything, such as curl.
	TextFirst bool
	// SameOrigin refuses requests that a page of another site sends, unless they carry
	// a token: no page can make a visitor's browser call the route.
	SameOrigin bool

	Admin       bool            // served on the listener for operators
	WhileClosed bool            // answered even while users are not served
	Scopes      []account.Scope // the token needs one of them; none: no token is needed
	// KeyPrefix begins the product's own keys, which a caller may send in the place of a
	// token. Scopes do not hold for it: the handler checks Call.Key.
	KeyPrefix string
	Limit     Limit
	Rate      account.Rate // a rate of its own, counted apart instead of Limit; a Count of 0: none

	Params       []Param // of query and headers; and of the path, where PathParam does not describe them
	Body         Content
	BodyOptional bool
	MaxBody      int64    // bytes of the body; 0: no body is read
	Answers      []Answer // answers that are no problem
	Problems     []int    // statuses of problems beside those that every route may answer with
	Schemas      Schemas  // components that the document needs beside those made from Go types

	Example string // arguments of a curl command beside method, token and URL
	Handle  func(*Call) error
}

// Param is a parameter in the path, the query or a header.
type Param struct {
	In, Name, About string
	Schema          Schema
	Required        bool
}

// Content lists the media types that a body may have.
type Content []Typed

// Typed is a body of one media type: the JSON of a Go type, something that a
// schema describes, or bytes.
type Typed struct {
	Type   string
	Shape  reflect.Type // nil: see Schema
	Schema Schema       // nil, with a nil Shape: bytes
}

// Answer is an answer of a route that is no problem.
type Answer struct {
	Status  int
	About   string
	Content Content
	Headers []string
}

// JSONOf returns the content that is the JSON of T.
func JSONOf[T any]() Content {
	return Content{{Type: jsonType, Shape: reflect.TypeFor[T]()}}
}

// Answers returns the one answer that is the JSON of T.
func Answers[T any](status int, about string, headers ...string) []Answer {
	return []Answer{{Status: status, About: about, Content: JSONOf[T](), Headers: headers}}
}

// ConditionalAnswers returns the answers of a route that understands
// If-None-Match.
func ConditionalAnswers[T any](about string) []Answer {
	return append(Answers[T](http.StatusOK, about, "ETag"), Answer{Status: http.StatusNotModified, About: "What you have is current."})
}

// Query describes a parameter of the query.
func Query(name, about string, s Schema) Param {
	return Param{In: "query", Name: name, About: about, Schema: s}
}

// Header describes a header of the request.
func Header(name, about string) Param {
	return Param{In: "header", Name: name, About: about, Schema: Schema{"type": "string"}}
}

// PathParam describes a parameter of the path by a regular expression.
func PathParam(name, about, pattern string) Param {
	return Param{In: "path", Name: name, About: about, Required: true, Schema: Schema{"type": "string", "pattern": "^(" + pattern + ")$"}}
}

// IdempotencyKey describes the header that Call.IdempotencyKey reads.
func IdempotencyKey() Param {
	p := Header("Idempotency-Key", "A request with the same key returns the same result: send one, such as a UUID, to be able to retry.")
	p.Schema["minLength"], p.Schema["maxLength"] = 1, maxKey
	return p
}

// IfNoneMatch describes the header that Call.Deliver and Call.ServeMedia read.
func IfNoneMatch() Param {
	return Header("If-None-Match", "The ETag of what you have; 304 if that is current.")
}

// Paging describes the parameters that Call.Page reads.
func Paging() []Param {
	return []Param{
		Query("cursor", "Where the page begins: next of the page before.", Schema{"type": "string", "maxLength": maxCursor}),
		Query("limit", "How many entries at most.", Schema{"type": "integer", "minimum": 1, "maximum": maxPage, "default": defaultPage}),
	}
}

// WithoutBody returns the same route for HEAD, with an operation id of its own.
func (rt Route) WithoutBody(id, summary string) Route {
	rt.Method, rt.ID, rt.Summary = http.MethodHead, id, summary
	rt.Answers = slices.Clone(rt.Answers)
	for i := range rt.Answers {
		rt.Answers[i].Content = nil
	}
	return rt
}

// Path returns the pattern as the document writes it.
// A parameter of several segments is one there.
func (rt Route) Path() string {
	return strings.Replace(strings.TrimSuffix(rt.Pattern, "{$}"), "...}", "}", 1)
}

// Changes reports whether the route changes something.
func (rt Route) Changes() bool {
	return rt.Method != http.MethodGet && rt.Method != http.MethodHead
}

// kernelProduct is the product of routes that belong to none.
const kernelProduct = "api"

func (rt Route) validate() error {
	if rt.Method == "" || !strings.HasPrefix(rt.Pattern, "/") || rt.ID == "" || rt.Product == "" || rt.Handle == nil {
		return mayfly.Errorf(mayfly.Invalid, "httpapi: route %q %q (%s) needs a method, a pattern, an id, a product and a handler", rt.Method, rt.Pattern, rt.ID)
	}
	return nil
}

// pathNames returns the names in braces of the pattern.
func (rt Route) pathNames() []string {
	var names []string
	for part := range strings.SplitSeq(rt.Pattern, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok && part != "{$}" {
			names = append(names, strings.TrimSuffix(strings.TrimSuffix(name, "}"), "..."))
		}
	}
	return names
}

// allParams returns the parameters of the route, those of its path first.
func (rt Route) allParams() []Param {
	var path, others []Param
	for _, p := range rt.Params {
		if p.In == "path" {
			path = append(path, p)
		} else {
			others = append(others, p)
		}
	}
	var all []Param
	for _, name := range rt.pathNames() {
		if i := slices.IndexFunc(path, func(p Param) bool { return p.Name == name }); i >= 0 {
			all = append(all, path[i])
		} else {
			all = append(all, knownPathParam(name))
		}
	}
	return append(all, others...)
}

// The spelling of an id and of a user in a path. A user whose name has other
// characters is written as a UUID.
const (
	IDPattern   = `[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}|[0-9A-Za-z]{22}`
	UserPattern = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|~[0-9A-Za-z_@.+-]{1,255}`
)

// knownPathParam describes the parameters that many routes have.
func knownPathParam(name string) Param {
	switch name {
	case "id", "item":
		return PathParam(name, "The id: a UUID, or its 22 characters.", IDPattern)
	case "user":
		return PathParam(name, "A user: a UUID, or ~ and the name that the home issuer uses for them.", UserPattern)
	default:
		return PathParam(name, name, "[a-z]+")
	}
}

// problems returns the status of every problem that the route may answer with.
func (rt Route) problems() []int {
	all := append([]int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusInternalServerError, http.StatusServiceUnavailable}, rt.Problems...)
	if rt.Limit != NoLimit || rt.Rate.Count > 0 {
		all = append(all, http.StatusTooManyRequests)
	}
	if rt.MaxBody > 0 {
		all = append(all, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// hasAnswer reports whether status is one of the route's own answers, and not a
// failure: a node that reports that it is not ready has not failed.
func (rt Route) hasAnswer(status int) bool {
	return slices.ContainsFunc(rt.Answers, func(a Answer) bool { return a.Status == status })
}

// String returns method and pattern.
func (rt Route) String() string { return fmt.Sprintf("%s %s", rt.Method, rt.Pattern) }
