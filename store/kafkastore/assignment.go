package kafkastore

import (
	"context"
	"maps"
	"sync"
)

// partition is the number of a partition, offset a position in it.
type (
	partition = int32
	offset    = int64
)

// assignment holds the partitions that the group assigned to a reader, and the
// reader's position in each. The client changes it from other goroutines.
type assignment struct {
	mu              sync.Mutex
	joined          bool
	owned           map[partition]bool
	at              map[partition]offset // next offset to return; missing while it is unknown
	committed       map[partition]offset // committed by the group
	sought          map[partition]offset // targets of seeks that are not committed yet
	returned        map[partition]bool   // partitions with records returned since the last commit
	lostUncommitted bool                 // a returned record or a seek can no longer be committed
	changed         chan struct{}        // closed at the next change
}

func newAssignment() *assignment {
	return &assignment{
		owned: map[partition]bool{}, at: map[partition]offset{}, committed: map[partition]offset{}, sought: map[partition]offset{},
		returned: map[partition]bool{}, changed: make(chan struct{}),
	}
}

func (s *assignment) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// assign adds partitions. Their positions are set by start.
func (s *assignment) assign(list []partition) {
	s.change(func() {
		s.joined = true
		for _, p := range list {
			s.owned[p] = true
		}
	})
}

// start sets and returns the positions of newly assigned partitions, given the offsets
// that the group committed and the oldest retained ones. The target of a seek that is
// not committed survives a rebalance; otherwise a replay would end unnoticed.
func (s *assignment) start(committed, oldest map[partition]offset) map[partition]offset {
	positions := map[partition]offset{}
	s.change(func() {
		for p, at := range committed {
			positions[p] = at
			delete(s.committed, p)
			if at >= 0 {
				s.committed[p] = at
			} else {
				positions[p] = oldest[p]
			}
			if to, ok := s.sought[p]; ok {
				positions[p] = to
			}
			if s.owned[p] {
				s.at[p] = positions[p]
			}
		}
	})
	return positions
}

// revoke removes partitions that move to another reader of the group.
func (s *assignment) revoke(list []partition) {
	s.change(func() {
		for _, p := range list {
			_, sought := s.sought[p]
			s.lostUncommitted = s.lostUncommitted || sought || s.returned[p]
			delete(s.owned, p)
			delete(s.at, p)
			delete(s.committed, p)
			delete(s.sought, p)
			delete(s.returned, p)
		}
	})
}

// lose removes all partitions: the group has expelled the reader, which joins again.
func (s *assignment) lose() {
	s.change(func() {
		s.joined, s.lostUncommitted = false, s.lostUncommitted || len(s.returned) > 0
		clear(s.owned)
		clear(s.at)
		clear(s.committed)
		clear(s.returned)
	})
}

func (s *assignment) owns(p partition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owned[p]
}

// advance records that Next returned everything before to.
func (s *assignment) advance(p partition, to offset) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.owned[p] {
		s.lostUncommitted = true
		return
	}
	s.at[p], s.returned[p] = to, true
}

// seek moves to those positions whose partitions are assigned, and returns them.
func (s *assignment) seek(positions map[partition]offset) map[partition]offset {
	mine := map[partition]offset{}
	s.change(func() {
		for p, to := range positions {
			if s.owned[p] {
				mine[p], s.at[p], s.sought[p] = to, to, to
				delete(s.returned, p)
			}
		}
	})
	return mine
}

// positions returns the reader's position in each partition.
func (s *assignment) positions() map[partition]offset {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.at)
}

// uncommitted returns the positions that the group has not committed yet.
func (s *assignment) uncommitted() map[partition]offset {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := map[partition]offset{}
	for p, at := range s.at {
		if was, ok := s.committed[p]; !ok || was != at {
			list[p] = at
		}
	}
	return list
}

// markCommitted records that the group has committed the positions.
func (s *assignment) markCommitted(positions map[partition]offset) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, at := range positions {
		delete(s.sought, p)
		delete(s.returned, p)
		if s.owned[p] {
			s.committed[p] = at
		}
	}
}

// takeLost reports whether, since its last call, a returned record or a seek was lost
// to another reader before it was committed.
func (s *assignment) takeLost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.lostUncommitted
	s.lostUncommitted = false
	return was
}

// await waits until the reader has joined and knows its position in every assigned
// partition.
func (s *assignment) await(ctx context.Context) error {
	for {
		s.mu.Lock()
		ready, changed := s.joined && len(s.at) == len(s.owned), s.changed
		s.mu.Unlock()
		if ready {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
