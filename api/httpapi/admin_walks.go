package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

// backlog is the lag from which a walk has one.
const backlog = time.Minute

// listWalks is GET /v1/walks.
func listWalks(c *call) error {
	out := wire.Walks{Walks: []wire.Walk{}}
	for _, p := range c.operator.Progress("") {
		out.Walks = append(out.Walks, wire.Walk{
			Name: p.Walk, Shard: int(p.Shard), Watermark: p.Watermark, LagMS: p.Lag.Milliseconds(),
			Backlog: p.Lag >= backlog, ETASecs: max(0, p.ETA.Seconds()),
		})
	}
	return c.json(http.StatusOK, out)
}

// listDeadLetters is GET /v1/dead-letters.
func listDeadLetters(c *call) error {
	cursor, limit, err := c.page()
	if err != nil {
		return err
	}
	q := c.r.URL.Query()
	var item mayfly.ID
	if text := q.Get("item"); text != "" {
		if item, err = mayfly.ParseID(text); err != nil {
			return err
		}
	}
	letters, err := c.operator.Desk().DeadLetters(c.r.Context(), item, q.Get("step"), cursor, limit)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, letters)
}

// retryDeadLetter is POST /v1/dead-letters/{item}/{step}/retry.
func retryDeadLetter(c *call) error { return c.letter(c.operator.Desk().RetryDead) }

// dropDeadLetter is DELETE /v1/dead-letters/{item}/{step}.
func dropDeadLetter(c *call) error { return c.letter(c.operator.Desk().DropDead) }

// letter does something to the dead letter that the path names, with its reason.
func (c *call) letter(do func(ctx context.Context, item mayfly.ID, step, by, reason string, now mayfly.Instant) error) error {
	item, err := mayfly.ParseID(c.r.PathValue("item"))
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
	if err := do(c.r.Context(), item, c.r.PathValue("step"), c.who.Actor(), reason, now); err != nil {
		return err
	}
	return c.noContent()
}
