package story

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/store"
)

// userLocks let one birth of an author at a time between counting and committing, so
// that the live limit is exact on one node, and in the same way one view of a viewer.
// They are channels, so that a context can end the wait.
type userLocks struct {
	stripes [mayfly.TraceMax + 1]userLock
}

type userLock struct {
	held chan struct{}
	used atomic.Uint64 // how often the lock was released
}

func newUserLocks() *userLocks {
	l := &userLocks{}
	for i := range l.stripes {
		l.stripes[i].held = make(chan struct{}, 1)
	}
	return l
}

// uses counts how often the user's lock was held.
func (l *userLocks) uses(user mayfly.UserID) uint64 { return l.stripes[user.Trace()].used.Load() }

// lockWait is how long a birth or a view waits for others of its user: behind a
// store that does not respond they would queue for ever (I17).
const lockWait = 5 * time.Second

func (l *userLocks) lock(ctx context.Context, user mayfly.UserID) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	stripe := &l.stripes[user.Trace()]
	select {
	case stripe.held <- struct{}{}:
		return func() {
			stripe.used.Add(1)
			<-stripe.held
		}, nil
	case <-ctx.Done():
		return nil, mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("wait for other requests of the user: %w", ctx.Err()), "try again")
	}
}

// Preflight reports whether an author could publish now, and by which rules.
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

// Preflight returns whether Publish would accept a story of author's at now, as
// far as that can be known without a draft.
func (s *Stories) Preflight(ctx context.Context, author mayfly.UserID, now mayfly.Instant) (Preflight, error) {
	live, err := s.live(ctx, author, mayfly.ViewerOf(author), now)
	if err != nil {
		return Preflight{}, fmt.Errorf("preflight: %w", err)
	}
	p := Preflight{
		MayPublish: len(live) < s.o.Live, Live: len(live), LiveLimit: s.o.Live,
		Lifetimes: s.o.Lifetimes, MaxMedia: s.o.Uploads.MaxMedia(), Limits: s.o.Uploads.Limits(), Types: media.Taken(),
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

// mayAdd refuses an author who has reached the live limit. A request whose key
// stands for a story that exists already adds none.
func (s *Stories) mayAdd(ctx context.Context, author mayfly.UserID, key string, now mayfly.Instant) error {
	most, err := s.mayServe(ctx, author, now)
	if err != nil || most < s.o.Live { // a story that is not in the index is not live
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

// storyOf returns the id that an entry of the owner index names, if it is a story's.
func storyOf(row store.Row) (mayfly.ID, bool, error) {
	if len(row.Clustering) != len(mayfly.ID{}) || len(row.Value) != 1 {
		return mayfly.ID{}, false, mayfly.Errorf(mayfly.Corrupt, "an entry of the owner index cannot be read: %x", row.Clustering)
	}
	return mayfly.ID([]byte(row.Clustering)), mayfly.Product(row.Value[0]) == mayfly.Story, nil
}
