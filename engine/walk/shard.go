package walk

import (
	"context"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Shard is one shard as this process sees it. One lease covers all its walks. A shard
// alone takes the lease itself; a shard of a Roll is held when the roll grants it.
type Shard struct {
	number  mayfly.Shard
	origin  mayfly.Instant
	granted bool          // on a roll
	asking  chan struct{} // held while the lease is requested; a channel, so that ctx can end the wait
	lease   *Lease

	mu     sync.Mutex
	held   bool
	until  mayfly.Instant // of a roll: until when the grant is valid
	tenure uint64
	busy   int
	marks  map[string]mayfly.Instant // watermarks that walks of this process have saved in this tenure
}

// NewShard returns a shard alone: the first process that calls Hold takes the lease.
// No item can be due before origin.
func NewShard(rows store.Rows, number mayfly.Shard, holder string, lasts time.Duration, origin mayfly.Instant) *Shard {
	return &Shard{number: number, origin: origin, asking: make(chan struct{}, 1), lease: NewLease(rows, number, holder, lasts)}
}

// Number returns the shard's number.
func (s *Shard) Number() mayfly.Shard { return s.number }

// Hold reports whether the shard is held; a shard alone takes or keeps the lease. The
// tenure changes whenever the shard was lost in between.
func (s *Shard) Hold(ctx context.Context, now mayfly.Instant) (tenure uint64, held bool, err error) {
	if s.granted {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.tenure, s.held && now < s.until, nil
	}
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return 0, false, ctx.Err()
	}
	held, err = s.lease.Hold(ctx, now)
	return s.grant(held, s.lease.Until()), held, err
}

// grant sets whether the shard is held.
func (s *Shard) grant(held bool, until mayfly.Instant) (tenure uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held && !s.held {
		s.tenure++
		s.marks = nil
	}
	s.held, s.until = held, until
	return s.tenure
}

// Lapsed reports whether a grant has run out without being taken back: the roll was
// not renewed in time, for example because the machine was suspended.
func (s *Shard) Lapsed(now mayfly.Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.granted && s.held && now >= s.until
}

// holds reports whether the tenure goes on, as far as this process knows.
func (s *Shard) holds(tenure uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held && s.tenure == tenure
}

// Release gives the shard up at once, so that another process does not have to wait
// for the lease to run out.
func (s *Shard) Release(ctx context.Context) error {
	s.grant(false, 0)
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.lease.Release(ctx)
}

// Enter marks the shard as busy until leave is called: a roll gives a shard away only
// between passes.
func (s *Shard) Enter() (leave func()) {
	s.count(1)
	return func() { s.count(-1) }
}

func (s *Shard) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy += n
}

// Busy reports whether a pass is going on in the shard.
func (s *Shard) Busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy > 0
}

// saved notes where a walk of this tenure has saved its watermark, so that the walks
// behind it do not have to read it each time.
func (s *Shard) saved(tenure uint64, walk string, at mayfly.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tenure != tenure {
		return
	}
	if s.marks == nil {
		s.marks = map[string]mayfly.Instant{}
	}
	s.marks[walk] = at
}

// forget drops what saved noted: another process has moved the watermark.
func (s *Shard) forget(walk string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.marks, walk)
}

func (s *Shard) lastSaved(tenure uint64, walk string) (mayfly.Instant, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.marks[walk]
	return at, ok && s.tenure == tenure
}
