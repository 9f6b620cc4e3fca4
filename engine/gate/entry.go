package gate

import (
	"context"
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

// judge calls Judge with the relation of every viewer but moderators and the author
// who is served, also where the verdict does not depend on it; of an absent item, and of
// one that has no owner and is refused, that to an owner whom no user is. A cached
// relation only grants: a refusal reads it, so that the time it takes does not tell
// whether the viewer has asked for another item of the same owner before.
func (e *entry) judge(ctx context.Context, ask *asker, viewer mayfly.Viewer, now mayfly.Instant) (Verdict, mayfly.Relation, error) {
	verdict := refused(e.item.ID, now)
	if !e.absent {
		verdict = Judge(e.item, viewer, 0, now)
	}
	if viewer.Moderator() || verdict.shows() && (viewer.Wrote(e.item) || e.item.Owner.IsZero()) {
		return verdict, 0, nil
	}
	owner := e.item.Owner
	if e.absent || owner.IsZero() {
		return verdict, 0, ask.forShow(ctx, mayfly.UserID(e.item.ID))
	}
	if relation, ok := ask.cached(owner); ok {
		if verdict = Judge(e.item, viewer, relation, now); verdict.shows() {
			return verdict, relation, nil
		}
	}
	if err := ask.learn(ctx, true, owner); err != nil {
		return 0, 0, err
	}
	relation := ask.known[owner]
	return Judge(e.item, viewer, relation, now), relation, nil
}

// shown returns the item as the viewer sees it: of a private account, everyone is
// followers, so that no shared cache keeps it.
func shown(item mayfly.Item, relation mayfly.Relation) mayfly.Item {
	if relation.Has(mayfly.Private) && item.Audience == mayfly.Everyone {
		item.Audience = mayfly.Followers
	}
	return item
}

// bornWithin is longer than a birth can take from the minting of its id.
const bornWithin = time.Minute

// readAgain reports whether a cached row that refuses the viewer is read again: the
// row of a young id may be about to appear, and that of an ended one changes
// without a signal.
func readAgain(id mayfly.ID, now mayfly.Instant) bool {
	return now < id.Birth().Add(bornWithin) || id.ExpiredAt(now)
}
