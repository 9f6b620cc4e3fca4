package story

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/media"
)

// authorLocks let one birth of an author at a time between counting and
// committing, so that the live limit is exact on one node. They are channels, so
// that a context can end the wait.
type authorLocks struct {
	stripes [mayfly.TraceMax + 1]chan struct{}
}

func newAuthorLocks() *authorLocks {
	l := &authorLocks{}
	for i := range l.stripes {
		l.stripes[i] = make(chan struct{}, 1)
	}
	return l
}

// authorWait is how long a birth waits for others of its author: behind a store
// that does not answer they would queue for ever (I17).
const authorWait = 5 * time.Second

func (l *authorLocks) lock(ctx context.Context, author mayfly.UserID) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, authorWait)
	defer cancel()
	stripe := l.stripes[author.Trace()]
	select {
	case stripe <- struct{}{}:
		return func() { <-stripe }, nil
	case <-ctx.Done():
		return nil, mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("wait for the author's other stories: %w", ctx.Err()), "try again")
	}
}

// Preflight says whether an author could publish now, and by which rules.
type Preflight struct {
	MayPublish bool
	Reason     string // why not
	Live       int
	LiveLimit  int
	NextAt     mayfly.Instant // when the first of the live ones ends; 0 without
	Lifetimes  []mayfly.Lifetime
	MaxMedia   int
	Limits     media.Limits
	Types      []string
}

// Preflight is what Publish would say to author at now, as far as it can be
// known without a draft.
func (s *Stories) Preflight(ctx context.Context, author mayfly.UserID, now mayfly.Instant) (Preflight, error) {
	live, err := s.live(ctx, author, mayfly.ViewerOf(author), now)
	if err != nil {
		return Preflight{}, fmt.Errorf("preflight: %w", err)
	}
	p := Preflight{
		MayPublish: len(live) < s.o.Live, Live: len(live), LiveLimit: s.o.Live,
		Lifetimes: s.o.Lifetimes, MaxMedia: s.o.MaxMedia, Limits: s.o.Media, Types: media.Types(),
	}
	for _, o := range live {
		if end := o.Item.End(); p.NextAt == 0 || end < p.NextAt {
			p.NextAt = end
		}
	}
	if !p.MayPublish {
		p.Reason = s.limitReached(p.NextAt).Err.Error()
	}
	return p, nil
}

func (s *Stories) limitReached(next mayfly.Instant) *mayfly.Error {
	hint := "delete one, or wait until one ends"
	if next != 0 {
		hint = fmt.Sprintf("delete one, or wait until %s, when the next one ends", next)
	}
	return mayfly.Errorf(mayfly.Conflict, "%d stories are live, which is the limit", s.o.Live).WithHint(hint)
}

// mayAdd refuses an author who has as many live stories as they may. A request
// whose key stands for a story that is there already adds none.
func (s *Stories) mayAdd(ctx context.Context, author mayfly.UserID, key string, now mayfly.Instant) error {
	ids, err := s.serving(ctx, author, now)
	if err != nil || len(ids) < s.o.Live { // what is not in the index does not live
		return err
	}
	p, err := s.Preflight(ctx, author, now)
	if err != nil || p.MayPublish {
		return err
	}
	id, known, err := s.o.Intake.Known(ctx, author, key, now)
	if err != nil {
		return err
	}
	if known {
		_, err := s.openOwn(ctx, id, author, now)
		if !errors.Is(err, mayfly.NotFound) && !errors.Is(err, mayfly.Gone) {
			return err
		}
	}
	return s.limitReached(p.NextAt)
}
