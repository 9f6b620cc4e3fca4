package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

// Schema is a JSON Schema, as OpenAPI 3.1 uses it.
type Schema map[string]any

// Schemas are components of the document, by name.
type Schemas map[string]Schema

// document checks a table of routes and returns its OpenAPI document, which is
// encoded on the first call: it takes longer than the rest of a start.
func document(title, about, version string, routes []Route) (func() ([]byte, error), error) {
	d := &documenter{components: Schemas{}, strict: map[reflect.Type]bool{}}
	ids := map[string]bool{}
	for _, rt := range routes {
		if ids[rt.ID] {
			return nil, mayfly.Errorf(mayfly.Invalid, "httpapi: two routes have the operation id %s", rt.ID)
		}
		ids[rt.ID] = true
		maps.Copy(d.components, rt.Schemas)
		for _, t := range rt.Body {
			if t.Shape != nil {
				d.strict[t.Shape] = true
			}
		}
	}
	paths := map[string]map[string]any{}
	for _, rt := range routes {
		if paths[rt.Path()] == nil {
			paths[rt.Path()] = map[string]any{}
		}
		paths[rt.Path()][strings.ToLower(rt.Method)] = d.operation(rt)
	}
	d.schemaOf(reflect.TypeFor[wire.Problem]())
	if d.err != nil {
		return nil, d.err
	}
	all := map[string]any{
		"openapi": "3.1.0",
		"info":    map[string]any{"title": title, "version": version, "description": about, "license": map[string]any{"name": "Apache-2.0", "identifier": "Apache-2.0"}},
		"paths":   paths,
		"components": map[string]any{
			"schemas":         d.components,
			"securitySchemes": map[string]any{"bearer": map[string]any{"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
			"headers":         documentedHeaders(),
		},
	}
	return sync.OnceValues(func() ([]byte, error) { return json.MarshalIndent(all, "", " ") }), nil
}

// documenter makes schemas from the types of package wire and their tags, so that
// the document cannot differ from what is sent.
type documenter struct {
	components Schemas
	strict     map[reflect.Type]bool // types of requests, in which an unknown field is refused
	err        error                 // the first type or tag that cannot be documented
}

func (d *documenter) operation(rt Route) map[string]any {
	op := map[string]any{
		"operationId": rt.ID, "summary": rt.Summary, "tags": []string{rt.Tag},
		"security": security(rt), "responses": d.responses(rt),
	}
	if rt.About != "" {
		op["description"] = rt.About
	}
	params := []any{}
	for _, p := range rt.allParams() {
		params = append(params, map[string]any{"in": p.In, "name": p.Name, "description": p.About, "required": p.Required, "schema": p.Schema})
	}
	if len(params) > 0 {
		op["parameters"] = params
	}
	if len(rt.Body) > 0 {
		op["requestBody"] = map[string]any{"required": !rt.BodyOptional, "content": d.content(rt.Body)}
	}
	return op
}

func security(rt Route) []any {
	var all []any
	if len(rt.Scopes) == 0 {
		all = append(all, map[string]any{})
	}
	scopes := []string{}
	for _, scope := range rt.Scopes {
		scopes = append(scopes, string(scope))
	}
	return append(all, map[string]any{"bearer": scopes})
}

func (d *documenter) content(all Content) map[string]any {
	types := map[string]any{}
	for _, t := range all {
		switch {
		case t.Shape != nil:
			types[t.Type] = map[string]any{"schema": d.schemaOf(t.Shape)}
		case t.Schema != nil:
			types[t.Type] = map[string]any{"schema": t.Schema}
		default:
			types[t.Type] = map[string]any{}
		}
	}
	return types
}

func (d *documenter) responses(rt Route) map[string]any {
	all := map[string]any{}
	for _, r := range rt.Answers {
		one := map[string]any{"description": r.About, "headers": headerRefs(append([]string{"Mayfly-Request"}, r.Headers...))}
		if len(r.Content) > 0 {
			one["content"] = d.content(r.Content)
		}
		all[strconv.Itoa(r.Status)] = one
	}
	for _, status := range rt.problems() {
		if all[strconv.Itoa(status)] != nil {
			continue // it is an answer of this route, and no problem
		}
		headers := []string{"Mayfly-Request"}
		switch status {
		case http.StatusUnauthorized:
			headers = append(headers, "WWW-Authenticate")
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			headers = append(headers, "Retry-After")
		}
		content := map[string]any{problemType: map[string]any{"schema": d.schemaOf(reflect.TypeFor[wire.Problem]())}}
		for _, typ := range problemTypes()[1:] { // for people
			content[typ] = map[string]any{"schema": Schema{"type": "string"}}
		}
		all[strconv.Itoa(status)] = map[string]any{"description": http.StatusText(status), "headers": headerRefs(headers), "content": content}
	}
	return all
}

func headerRefs(names []string) map[string]any {
	refs, known := map[string]any{}, documentedHeaders()
	for _, name := range names {
		refs[name] = map[string]any{"$ref": "#/components/headers/" + name}
		if known[name] == nil { // a product's own: its route says what it is
			refs[name] = map[string]any{"schema": Schema{"type": "string"}}
		}
	}
	return refs
}

func documentedHeaders() map[string]any {
	header := func(about string) any {
		return map[string]any{"description": about, "schema": Schema{"type": "string"}}
	}
	return map[string]any{
		"Mayfly-Request":   header("The id of the request: the one that you sent, or a new one. Give it to the operator when you report a problem."),
		"Retry-After":      header("Seconds to wait before the next try."),
		"WWW-Authenticate": header("How to authenticate."),
		"ETag":             header("Identifies this version; send it in If-None-Match."),
		"Location":         header("The URL of the new item."),
		"Accept-Ranges":    header("bytes"),
		"Content-Range":    header("Which bytes these are."),
		"Cache-Control":    header("How long caches may keep the answer: never past the deadline."),
	}
}

// schemaOf returns the schema of a Go type. A struct becomes a component.
func (d *documenter) schemaOf(t reflect.Type) Schema {
	switch t {
	case reflect.TypeFor[mayfly.ID](), reflect.TypeFor[mayfly.UserID]():
		return Schema{"type": "string", "format": "uuid"}
	case reflect.TypeFor[mayfly.Instant]():
		return Schema{"type": "string", "format": "date-time"}
	case reflect.TypeFor[mayfly.Lifetime]():
		return Schema{"type": "string"}
	case reflect.TypeFor[json.RawMessage]():
		return Schema{} // any JSON, unless a tag of the field describes it
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.schemaOf(t.Elem())
	case reflect.Struct:
		return d.object(t)
	case reflect.Slice:
		return Schema{"type": "array", "items": d.schemaOf(t.Elem())}
	case reflect.Map:
		return Schema{"type": "object", "additionalProperties": d.schemaOf(t.Elem())}
	case reflect.String:
		return Schema{"type": "string"}
	case reflect.Bool:
		return Schema{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint32:
		return Schema{"type": "integer"}
	case reflect.Float64:
		return Schema{"type": "number"}
	default:
		d.fail("type %s cannot be documented", t)
		return nil
	}
}

func (d *documenter) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("httpapi: document: "+format, args...)
	}
}

func (d *documenter) object(t reflect.Type) Schema {
	ref := Schema{"$ref": "#/components/schemas/" + t.Name()}
	if _, known := d.components[t.Name()]; known {
		return ref
	}
	o := Schema{"type": "object"}
	d.components[t.Name()] = o
	properties, required := Schema{}, []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		properties[name] = d.field(f)
		if !strings.Contains(options, "omitempty") {
			required = append(required, name)
		}
	}
	o["properties"] = properties
	if len(required) > 0 {
		o["required"] = required
	}
	if d.strict[t] {
		o["additionalProperties"] = false
	}
	return ref
}

