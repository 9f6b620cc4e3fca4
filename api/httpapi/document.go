package httpapi

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/mayflyhq/mayfly/api/wire"
)

// document is the OpenAPI document of a table of routes.
func document(title, about, version string, routes []route) ([]byte, error) {
	s := &schemas{components: map[string]schema{}, strict: map[reflect.Type]bool{}}
	for _, rt := range routes {
		for _, t := range rt.body {
			if t.shape != nil {
				s.strict[t.shape] = true
			}
		}
	}
	paths := map[string]map[string]any{}
	for _, rt := range routes {
		if paths[rt.path()] == nil {
			paths[rt.path()] = map[string]any{}
		}
		paths[rt.path()][strings.ToLower(rt.method)] = s.operation(rt)
	}
	s.of(shape[wire.Problem]())
	return json.MarshalIndent(map[string]any{
		"openapi": "3.1.0",
		"info":    map[string]any{"title": title, "version": version, "description": about, "license": map[string]any{"name": "Apache-2.0", "identifier": "Apache-2.0"}},
		"paths":   paths,
		"components": map[string]any{
			"schemas":         s.components,
			"securitySchemes": map[string]any{"bearer": map[string]any{"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
			"headers":         documentedHeaders(),
		},
	}, "", " ")
}

func (s *schemas) operation(rt route) map[string]any {
	op := map[string]any{
		"operationId": rt.id, "summary": rt.summary, "tags": []string{rt.tag},
		"security": security(rt), "responses": s.responses(rt),
	}
	if rt.about != "" {
		op["description"] = rt.about
	}
	params := []any{}
	for _, p := range rt.allParams() {
		params = append(params, map[string]any{"in": p.in, "name": p.name, "description": p.about, "required": p.required, "schema": p.schema})
	}
	if len(params) > 0 {
		op["parameters"] = params
	}
	if len(rt.body) > 0 {
		op["requestBody"] = map[string]any{"required": !rt.bodyOptional, "content": s.content(rt.body)}
	}
	return op
}

func security(rt route) []any {
	var all []any
	if len(rt.scopes) == 0 {
		all = append(all, map[string]any{})
	}
	words := []string{}
	for _, scope := range rt.scopes {
		words = append(words, string(scope))
	}
	return append(all, map[string]any{"bearer": words})
}

func (s *schemas) content(all content) map[string]any {
	types := map[string]any{}
	for _, t := range all {
		switch {
		case t.shape != nil:
			types[t.typ] = map[string]any{"schema": s.of(t.shape)}
		case t.schema != nil:
			types[t.typ] = map[string]any{"schema": t.schema}
		default:
			types[t.typ] = map[string]any{}
		}
	}
	return types
}

func (s *schemas) responses(rt route) map[string]any {
	all := map[string]any{}
	for _, r := range rt.answers {
		one := map[string]any{"description": r.about, "headers": headerRefs(append([]string{"Mayfly-Request"}, r.headers...))}
		if len(r.content) > 0 {
			one["content"] = s.content(r.content)
		}
		all[strconv.Itoa(r.status)] = one
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
		all[strconv.Itoa(status)] = map[string]any{
			"description": http.StatusText(status), "headers": headerRefs(headers),
			"content": map[string]any{wire.ProblemType: map[string]any{"schema": s.of(shape[wire.Problem]())}},
		}
	}
	return all
}

// problems are the statuses of every problem that a route may answer with.
func (r route) problems() []int {
	all := append([]int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusInternalServerError, http.StatusServiceUnavailable}, r.may...)
	if r.limit != noLimit {
		all = append(all, http.StatusTooManyRequests)
	}
	if r.most > 0 {
		all = append(all, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func headerRefs(names []string) map[string]any {
	refs := map[string]any{}
	for _, name := range names {
		refs[name] = map[string]any{"$ref": "#/components/headers/" + name}
	}
	return refs
}

func documentedHeaders() map[string]any {
	header := func(about string) any {
		return map[string]any{"description": about, "schema": schema{"type": "string"}}
	}
	return map[string]any{
		"Mayfly-Request":   header("The id of the request: yours if you sent one, else made here. Tell it to whoever helps you."),
		"Retry-After":      header("Seconds to wait before the next try."),
		"WWW-Authenticate": header("How to say who you are."),
		"ETag":             header("Names what was answered; send it in If-None-Match."),
		"Location":         header("Where the new story is."),
		"Accept-Ranges":    header("bytes"),
		"Content-Range":    header("Which bytes these are."),
		"Cache-Control":    header("How long caches may keep it: never past the deadline."),
	}
}

// allParams are the parameters of a route, those of its path first.
func (r route) allParams() []param {
	var all []param
	for _, name := range r.pathParams() {
		p := pathParam(name)
		p.in, p.name, p.required = "path", name, true
		all = append(all, p)
	}
	return append(all, r.params...)
}

func pathParam(name string) param {
	text := func(about, pattern string) param {
		return param{about: about, schema: schema{"type": "string", "pattern": "^(" + pattern + ")$"}}
	}
	switch name {
	case "id", "item":
		return text("The id: a UUID, or its 22 characters.", idPattern)
	case "upload":
		return text("The id of the upload.", idPattern)
	case "user", "follower":
		return text("A user: a UUID, or ~ and the name that the home issuer knows them by.", userPattern)
	case "n":
		return param{about: "Which medium, from 0.", schema: schema{"type": "integer", "minimum": 0, "maximum": 9}}
	case "object":
		return param{about: "Which medium, from 0; or a smaller picture of it.", schema: schema{"type": "string", "pattern": `^[0-9](-(320|1080))?$`}}
	case "step":
		return text("A step of a life.", "announce|expire|archive|erase|tidy|retire")
	default:
		return text(name, "[a-z]+")
	}
}

// What an id and a user look like in a path. A name with other characters in it
// stands for itself as a UUID.
const (
	idPattern   = `[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}|[0-9A-Za-z]{22}`
	userPattern = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|~[0-9A-Za-z_@.+-]{1,255}`
)
