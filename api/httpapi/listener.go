package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/mayflyhq/mayfly"
)

// listener is the handler of a table of routes.
func (a *API) listener(routes []route, cors origins) (h http.Handler, err error) {
	defer func() {
		if p := recover(); p != nil { // two patterns that fight
			err = fmt.Errorf("httpapi: routes: %v", p)
		}
	}()
	mux := http.NewServeMux()
	methods := map[string]bool{}
	for _, rt := range routes {
		methods[rt.method] = true
		mux.Handle(rt.method+" "+rt.pattern, a.handler(rt, cors))
	}
	lost := a.handler(route{method: "any", pattern: "unknown", do: func(c *call) error { return c.lost(mux, methods) }}, cors)
	mux.Handle("/", lost)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect || plainPath(r) != nil {
			lost.ServeHTTP(w, r) // the mux would send them somewhere else
			return
		}
		mux.ServeHTTP(w, r)
	}), nil
}

// lost answers what no route is for: 405 where another method would do, else 404.
func (c *call) lost(mux *http.ServeMux, methods map[string]bool) error {
	var allowed []string
	for method := range methods {
		probe := &http.Request{Method: method, URL: c.r.URL, Host: c.r.Host}
		if _, pattern := mux.Handler(probe); pattern != "/" && pattern != "" {
			allowed = append(allowed, method)
			if method == http.MethodGet {
				allowed = append(allowed, http.MethodHead)
			}
		}
	}
	p := problemOf(mayfly.NotFound)
	p.Detail, p.Hint = "there is no such route", "/docs/api lists them"
	if len(allowed) > 0 {
		slices.Sort(allowed)
		allow := strings.Join(slices.Compact(allowed), ", ")
		c.w.Header().Set("Allow", allow)
		p = problemOf(mayfly.Invalid)
		p.Title, p.Status, p.Code, p.Type = "This method does nothing here", http.StatusMethodNotAllowed, methodCode, "/docs/api#"+methodCode
		p.Detail, p.Hint = "", "use one of "+allow
	}
	c.w.Header().Set("Content-Type", problemType)
	c.send(p.Status, problemBytes(p))
	return nil
}

const methodCode = "method"
