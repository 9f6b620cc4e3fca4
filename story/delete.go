package story

import (
	"context"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/gate"
	"github.com/mayflyhq/mayfly/store"
)

// Delete ends the author's own story for good, in whatever state it is (ST5):
// when it returns nil no route shows it any more, and a reminder has its bytes
// erased soon. Deleted once more, as long as it is known, it is deleted. Anybody
// else gets the gate's refusal. Errors: the gate's, Unavailable, Unknown.
func (s *Stories) Delete(ctx context.Context, id mayfly.ID, author mayfly.UserID, now mayfly.Instant) error {
	_, refused := s.openOwn(ctx, id, author, now)
	if errors.Is(refused, mayfly.NotFound) || errors.Is(refused, mayfly.Gone) {
		was, err := s.wasDeleted(ctx, id, author, now)
		if err != nil {
			return err
		}
		if !was {
			return refused
		}
	} else if refused != nil {
		return refused
	}
	_, err := s.o.Erase.Delete(ctx, id, mayfly.ByUser, now)
	if errors.Is(err, mayfly.NotFound) {
		return gate.Refusal(id, now)
	}
	return err
}

// wasDeleted says whether id is a story of author's that is deleted and not yet
// forgotten: the owner index names it, and not even a moderator sees it. One that
// is held a moderator sees, and its author is told nothing (L16).
func (s *Stories) wasDeleted(ctx context.Context, id mayfly.ID, author mayfly.UserID, now mayfly.Instant) (bool, error) {
	if author.IsZero() {
		return false, nil
	}
	found, err := s.o.Rows.Get(ctx, store.Owners, store.OwnerKey(author, id))
	if err != nil {
		return false, fmt.Errorf("delete %s: %w", id, err)
	}
	if len(found[0]) != 1 || mayfly.Sort(found[0][0]) != mayfly.Story {
		return false, nil
	}
	_, err = s.o.Gate.Open(ctx, id, mayfly.ModeratorOf(author), now)
	if errors.Is(err, mayfly.NotFound) || errors.Is(err, mayfly.Gone) {
		return true, nil
	}
	return false, err
}
