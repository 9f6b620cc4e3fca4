package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/mayflyhq/mayfly"
)

// origins are the web origins that may call from a browser (C9).
type origins struct {
	any  bool
	list []string

	request, answer string // the headers that a page may send and read
}

func parseOrigins(texts []string) (origins, error) {
	var o origins
	for _, text := range texts {
		if text == "*" {
			o.any = true
			continue
		}
		u, err := url.Parse(text)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil {
			return o, mayfly.Errorf(mayfly.Invalid, "invalid origin %q", text).WithHint("write it like https://app.example.org, or *")
		}
		o.list = append(o.list, strings.ToLower(text))
	}
	return o, nil
}

const corsMethods = "GET, HEAD, POST, PUT, PATCH, DELETE"

// headers sets the headers that pages may send and read: those that any request and any
// answer may have, and those that routes declare.
func (o *origins) headers(routes []Route) {
	request := []string{"Authorization", "Content-Type", "If-Range", "Last-Event-ID", "Mayfly-Request", "Mayfly-User", "Range"}
	answer := []string{"Accept-Ranges", "Content-Disposition", "Content-Range", "ETag", "Location", "Mayfly-Request", "Retry-After", "WWW-Authenticate"}
	for _, rt := range routes {
		for _, p := range rt.Params {
			if p.In == "header" {
				request = append(request, p.Name)
			}
		}
		for _, a := range rt.Answers {
			answer = append(answer, a.Headers...)
		}
	}
	slices.Sort(request)
	slices.Sort(answer)
	o.request, o.answer = strings.Join(slices.Compact(request), ", "), strings.Join(slices.Compact(answer), ", ")
}

// allow sets the headers that tell a browser what the origin of r may do. It
// reports whether r was a preflight request and is answered by that. Tokens are
// sent in a header, so the browser's own credentials are never allowed.
func (o origins) allow(h http.Header, r *http.Request) (preflight bool) {
	if !o.any && len(o.list) == 0 {
		return false
	}
	origin := "*" // also for a request without one: caches keep one answer for all
	if !o.any {
		h.Add("Vary", "Origin")
		if origin = r.Header.Get("Origin"); origin == "" || !slices.Contains(o.list, strings.ToLower(origin)) {
			return false
		}
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", o.answer)
	if r.Method != http.MethodOptions || r.Header.Get("Origin") == "" || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", corsMethods)
	h.Set("Access-Control-Allow-Headers", o.request)
	h.Set("Access-Control-Max-Age", "600")
	return true
}

// crossSiteProtection refuses requests of pages of other sites than this server and
// the origins that may call it.
func crossSiteProtection(texts []string) (*http.CrossOriginProtection, error) {
	p := http.NewCrossOriginProtection()
	for _, text := range texts {
		if text == "*" {
			continue // every page may read, none may make a visitor's browser write
		}
		if err := p.AddTrustedOrigin(text); err != nil {
			return nil, mayfly.Errorf(mayfly.Invalid, "origins: %w", err)
		}
	}
	return p, nil
}
