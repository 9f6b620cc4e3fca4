package story

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/intake"
)

// publishReserved makes a story of a reserved upload. Its objects become one
// story's (L11): the reservation is bound to one idempotency key first, and a key
// stands for one birth. Published again it answers the same story.
func (s *Stories) publishReserved(ctx context.Context, c checked, id mayfly.ID, now func() mayfly.Instant) (Story, error) {
	if err := s.fetch(ctx, c, id, now); err != nil { // before the lock: media take a while
		return Story{}, fmt.Errorf("publish: %w", err)
	}
	unlock, err := s.authors.lock(ctx, c.author)
	if err != nil {
		return Story{}, fmt.Errorf("publish: %w", err)
	}
	defer unlock()
	at := now()
	if err := s.mayAdd(ctx, c.author, c.key, at); err != nil {
		return Story{}, fmt.Errorf("publish: %w", err)
	}
	_, known, err := s.o.Intake.Known(ctx, c.author, c.key, at)
	if err != nil {
		return Story{}, fmt.Errorf("publish: %w", err)
	}
	upload, err := s.bind(ctx, c.author, id, sha256.Sum256([]byte(c.key)), known, at)
	if err != nil {
		return Story{}, err
	}
	story, err := s.birth(ctx, c, upload, at)
	if err != nil {
		return Story{}, err
	}
	if err := s.changeReserved(ctx, c.author, id, at, func(row *reserved) error {
		row.published = true
		return nil
	}); err != nil {
		return Story{}, fmt.Errorf("publish: %w", err) // asked again it is answered
	}
	return story, nil
}

// bind binds the reservation to a key, whose hash is given and which is known or
// not, and answers its upload.
func (s *Stories) bind(ctx context.Context, author mayfly.UserID, id mayfly.ID, key [32]byte, known bool, now mayfly.Instant) (*intake.Upload, error) {
	var stored []mayfly.Medium
	err := s.changeReserved(ctx, author, id, now, func(row *reserved) error {
		stored = nil
		for n, at := range row.slots {
			if at.state != slotFilled {
				return mayfly.Errorf(mayfly.Conflict, "medium %d of upload %s has not arrived", n, id).WithHint("put it, then publish")
			}
			stored = append(stored, at.medium)
		}
		switch {
		case row.claimedAt == 0:
			row.claimed, row.claimedAt = key, now
		case row.claimed != key:
			return mayfly.Errorf(mayfly.Conflict, "upload %s is published with another idempotency key", id).
				WithHint("repeat it with the same key, or reserve another upload")
		case !known && (row.published || now.Sub(row.claimedAt) >= fillWithin):
			// The key may have been forgotten: a birth under it now could be a second one.
			return mayfly.Errorf(mayfly.Conflict, "upload %s is published, or may have been", id).WithHint("reserve another upload")
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	return s.o.Intake.Resume(author, id, stored)
}
