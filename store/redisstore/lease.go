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

// hearing decides about the lease of a node from what its ear hears: pure
// values, told the time. One goroutine tells it, any may ask for the lease.
type hearing struct {
	lasts time.Duration // a lease, for its holder
	known bool          // at is a place that this connection has heard of
	at    place         // up to which everything was heard
	grant atomic.Pointer[grant]
}

// grant is a lease that was given.
type grant struct {
	epoch uint64
	until time.Duration // elapsed time; 0 when it was lost
}

// newHearing hears nothing yet. A holder counts a tenth less than a lease, so
// that clocks which do not run alike cannot make it outlast those who wait for
// its end.
func newHearing(lease time.Duration) *hearing {
	h := &hearing{lasts: lease - lease/10}
	h.grant.Store(&grant{})
	return h
}

// lease is the lease at now.
func (h *hearing) lease(now time.Duration) (epoch uint64, held bool) {
	g := h.grant.Load()
	return g.epoch, now < g.until
}

// lose loses the lease; the next one is another epoch.
func (h *hearing) lose() {
	h.known = false
	h.grant.Store(&grant{epoch: h.grant.Load().epoch})
}

// signal notes that the signal at that place was heard. A gap before it costs
// the lease.
func (h *hearing) signal(at place) {
	if !h.known || at.life != h.at.life || at.seq != h.at.seq+1 {
		h.lose()
	}
	h.known, h.at = true, at
}

// beat gives a lease that counts from when the beat was sent, unless the roll
// is not whole. If everything up to the beat's place was heard and the lease has
// not run out, it is the same epoch.
func (h *hearing) beat(at place, whole bool, sent, now time.Duration) {
	if !h.known || at != h.at {
		h.lose()
	}
	h.known, h.at = true, at
	until := sent + h.lasts
	old := h.grant.Load()
	if !whole || now >= until || until <= old.until {
		return
	}
	epoch := old.epoch
	if now >= old.until {
		epoch++
	}
	h.grant.Store(&grant{epoch: epoch, until: until})
}

// sendBeat pays what the node owes, enters it on the roll and asks for its lease,
// which comes to the ear.
func (s *Signals) sendBeat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Lease)
	defer cancel()
	err := s.pay(ctx)
	if err == nil {
		err = s.enter(ctx)
	}
	s.away.Store(err != nil)
	return err
}

// pay ends the life of the server's memory if a signal of this node was lost: no
// epoch in which it may have been missed goes on.
func (s *Signals) pay(ctx context.Context) error {
	debts := s.debts.Load()
	if debts == s.paid.Load() {
		return nil
	}
	if _, err := s.door.run(ctx, s.scripts.pay, s.roll, rand.Text()); err != nil {
		return fmt.Errorf("pay: %w", err)
	}
	s.paid.Store(debts)
	return nil
}

func (s *Signals) enter(ctx context.Context) error {
	// Until it is answered or given up, it may be entering us any moment.
	s.spoke.Store(int64(s.now() + s.o.Lease))
	defer func() { s.spoke.Store(int64(s.now())) }()
	answer, err := s.door.run(ctx, s.scripts.beat, s.roll, rand.Text(), string(s.node), strconv.FormatUint(s.nextBeat(), 10),
		milliseconds(s.o.Lease), milliseconds(s.o.Forget), s.ownChannel())
	if errors.Is(err, errNotConnected) {
		return err
	}
	if err != nil {
		return fmt.Errorf("beat: %w", err)
	}
	met, err := answer.ToString()
	if err != nil {
		return fmt.Errorf("beat: %w", err)
	}
	s.meet(life(met))
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

// sentAt is when a beat was sent, unless that is long ago.
func (s *Signals) sentAt(number uint64) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.beats[number%keptBeats]
	return b.at, b.number == number
}

// meet notes that the server's memory is in that life, and answers since when
// this node knows.
func (s *Signals) meet(l life) (since time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life != l {
		s.life, s.metAt = l, s.now()
	}
	return s.metAt
}
