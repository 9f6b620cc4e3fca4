package httpapi

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

// isAlive is GET /healthz: a process that can promise nothing any more says so
// and should be ended; one that is merely not ready is alive.
func isAlive(c *call) error {
	h := c.operator.Health(c.r.Context())
	if h.Roles["store"] != "ready" {
		return c.json(http.StatusServiceUnavailable, h)
	}
	return c.json(http.StatusOK, h)
}

// isReady is GET /readyz. Lag makes the walking role not ready, and never the
// api: soft expiry needs no walk (trap 17).
func isReady(c *call) error {
	h := c.operator.Health(c.r.Context())
	if role := c.r.URL.Query().Get("role"); role != "" {
		state, known := h.Roles[role]
		if !known {
			return mayfly.Errorf(mayfly.Invalid, "%.20q is no role", role).WithHint("ask for api or walk")
		}
		h.Ready = state == "ready"
	}
	if !h.Ready {
		return c.json(http.StatusServiceUnavailable, h)
	}
	return c.json(http.StatusOK, h)
}

// getReadiness is GET and HEAD /readyz of the public listener: whether this node
// answers users, and nothing of why.
func getReadiness(c *call) error {
	if c.operator.Health(c.r.Context()).Roles["api"] != "ready" {
		c.w.Header().Set("Retry-After", "1")
		return c.json(http.StatusServiceUnavailable, wire.Readiness{})
	}
	return c.json(http.StatusOK, wire.Readiness{Ready: true})
}

// metricsHandler is GET /metrics.
func (a *API) metricsHandler() func(*call) error {
	h := promhttp.HandlerFor(a.o.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, DisableCompression: true})
	return func(c *call) error {
		h.ServeHTTP(c.w, c.r)
		return nil
	}
}
