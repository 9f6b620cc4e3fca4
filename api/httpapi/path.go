package httpapi

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/mayflyhq/mayfly"
)

// plainPath refuses every path that could be read in two ways: what a proxy in
// front of us let through as one thing must not be another to us.
func plainPath(r *http.Request) error {
	path, raw := r.URL.Path, strings.ToLower(r.URL.EscapedPath())
	switch {
	case !strings.HasPrefix(path, "/"), !utf8.ValidString(path):
	case strings.Contains(path, "//"), strings.ContainsAny(path, "\\\x00\r\n\t"):
	case strings.Contains(raw, "%2f"), strings.Contains(raw, "%5c"), strings.Contains(raw, "%2e"), strings.Contains(raw, "%25"):
	case strings.Contains(path+"/", "/../"), strings.Contains(path+"/", "/./"):
	default:
		return nil
	}
	return mayfly.Errorf(mayfly.Invalid, "the path is not written plainly").WithHint("write it as /openapi.json does: single slashes, no dots, nothing escaped that need not be")
}

// plainQuery refuses a query of which a part would be passed over in silence: one
// that cannot be read, or a parameter that stands twice.
func plainQuery(r *http.Request) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return mayfly.Errorf(mayfly.Invalid, "the query cannot be read").WithHint("escape what must be: % is %25, ; is %3B")
	}
	for name, all := range values {
		if len(all) > 1 {
			return mayfly.Errorf(mayfly.Invalid, "%.40q stands twice in the query", name).WithHint("say it once")
		}
	}
	return nil
}
