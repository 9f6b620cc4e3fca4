package story

import (
	"context"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
)

// Delete ends the author's own story for good, in whatever state it is (ST5):
// when it returns nil no route shows it any more, and a reminder has its bytes
// erased soon. Deleted once more, as long as its tombstone stands, it is deleted.
// Anybody else gets the gate's refusal. Errors: the gate's, Unavailable, Unknown.
func (s *Stories) Delete(ctx context.Context, id mayfly.ID, author mayfly.UserID, now mayfly.Instant) error {
	_, refused := s.openOwn(ctx, id, author, now)
	if errors.Is(refused, mayfly.NotFound) || errors.Is(refused, mayfly.Gone) {
		was, err := s.wasDeleted(ctx, id, author)
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

// wasDeleted says whether id is a story of author's that is deleted, by its
// tombstone: so whoever asks again is told the same whether its bytes are erased
// already or not. Of one that is held its author is told nothing (L16).
func (s *Stories) wasDeleted(ctx context.Context, id mayfly.ID, author mayfly.UserID) (bool, error) {
	if author.IsZero() {
		return false, nil
	}
	left, found, err := s.o.Erase.Tombstone(ctx, id)
	if err != nil {
		return false, fmt.Errorf("delete %s: %w", id, err)
	}
	return found && left.Owner == author && left.Product == mayfly.Story && !left.Held, nil
}
