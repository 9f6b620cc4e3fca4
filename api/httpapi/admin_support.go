package httpapi

import (
	"net/http"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

// explain is GET /v1/explain/{id}.
func explain(c *call) error {
	id, err := c.item()
	if err != nil {
		return err
	}
	q := c.r.URL.Query()
	viewer, err := c.viewerNamed(q.Get("viewer"))
	if err != nil {
		return err
	}
	at := c.now
	if text := q.Get("at"); text != "" {
		if err := at.UnmarshalText([]byte(text)); err != nil {
			return err
		}
	}
	e, err := c.operator.Explain(c.r.Context(), id, viewer, at)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, e)
}

func (c *call) viewerNamed(text string) (mayfly.Viewer, error) {
	switch text {
	case "", "anonymous":
		return mayfly.Viewer{}, nil
	case "moderator":
		return mayfly.ModeratorOf(mayfly.UserID{}), nil
	}
	user, err := c.accounts.UserNamed(text)
	if err != nil {
		return mayfly.Viewer{}, err
	}
	return mayfly.ViewerOf(user), nil
}

// hold is PUT /v1/holds/{id}.
func hold(c *call) error { return c.deed(c.operator.Restore().Hold) }

// release is DELETE /v1/holds/{id}.
func release(c *call) error { return c.deed(c.operator.Restore().Release) }

// restoreItem is POST /v1/restores.
func restoreItem(c *call) error {
	var in wire.RestoreRequest
	if err := c.read(&in); err != nil {
		return err
	}
	if in.Reason == "" || len(in.Reason) > 1000 {
		return mayfly.Errorf(mayfly.Invalid, "a restore without a reason").WithHint("say in reason why, in at most 1,000 bytes: it is written down")
	}
	now, err := c.deedAt()
	if err != nil {
		return err
	}
	restored, err := c.operator.Desk().Restore(c.r.Context(), in, c.who.Actor(), nil, now)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, restored)
}

// eraseAccount is DELETE /v1/users/{user}.
func eraseAccount(c *call) error {
	user, err := c.accounts.UserNamed(c.r.PathValue("user"))
	if err != nil {
		return err
	}
	reason, err := c.reason()
	if err != nil {
		return err
	}
	now, err := c.deedAt()
	if err != nil {
		return err
	}
	receipt, err := c.operator.Erase().Account(c.r.Context(), user, c.who.Actor(), reason, now)
	if err != nil {
		return err
	}
	out := wire.Receipt{
		User: receipt.User, Done: receipt.Finished != 0, Held: len(receipt.Held) + receipt.HeldMore,
		Counts: map[string]int64{"items": int64(receipt.Items), "objects": int64(receipt.Objects)},
	}
	for table, n := range receipt.Rows {
		out.Counts[table] = int64(n)
	}
	return c.json(http.StatusOK, out)
}
