package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
)

// leaseTracker decides whether a node holds a lease, from the messages that the
// node received. It does no I/O and takes the time as an argument. One goroutine
// updates it; any goroutine may call lease.
type leaseTracker struct {
	lasts time.Duration // how long the holder counts on a lease
	known bool          // at is valid for this connection
	at    position      // every message up to here was received
	grant atomic.Pointer[grant]
}

// grant is a lease that was granted.
type grant struct {
	epoch uint64
	until time.Duration // elapsed time; 0 when it was lost
}

// newLeaseTracker returns a tracker without a lease. The holder counts a tenth less
// than the lease, so that it ends before a publisher with a slightly faster clock
// stops waiting for it.
func newLeaseTracker(lease time.Duration) *leaseTracker {
	lt := &leaseTracker{lasts: lease - lease/10}
	lt.grant.Store(&grant{})
	return lt
}

// lease returns the epoch and whether the lease is held at now.
func (lt *leaseTracker) lease(now time.Duration) (epoch uint64, held bool) {
	g := lt.grant.Load()
	return g.epoch, now < g.until
}

// lose ends the lease. The next one has a new epoch.
func (lt *leaseTracker) lose() {
	lt.known = false
	lt.grant.Store(&grant{epoch: lt.grant.Load().epoch})
}

// signal records that the signal at a position was received. A gap before it ends
// the lease.
func (lt *leaseTracker) signal(at position) {
	if !lt.known || at.generation != lt.at.generation || at.seq != lt.at.seq+1 {
		lt.lose()
	}
	lt.known, lt.at = true, at
}

// beat records a heartbeat that came back. If no member is silent (complete), it
// grants a lease that counts from when the heartbeat was sent. The epoch stays the
// same if every signal up to the heartbeat was received and the lease had not
// expired.
func (lt *leaseTracker) beat(at position, complete bool, sent, now time.Duration) {
	if !lt.known || at != lt.at {
		lt.lose()
	}
	lt.known, lt.at = true, at
	until := sent + lt.lasts
	old := lt.grant.Load()
	if !complete || now >= until || until <= old.until {
		return
	}
	epoch := old.epoch
	if now >= old.until {
		epoch++
	}
	lt.grant.Store(&grant{epoch: epoch, until: until})
}

// sendBeat starts a new generation if a publication of this node failed, then
// sends a heartbeat. The listener receives it back with the lease.
func (s *Signals) sendBeat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Lease)
	defer cancel()
	err := s.resetGeneration(ctx)
	if err == nil {
		err = s.enter(ctx)
	}
	s.unreachable.Store(err != nil)
	return err
}

// resetGeneration starts a new generation if a publication of this node failed: it
// ends every epoch in which the signal may have been missed.
func (s *Signals) resetGeneration(ctx context.Context) error {
	failed := s.failedPublishes.Load()
	if failed == s.resetUpTo.Load() {
		return nil
	}
	if _, err := s.connection.run(ctx, s.scripts.reset, s.members, rand.Text()); err != nil {
		return fmt.Errorf("start a new generation: %w", err)
	}
	s.resetUpTo.Store(failed)
	return nil
}

// enter writes this node with its heartbeat to the member list.
func (s *Signals) enter(ctx context.Context) error {
	// Until the script has returned, it may write at any moment.
	s.silentFrom.Store(int64(s.now() + s.o.Lease))
	defer func() { s.silentFrom.Store(int64(s.now())) }()
	answer, err := s.connection.run(ctx, s.scripts.beat, s.members, rand.Text(), string(s.node), strconv.FormatUint(s.nextBeat(), 10),
		milliseconds(s.o.Lease), milliseconds(s.o.Forget), s.ownChannel())
	if errors.Is(err, errNotConnected) {
		return err
	}
	if err != nil {
		return fmt.Errorf("beat: %w", err)
	}
	current, err := answer.ToString()
	if err != nil {
		return fmt.Errorf("beat: %w", err)
	}
	s.noteGeneration(generation(current))
	return nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func (s *Signals) nextBeat() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beat++
	b := sentBeat{number: s.beat, at: s.now()}
	s.beats[b.number%keptBeats] = b
	return b.number
}

// sentAt returns when a heartbeat was sent, if it is one of the last keptBeats.
func (s *Signals) sentAt(number uint64) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.beats[number%keptBeats]
	return b.at, b.number == number
}

// noteGeneration records the current generation and returns when this node first
// saw it.
func (s *Signals) noteGeneration(g generation) (since time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.generation != g {
		s.generation, s.generationSince = g, s.now()
	}
	return s.generationSince
}
