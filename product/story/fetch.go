package story

import (
	"context"
	"errors"

	"github.com/mayflyhq/mayfly"
)

// fetch takes in the media of a reservation that were put by presigned URLs: each
// goes the way of one that is sent to Put, through the cleaning into its place
// (L11). What has not been put is left for others to miss. After an error what
// was put is still there, and what was taken in stays so: a retry goes on there.
func (s *Stories) fetch(ctx context.Context, c checked, upload mayfly.ID, now func() mayfly.Instant) error {
	row, _, err := s.readReserved(ctx, c.author, upload, now())
	if err != nil {
		return err
	}
	looked := false
	for n, at := range row.slots {
		if at.state == slotFilled {
			continue
		}
		if !looked { // before anything is read
			if err := s.mayAdd(ctx, c.author, c.key, now()); err != nil {
				return err
			}
			looked = true
		}
		err := s.fetchMedium(ctx, c.author, upload, n, now())
		if errors.Is(err, mayfly.Conflict) {
			err = s.rival(ctx, c.author, upload, n, now(), err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Stories) fetchMedium(ctx context.Context, author mayfly.UserID, upload mayfly.ID, n int, now mayfly.Instant) error {
	r, err := s.o.Intake.OpenRaw(ctx, upload, n, s.largest())
	if errors.Is(err, mayfly.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = s.Put(ctx, author, upload, n, r, now)
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	ctx, cancel := afterAll(ctx)
	defer cancel()
	_ = s.o.Intake.DropRaw(ctx, upload, n) // the orphan collector does it otherwise (L12)
	return nil
}

// rival looks what became of a medium that could not be taken in: another try to
// publish the same upload may have done it, or be at it.
func (s *Stories) rival(ctx context.Context, author mayfly.UserID, upload mayfly.ID, n int, now mayfly.Instant, conflict error) error {
	row, _, err := s.readReserved(ctx, author, upload, now)
	if err != nil {
		return err
	}
	switch at := row.slots[n]; {
	case at.state == slotFilled:
		return nil
	case at.state == slotFilling && now.Sub(at.at) < fillWithin:
		return mayfly.Errorf(mayfly.Unavailable, "medium %d of upload %s is being taken in", n, upload).WithHint("publish again in a moment")
	default:
		return conflict
	}
}
