package adminapi

import (
	"net/http"

	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
)

func (h *handlers) heldRoute() httpapi.Route {
	return httpapi.Route{
		Method: "GET", Pattern: "/v1/held", ID: "listHeld", Tag: "support", Scopes: support(), Summary: "List what is held, of every product, the oldest hour first",
		About:  "What support holds, and what waits for a moderator since its birth (`feed.hold`). A moderator reads an item by its own route, and releases it by `DELETE /v1/holds/{id}`.",
		Params: httpapi.Paging(), Answers: httpapi.Answers[wire.Held](http.StatusOK, "A page of held items."), Handle: h.listHeld,
	}
}

// listHeld is GET /v1/held.
func (h *handlers) listHeld(c *httpapi.Call) error {
	cursor, limit, err := c.Page()
	if err != nil {
		return err
	}
	items, next, err := h.operator.Restore().Held(c.Context(), cursor, limit)
	if err != nil {
		return err
	}
	out := wire.Held{Items: make([]wire.HeldItem, len(items)), Next: next}
	for i, item := range items {
		out.Items[i] = wire.HeldItem{ID: item.ID, Product: item.Product.String(), State: item.Shown(c.Now), Since: item.Since, BornAt: item.ID.Birth()}
		if owner := item.Owner; !owner.IsZero() {
			out.Items[i].Author = &owner
		}
	}
	return c.JSON(http.StatusOK, out)
}
