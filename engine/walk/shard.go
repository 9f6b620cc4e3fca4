package walk

import (
	"context"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Shard is one shard as this process sees it: one lease, which covers all its
// walks. It is held by asking for it or, on a roll, by what the roll grants.
type Shard struct {
	number  mayfly.Shard
	origin  mayfly.Instant
	granted bool          // on a roll
	asking  chan struct{} // held while the lease is asked for; a channel, so that ctx can end the wait
	lease   *store.Lease

	mu     sync.Mutex
	held   bool
	until  mayfly.Instant // on a roll: up to when the grant is good
	tenure uint64
	busy   int
	marks  map[string]mayfly.Instant // watermarks that walks of this process have saved in this tenure
}

// NewShard is shard number for holder, alone: whoever asks first takes the lease.
// Before origin no item can be due.
func NewShard(rows store.Rows, number mayfly.Shard, holder string, lasts time.Duration, origin mayfly.Instant) *Shard {
	return &Shard{number: number, origin: origin, asking: make(chan struct{}, 1), lease: store.NewLease(rows, number, holder, lasts)}
}

// Number is the shard's number.
func (s *Shard) Number() mayfly.Shard { return s.number }

// Hold says whether the shard is held; alone it takes or keeps the lease. The
// tenure changes whenever it was lost in between.
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

// grant says from now on whether the shard is held.
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

// Lapsed says whether a grant has run out that nobody took back: time went on
// faster than the roll was looked at, as it does while a machine is suspended.
func (s *Shard) Lapsed(now mayfly.Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.granted && s.held && now >= s.until
}

// holds says whether the tenure has not ended, as far as is known here.
func (s *Shard) holds(tenure uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held && s.tenure == tenure
}

// Release gives the shard up at once, so that another process need not wait for
// the lease to run out.
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

// Enter says that something passes over the shard until leave is called: a roll
// gives the shard away only between passes.
func (s *Shard) Enter() (leave func()) {
	s.count(1)
	return func() { s.count(-1) }
}

func (s *Shard) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy += n
}

// Busy says whether something passes over the shard.
func (s *Shard) Busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy > 0
}

// saved notes where a walk of this tenure has saved its watermark: the walks
// behind it need not read it each time.
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

// forget is for a watermark that somebody else has moved.
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
