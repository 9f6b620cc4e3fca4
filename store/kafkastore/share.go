package kafkastore

import (
	"context"
	"maps"
	"sync"
)

// partition is a part of a topic, offset a place in it.
type (
	partition = int32
	offset    = int64
)

// share is what a reader has of its topic: the partitions that the group gave it,
// and where it stands in each. The group changes it from other goroutines.
type share struct {
	mu       sync.Mutex
	joined   bool
	owned    map[partition]bool
	at       map[partition]offset // the next to be returned, where it is known already
	saved    map[partition]offset // what the group has committed
	sought   map[partition]offset // where a seek went that is not committed yet
	returned map[partition]bool   // where Next has returned something since
	forgone  bool                 // something that was returned or sought can no longer be committed
	changed  chan struct{}        // closed at the next change
}

func newShare() *share {
	return &share{
		owned: map[partition]bool{}, at: map[partition]offset{}, saved: map[partition]offset{}, sought: map[partition]offset{},
		returned: map[partition]bool{}, changed: make(chan struct{}),
	}
}

func (s *share) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// take adds what the group gives. Where to begin comes by begin.
func (s *share) take(list []partition) {
	s.change(func() {
		s.joined = true
		for _, p := range list {
			s.owned[p] = true
		}
	})
}

// begin is where to begin in partitions that were just taken, given what the group
// committed there and the oldest that is kept. A seek that was not committed is not
// forgotten when the group shares out anew, or a replay would end unnoticed.
func (s *share) begin(committed, oldest map[partition]offset) map[partition]offset {
	places := map[partition]offset{}
	s.change(func() {
		for p, at := range committed {
			places[p] = at
			delete(s.saved, p)
			if at >= 0 {
				s.saved[p] = at
			} else {
				places[p] = oldest[p]
			}
			if to, ok := s.sought[p]; ok {
				places[p] = to
			}
			if s.owned[p] {
				s.at[p] = places[p]
			}
		}
	})
	return places
}

// give takes out what another reader of the group has now, or will have.
func (s *share) give(list []partition) {
	s.change(func() {
		for _, p := range list {
			_, sought := s.sought[p]
			s.forgone = s.forgone || sought || s.returned[p]
			delete(s.owned, p)
			delete(s.at, p)
			delete(s.saved, p)
			delete(s.sought, p)
			delete(s.returned, p)
		}
	})
}

// lose takes everything out: the group has given the reader up. It will join again.
func (s *share) lose() {
	s.change(func() {
		s.joined, s.forgone = false, s.forgone || len(s.returned) > 0
		clear(s.owned)
		clear(s.at)
		clear(s.saved)
		clear(s.returned)
	})
}

func (s *share) owns(p partition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owned[p]
}

// move says that Next returned everything before to.
func (s *share) move(p partition, to offset) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.owned[p] {
		s.forgone = true
		return
	}
	s.at[p], s.returned[p] = to, true
}

// seek moves to places, as far as they are of this share, and returns those.
func (s *share) seek(places map[partition]offset) map[partition]offset {
	mine := map[partition]offset{}
	s.change(func() {
		for p, to := range places {
			if s.owned[p] {
				mine[p], s.at[p], s.sought[p] = to, to, to
				delete(s.returned, p)
			}
		}
	})
	return mine
}

// places are where the reader stands.
func (s *share) places() map[partition]offset {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.at)
}

// unsaved are the places that the group has not committed yet.
func (s *share) unsaved() map[partition]offset {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := map[partition]offset{}
	for p, at := range s.at {
		if was, ok := s.saved[p]; !ok || was != at {
			list[p] = at
		}
	}
	return list
}

// save says that the group has committed places.
func (s *share) save(places map[partition]offset) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, at := range places {
		delete(s.sought, p)
		delete(s.returned, p)
		if s.owned[p] {
			s.saved[p] = at
		}
	}
}

// forgo says whether something that was returned since it was asked last went to
// another reader before it was committed.
func (s *share) forgo() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.forgone
	s.forgone = false
	return was
}

// await waits until the group has given a share, and where to begin is known for
// all of it.
func (s *share) await(ctx context.Context) error {
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
