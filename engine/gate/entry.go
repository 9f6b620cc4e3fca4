package gate

import (
	"context"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// A refusal costs the same reads of the store whether the item is hidden, held,
// deleted or never was: its row, and the relation if the viewer is a user. What
// only a permitted viewer needs, the body, is loaded after the verdict. So neither
// the number nor the kind of reads tells whether an item exists, and absent ids are
// cached like others (I18).

// newEntry returns the entry of a row, with the body of an outdated entry if there
// is one: bodies never change.
func newEntry(id mayfly.ID, row store.Found, known *entry, from since) *entry {
	e := &entry{item: row.Item, since: from}
	if !row.Found {
		e.absent, e.item = true, mayfly.Item{ID: id}
		return e
	}
	if e.item.State != mayfly.Deleted {
		e.body, e.hasBody = known.knownBody()
	}
	return e
}

// with returns e with its body.
func (e *entry) with(body mayfly.Body) *entry {
	whole := *e
	whole.body, whole.hasBody = body, true
	return &whole
}

// judge calls Judge. It looks up the relation of every user but moderators and the
// author who is served, also where the verdict does not depend on it; of an absent
// item, that to an owner whom no user is.
func (e *entry) judge(ctx context.Context, relations Relations, viewer mayfly.Viewer, now mayfly.Instant) (Verdict, error) {
	verdict := refused(e.item.ID, now)
	if !e.absent {
		verdict = Judge(e.item, viewer, 0, now)
	}
	if viewer.User().IsZero() || viewer.Moderator() || verdict.shows() && viewer.Wrote(e.item) {
		return verdict, nil
	}
	owner := e.item.Owner
	if e.absent {
		owner = mayfly.UserID(e.item.ID)
	}
	relation, err := relations(ctx, owner, viewer.User())
	if err != nil {
		return 0, fmt.Errorf("relations: %w", err)
	}
	if e.absent {
		return verdict, nil
	}
	return Judge(e.item, viewer, relation, now), nil
}

// bornWithin is longer than a birth can take from the minting of its id.
const bornWithin = time.Minute

// readAgain reports whether a cached row that refuses the viewer is read again: the
// row of a young id may be about to appear, and that of an ended one changes
// without a signal.
func readAgain(id mayfly.ID, now mayfly.Instant) bool {
	return now < id.Birth().Add(bornWithin) || id.ExpiredAt(now)
}
