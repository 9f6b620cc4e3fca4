package httpapi

import (
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/mayflyhq/mayfly/product/account"
)

// limit says which of a caller's rates a route counts against (C3).
type limit string

const (
	noLimit    limit = ""
	writeLimit limit = "write"
	readLimit  limit = "read"
)

// route is one line of the table: everything that there is to know about an
// operation stands in it, for the server, the document, the page and the tests.
type route struct {
	method  string
	pattern string // as ServeMux reads it, without the method
	id      string // operationId
	tag     string
	summary string
	about   string // more, for the document

	scopes []account.Scope // one of them is needed; none: callable without a token
	limit  limit

	params       []param // of query and headers; those of the path are known by their names
	body         content
	bodyOptional bool
	most         int64 // bytes of a body; 0: none is read
	answers      []reply
	may          []int // further statuses, each a problem

	example string // what a curl line has besides method, token and URL
	do      func(c *call) error
	open    func() error // says why nothing is answered now; nil: always
}

// param is something in the path, the query or a header.
type param struct {
	in, name, about string
	schema          schema
	required        bool
}

// content is what a body may be, by media type.
type content []typed

type typed struct {
	typ    string
	shape  reflect.Type // nil: bytes
	schema schema       // instead of shape
}

// reply is one answer that is no problem.
type reply struct {
	status  int
	about   string
	content content
	headers []string
}

func shape[T any]() reflect.Type { return reflect.TypeFor[T]() }

func jsonOf[T any]() content { return content{{typ: jsonType, shape: shape[T]()}} }

func answers[T any](status int, about string, headers ...string) []reply {
	return []reply{{status: status, about: about, content: jsonOf[T](), headers: headers}}
}

// pathParams are the names in braces of a pattern.
func (r route) pathParams() []string {
	var names []string
	for part := range strings.SplitSeq(r.pattern, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok && part != "{$}" {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

// replies says whether status is one of the route's own answers: that a node is
// not ready is no failure of whoever says so.
func (r route) replies(status int) bool {
	return slices.ContainsFunc(r.answers, func(a reply) bool { return a.status == status })
}

// path is the pattern as the document writes it.
func (r route) path() string { return strings.TrimSuffix(r.pattern, "{$}") }

// changes says whether the route writes something.
func (r route) changes() bool { return r.method != http.MethodGet && r.method != http.MethodHead }
