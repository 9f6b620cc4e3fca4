package story

import (
	"context"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
)

// Open is the story for viewer at now. Errors: the gate's Gone and NotFound,
// bare; Corrupt, Unavailable.
func (s *Stories) Open(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, now mayfly.Instant) (Story, error) {
	opened, err := s.open(ctx, id, viewer, now)
	if err != nil {
		return Story{}, err
	}
	return shown(opened)
}

// open asks the gate. What is no story is not here at all.
func (s *Stories) open(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, now mayfly.Instant) (gate.Opened, error) {
	opened, err := s.o.Gate.Open(ctx, id, viewer, now)
	if err != nil {
		return gate.Opened{}, err
	}
	if opened.Item.Product != mayfly.Story {
		return gate.Opened{}, gate.Refusal(id, now)
	}
	return opened, nil
}

// openOwn is open for what only the author may do: anybody else is refused as if
// nothing were there (I18).
func (s *Stories) openOwn(ctx context.Context, id mayfly.ID, author mayfly.UserID, now mayfly.Instant) (gate.Opened, error) {
	opened, err := s.open(ctx, id, mayfly.ViewerOf(author), now)
	if err != nil {
		return gate.Opened{}, err
	}
	if author.IsZero() || opened.Item.Owner != author {
		return gate.Opened{}, gate.Refusal(id, now)
	}
	return opened, nil
}