// field returns the schema of a field, with what its tags add. The tag items says
// that a raw JSON field is a list of a component that a route declares in Schemas.
func (d *documenter) field(f reflect.StructField) Schema {
	p := d.schemaOf(f.Type)
	if ref, ok := p["$ref"]; ok && f.Tag.Get("doc") != "" {
		return Schema{"$ref": ref, "description": f.Tag.Get("doc")}
	}
	for tag, keyword := range map[string]string{"doc": "description", "format": "format"} {
		if v, ok := f.Tag.Lookup(tag); ok {
			p[keyword] = v
		}
	}
	if name, ok := f.Tag.Lookup("items"); ok {
		if d.components[name] == nil {
			d.fail("field %s: no route declares the schema %s", f.Name, name)
		}
		p["type"], p["items"] = "array", Schema{"$ref": "#/components/schemas/" + name}
	}
	if v, ok := f.Tag.Lookup("example"); ok {
		p["examples"] = []string{v}
	}
	for _, keyword := range []string{"minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems"} {
		if v, ok := f.Tag.Lookup(keyword); ok {
			p[keyword] = d.number(f, v)
		}
	}
	if v, ok := f.Tag.Lookup("enum"); ok {
		var values []any
		for word := range strings.SplitSeq(v, ",") {
			if p["type"] == "integer" {
				values = append(values, d.number(f, word))
			} else {
				values = append(values, word)
			}
		}
		p["enum"] = values
	}
	return p
}

func (d *documenter) number(f reflect.StructField, text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		d.fail("field %s: tag value %q is not a number", f.Name, text)
	}
	return n
}

// documentRoute is GET /openapi.json of a listener with these routes.
func (a *API) documentRoute(title, about string, routes []Route) (Route, error) {
	rt := Route{
		Method: "GET", Pattern: "/openapi.json", ID: "getDocument", Tag: "pages", Product: kernelProduct, Summary: "This document",
		Answers: []Answer{{Status: http.StatusOK, About: "OpenAPI 3.1.", Content: Content{{Type: jsonType, Schema: Schema{"type": "object"}}}}},
	}
	encoded, err := document(title, about, a.o.Version, append(slices.Clone(routes), rt))
	rt.Handle = func(c *Call) error {
		text, err := encoded()
		if err != nil {
			return fmt.Errorf("httpapi: document: %w", err)
		}
		c.w.Header().Set("Cache-Control", "public, max-age=300")
		c.sendJSON(http.StatusOK, text)
		return nil
	}
	return rt, err
}
