package story

import (
	"context"
	"fmt"
	"slices"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/store"
)

// Ring returns author's live stories as viewer may see them, oldest first (ST4),
// each with whether the viewer has seen it. The ring of a user of whom viewer may
// see nothing is empty, as if there were no such user.
func (s *Stories) Ring(ctx context.Context, author mayfly.UserID, viewer mayfly.Viewer, now mayfly.Instant) ([]Story, error) {
	live, err := s.live(ctx, author, viewer, now)
	if err != nil {
		return nil, fmt.Errorf("ring: %w", err)
	}
	seen, err := s.seen(ctx, viewer.User(), live)
	if err != nil {
		return nil, fmt.Errorf("ring: %w", err)
	}
	ring := make([]Story, len(live))
	for i, opened := range live {
		if ring[i], err = shown(opened); err != nil {
			return nil, fmt.Errorf("ring: %s: %w", opened.Item.ID, err)
		}
		ring[i].Seen = seen[i]
	}
	return ring, nil
}

// live returns author's stories that serve for viewer at now. The author and
// moderators, who may see the whole owner index, get it by that.
func (s *Stories) live(ctx context.Context, author mayfly.UserID, viewer mayfly.Viewer, now mayfly.Instant) ([]gate.Opened, error) {
	if author.IsZero() {
		return nil, nil
	}
	var opened []gate.Opened
	var err error
	if viewer.Moderator() || viewer.User() == author {
		var ids []mayfly.ID
		if ids, err = s.serving(ctx, author, now); err == nil {
			opened, err = s.o.Gate.OpenAll(ctx, ids, viewer, now)
		}
	} else {
		opened, err = s.o.Gate.Ring(ctx, author, now.Add(-s.o.Longest), viewer, now)
	}
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(opened, func(o gate.Opened) bool {
		return o.Verdict != gate.Serve || o.Item.Owner != author || o.Item.Product != mayfly.Story
	}), nil
}

// seen reports of each story whether user has seen it.
func (s *Stories) seen(ctx context.Context, user mayfly.UserID, live []gate.Opened) ([]bool, error) {
	seen := make([]bool, len(live))
	if user.IsZero() || len(live) == 0 {
		return seen, nil
	}
	keys := make([]store.Key, len(live))
	for i, o := range live {
		keys[i] = SeenKey(user, o.Item.ID)
	}
	rows, err := s.o.Rows.Get(ctx, Seen, keys...)
	if err != nil {
		return nil, fmt.Errorf("what %s has seen: %w", user, err)
	}
	for i, row := range rows {
		seen[i] = row != nil
	}
	return seen, nil
}
