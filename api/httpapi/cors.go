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

const (
	corsMethods = "GET, HEAD, POST, PUT, PATCH, DELETE"
	corsRequest = "Authorization, Content-Type, Idempotency-Key, If-None-Match, If-Range, Mayfly-Request, Mayfly-User, Range"
	corsAnswer  = "Accept-Ranges, Content-Range, ETag, Location, Mayfly-Request, Retry-After, WWW-Authenticate"
)

// allow sets the headers that tell a browser what the origin of r may do. It
// reports whether r was a preflight request and is answered by that. Tokens are
// sent in a header, so the browser's own credentials are never allowed.
func (o origins) allow(h http.Header, r *http.Request) (preflight bool) {
	if !o.any && len(o.list) == 0 {
		return false
	}
	origin := r.Header.Get("Origin")
	if !o.any {
		h.Add("Vary", "Origin")
	}
	if origin == "" || !o.any && !slices.Contains(o.list, strings.ToLower(origin)) {
		return false
	}
	if o.any {
		origin = "*"
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", corsAnswer)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", corsMethods)
	h.Set("Access-Control-Allow-Headers", corsRequest)
	h.Set("Access-Control-Max-Age", "600")
	return true
}
