package e2e

import (
	"encoding/json"
	"fmt"
	"mime"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// operation is one operation of the served document.
type operation struct {
	id, method, path string
	admin            bool
	pattern          *regexp.Regexp
	spec             *openapi3.Operation
}

// documents are the operations of both listeners.
type documents []operation

// readDocument reads the OpenAPI document of a listener.
func readDocument(text []byte, admin bool) (documents, error) {
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, fmt.Errorf("the document cannot be read: %w", err)
	}
	places := regexp.MustCompile(`\{[a-z]+\}`)
	var all documents
	for path, item := range doc.Paths.Map() {
		compiled, err := regexp.Compile("^" + strings.ReplaceAll(places.ReplaceAllString(path, "[^/]+"), ".", `\.`) + "$")
		if err != nil {
			return nil, err
		}
		for method, spec := range item.Operations() {
			all = append(all, operation{id: spec.OperationID, method: method, path: path, admin: admin, pattern: compiled, spec: spec})
		}
	}
	slices.SortFunc(all, func(a, b operation) int { return strings.Compare(a.id, b.id) })
	return all, nil
}

// find is the operation that a request is for.
func (d documents) find(r request) (operation, bool) {
	path, _, _ := strings.Cut(r.target, "?")
	for _, op := range d {
		if op.admin == r.admin && op.method == r.method && op.pattern.MatchString(path) {
			return op, true
		}
	}
	return operation{}, false
}

// documented says whether an answer is one that the document promises: its
// status, its type and the shape of its body.
func (d documents) documented(r request, a answer) error {
	op, ok := d.find(r)
	if !ok {
		return fmt.Errorf("no operation is documented for it")
	}
	declared := op.spec.Responses.Value(strconv.Itoa(a.status))
	if declared == nil {
		return fmt.Errorf("%s: status %d is not declared: %s", op.id, a.status, excerpt(a.body))
	}
	if a.header.Get("Mayfly-Request") == "" {
		return fmt.Errorf("%s: no request id", op.id)
	}
	if len(a.body) == 0 {
		return nil
	}
	typ, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("%s: content type %q: %w", op.id, a.header.Get("Content-Type"), err)
	}
	content := declared.Value.Content.Get(typ)
	if content == nil {
		return fmt.Errorf("%s: %d with the type %s is not declared", op.id, a.status, typ)
	}
	if content.Schema == nil || !strings.HasSuffix(typ, "json") {
		return nil
	}
	var v any
	if err := json.Unmarshal(a.body, &v); err != nil {
		return fmt.Errorf("%s: %w", op.id, err)
	}
	if err := content.Schema.Value.VisitJSON(v, openapi3.VisitAsResponse()); err != nil {
		return fmt.Errorf("%s: %d: %w", op.id, a.status, err)
	}
	return nil
}
