package kafkastore

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
)

type positions = map[partition]offset

func TestAReaderStartsAtTheCommittedOffsetOrAtTheOldestRecord(t *testing.T) {
	s := newAssignment()
	s.assign([]partition{0, 1})
	got := s.start(positions{0: 7, 1: -2}, positions{0: 1, 1: 3})
	if want := (positions{0: 7, 1: 3}); !maps.Equal(got, want) || !maps.Equal(s.positions(), want) {
		t.Errorf("starts at %v, is at %v", got, s.positions())
	}
	if got := s.uncommitted(); !maps.Equal(got, positions{1: 3}) {
		t.Errorf("not committed yet: %v", got)
	}
}

func TestOnlyPositionsThatAdvancedAreCommitted(t *testing.T) {
	s := newAssignment()
	s.assign([]partition{0, 1})
	s.start(positions{0: 7, 1: 3}, positions{})
	s.advance(1, 5)
	s.advance(2, 9) // not assigned
	if got := s.uncommitted(); !maps.Equal(got, positions{1: 5}) {
		t.Fatalf("to commit: %v", got)
	}
	s.markCommitted(positions{1: 5})
	if got := s.uncommitted(); len(got) != 0 {
		t.Errorf("committed already: %v", got)
	}
}

func TestARevokedPartitionIsNotCommitted(t *testing.T) {
	s := newAssignment()
	s.assign([]partition{0, 1})
	s.start(positions{0: 0, 1: 0}, positions{})
	s.advance(0, 4)
	s.advance(1, 4)
	s.revoke([]partition{0})
	s.advance(0, 5)
	if got := s.uncommitted(); !maps.Equal(got, positions{1: 4}) {
		t.Errorf("to commit: %v", got)
	}
}

func TestRecordsLostToAnotherReaderBeforeTheCommitAreReported(t *testing.T) {
	for _, c := range []struct {
		about string
		do    func(*assignment)
		want  bool
	}{
		{"nothing was returned", func(s *assignment) { s.revoke([]partition{0}) }, false},
		{"it was returned, then revoked", func(s *assignment) { s.advance(0, 1); s.revoke([]partition{0}) }, true},
		{"it was returned, then lost", func(s *assignment) { s.advance(0, 1); s.lose() }, true},
		{"it was revoked, then returned", func(s *assignment) { s.revoke([]partition{0}); s.advance(0, 1) }, true},
		{"it was committed in time", func(s *assignment) { s.advance(0, 1); s.markCommitted(s.uncommitted()); s.revoke([]partition{0}) }, false},
		{"a seek, then revoked", func(s *assignment) { s.seek(positions{0: 9}); s.revoke([]partition{0}) }, true},
		{"a seek, then lost", func(s *assignment) { s.seek(positions{0: 9}); s.lose() }, false},
		{"another partition was revoked", func(s *assignment) { s.advance(0, 1); s.revoke([]partition{1}) }, false},
	} {
		s := newAssignment()
		s.assign([]partition{0, 1})
		s.start(positions{0: -1, 1: -1}, positions{})
		c.do(s)
		if got := s.takeLost(); got != c.want {
			t.Errorf("%s: %t", c.about, got)
		}
		if s.takeLost() {
			t.Errorf("%s: reported twice", c.about)
		}
	}
}

func TestAnUncommittedSeekSurvivesALostSession(t *testing.T) {
	s := newAssignment()
	s.assign([]partition{0})
	s.start(positions{0: 50}, positions{0: 0})
	if got := s.seek(positions{0: 10, 1: 10}); !maps.Equal(got, positions{0: 10}) {
		t.Fatalf("sought %v", got)
	}
	s.lose()
	if got := s.uncommitted(); len(got) != 0 {
		t.Errorf("a reader without partitions commits %v", got)
	}
	s.assign([]partition{0})
	if got := s.start(positions{0: 50}, positions{0: 0}); !maps.Equal(got, positions{0: 10}) {
		t.Errorf("after the loss it starts at %v", got)
	}
	s.markCommitted(s.uncommitted())
	s.lose()
	s.assign([]partition{0})
	if got := s.start(positions{0: 20}, positions{0: 0}); !maps.Equal(got, positions{0: 20}) {
		t.Errorf("a committed seek is applied again: %v", got)
	}
}

func TestAwaitReturnsWhenEveryPositionIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAssignment()
		done := make(chan error, 1)
		go func() { done <- s.await(t.Context()) }()
		waits := func(about string) {
			synctest.Wait()
			select {
			case err := <-done:
				t.Fatalf("%s: the wait is over: %v", about, err)
			default:
			}
		}
		waits("not joined")
		s.assign([]partition{0, 1})
		waits("no position is known")
		s.start(positions{0: 1}, positions{})
		waits("one position is known")
		s.start(positions{1: 1}, positions{})
		if err := <-done; err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := newAssignment().await(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestLagCountsRetainedRecordsFromThePosition(t *testing.T) {
	got := waiting(positions{0: 5, 1: 2, 2: 9, 3: 4}, positions{0: 0, 1: 6, 2: 0, 3: 0}, positions{0: 8, 1: 10, 2: 7, 3: 4, 4: 100})
	if got != 3+4 {
		t.Errorf("lag %d", got)
	}
}
