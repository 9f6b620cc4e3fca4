package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"
)

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
