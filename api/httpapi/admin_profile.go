package httpapi

import (
	"net/http"
	"net/http/pprof"

	"github.com/mayflyhq/mayfly/product/account"
)

// profileRoutes are the profiles of the runtime.
func profileRoutes(admin []account.Scope) []route {
	one := func(pattern, id, summary string, h http.HandlerFunc) route {
		return route{
			method: "GET", pattern: pattern, id: id, tag: "profiles", scopes: admin, summary: summary, may: []int{http.StatusNotFound},
			params: []param{query("seconds", "For how long.", schema{"type": "integer", "minimum": 1, "maximum": 60}), query("debug", "1 for text.", schema{"type": "integer"})},
			answers: []reply{{status: http.StatusOK, about: "A profile, or a page.", content: content{
				{typ: "application/octet-stream"}, {typ: "text/plain"}, {typ: "text/html"},
			}}},
			do: func(c *call) error {
				h(c.w, c.r)
				return nil
			},
		}
	}
	return []route{
		one("/debug/pprof/{$}", "listProfiles", "Which profiles there are", pprof.Index),
		one("/debug/pprof/{profile}", "getProfile", "A profile: heap, goroutine, allocs, block, mutex, threadcreate", pprof.Index),
		one("/debug/pprof/profile", "getCPUProfile", "What the CPU does", pprof.Profile),
		one("/debug/pprof/trace", "getTrace", "A trace of the runtime", pprof.Trace),
	}
}
