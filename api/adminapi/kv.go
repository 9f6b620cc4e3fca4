package adminapi

import (
	"net/http"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/product/kv"
)

func (h *handlers) kvRoutes() []httpapi.Route {
	namespace := httpapi.PathParam("namespace", "A namespace of kv.namespaces.", kv.NamePattern)
	routes := []httpapi.Route{
		{
			Method: "GET", Pattern: "/v1/kv", ID: "getKVStatus", Summary: "Show how much the key-value store holds, and what it has to reclaim", Problems: []int{http.StatusUnsupportedMediaType},
			Answers: httpapi.Answers[wire.KVStatus](http.StatusOK, "The status."), Handle: h.kvStatus,
		},
		withReason(httpapi.Route{
			Method: "POST", Pattern: "/v1/kv/{namespace}/credentials", ID: "addKVKey", Summary: "Make a key of a namespace of the configuration", Params: []httpapi.Param{namespace},
			About: "A namespace has at most two keys, so that one can replace the other.", Problems: []int{http.StatusNotFound, http.StatusConflict},
			Answers: httpapi.Answers[wire.KVCredential](http.StatusCreated, "The key, which is shown once."), Handle: h.addKVKey,
		}),
		withReason(httpapi.Route{
			Method: "DELETE", Pattern: "/v1/kv/{namespace}/credentials/{credential}", ID: "removeKVKey", Summary: "Remove a key of a namespace of the configuration by its id",
			Params:   []httpapi.Param{namespace, httpapi.PathParam("credential", "The id of the key.", kv.CredentialPattern)},
			Problems: []int{http.StatusNotFound}, Answers: done(), Handle: h.removeKVKey,
		}),
	}
	for i := range routes {
		routes[i].Tag, routes[i].Scopes = "kv", admin()
	}
	return routes
}

// kvStatus is GET /v1/kv.
func (h *handlers) kvStatus(c *httpapi.Call) error {
	status, err := h.operator.Operations().KVStatus(c.Context())
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, status)
}

// addKVKey is POST /v1/kv/{namespace}/credentials.
func (h *handlers) addKVKey(c *httpapi.Call) error {
	reason, err := readReason(c)
	if err != nil {
		return err
	}
	now, err := confirmedNow(c)
	if err != nil {
		return err
	}
	made, err := h.operator.Operations().AddKVKey(c.Context(), c.Request.PathValue("namespace"), c.Caller.Actor(), reason, now)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, made)
}

// removeKVKey is DELETE /v1/kv/{namespace}/credentials/{credential}.
func (h *handlers) removeKVKey(c *httpapi.Call) error {
	return change(c, func(by audit.Actor, reason string, now mayfly.Instant) error {
		return h.operator.Operations().RemoveKVKey(c.Context(), c.Request.PathValue("namespace"), c.Request.PathValue("credential"), by, reason, now)
	})
}
