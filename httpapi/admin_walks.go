package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/remind"
	"github.com/mayflyhq/mayfly/wire"
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

// listDeadLetters is GET /v1/dead-letters: shard by shard, in order of id.
func listDeadLetters(c *call) error {
	cursor, limit, err := c.page()
	if err != nil {
		return err
	}
	after, err := letterAt(cursor)
	if err != nil {
		return err
	}
	out := wire.DeadLetters{Letters: []wire.DeadLetter{}}
	var last remind.Dead
	for shard := after.ID.Shard(); shard < mayfly.Shards && len(out.Letters) < limit; shard++ {
		found, err := remind.DeadLetters(c.r.Context(), c.operator.Rows(), shard, after, limit-len(out.Letters))
		if err != nil {
			return err
		}
		for _, d := range found {
			out.Letters = append(out.Letters, wire.DeadLetter{Item: d.ID, Step: d.Step.String(), Reason: reasonOf(d), Attempts: int(d.Tries), Since: d.Since})
			last = d
		}
		after = remind.Dead{}
	}
	if len(out.Letters) == limit {
		out.Next = last.ID.String() + "." + last.Step.String()
	}
	return c.json(http.StatusOK, out)
}

// reasonOf is why a step was to be done, and what its last try met.
func reasonOf(d remind.Dead) string {
	if len(d.History) == 0 {
		return d.Reason
	}
	return d.Reason + ": " + d.History[len(d.History)-1].Reason
}

// letterAt reads the cursor of a page; the zero letter is the beginning.
func letterAt(cursor string) (remind.Dead, error) {
	if cursor == "" {
		return remind.Dead{}, nil
	}
	id, step, _ := strings.Cut(cursor, ".")
	return letterOf(id, step)
}

func letterOf(id, step string) (d remind.Dead, err error) {
	if d.ID, err = mayfly.ParseID(id); err != nil {
		return d, err
	}
	d.Step, err = remind.ParseStep(step)
	return d, err
}

// retryDeadLetter is POST /v1/dead-letters/{item}/{step}/retry.
func retryDeadLetter(c *call) error {
	return c.letter(func(ctx context.Context, d remind.Dead, by, reason string, now mayfly.Instant) error {
		_, err := c.operator.RetryDead(ctx, []remind.Dead{d}, by, reason, now, now)
		return err
	})
}

// dropDeadLetter is DELETE /v1/dead-letters/{item}/{step}.
func dropDeadLetter(c *call) error { return c.letter(c.operator.DropDead) }

func (c *call) letter(do func(ctx context.Context, d remind.Dead, by, reason string, now mayfly.Instant) error) error {
	d, err := letterOf(c.r.PathValue("item"), c.r.PathValue("step"))
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
	if d, err = remind.DeadLetter(c.r.Context(), c.operator.Rows(), d.ID, d.Step); err != nil {
		return err
	}
	if err := do(c.r.Context(), d, c.who.Actor(), reason, now); err != nil {
		return err
	}
	return c.noContent()
}
