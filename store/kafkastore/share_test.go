package kafkastore

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
)

type places = map[partition]offset

func TestAShareBeginsWhereTheGroupCommittedAndElseAtTheOldest(t *testing.T) {
	s := newShare()
	s.take([]partition{0, 1})
	got := s.begin(places{0: 7, 1: -2}, places{0: 1, 1: 3})
	if want := (places{0: 7, 1: 3}); !maps.Equal(got, want) || !maps.Equal(s.places(), want) {
		t.Errorf("begins at %v, stands at %v", got, s.places())
	}
	if got := s.unsaved(); !maps.Equal(got, places{1: 3}) {
		t.Errorf("not committed yet: %v", got)
	}
}

func TestOnlyWhatMovedIsCommitted(t *testing.T) {
	s := newShare()
	s.take([]partition{0, 1})
	s.begin(places{0: 7, 1: 3}, places{})
	s.move(1, 5)
	s.move(2, 9) // not of this share
	if got := s.unsaved(); !maps.Equal(got, places{1: 5}) {
		t.Fatalf("to commit: %v", got)
	}
	s.save(places{1: 5})
	if got := s.unsaved(); len(got) != 0 {
		t.Errorf("committed already: %v", got)
	}
}

func TestAPartitionThatWasGivenAwayIsNotCommitted(t *testing.T) {
	s := newShare()
	s.take([]partition{0, 1})
	s.begin(places{0: 0, 1: 0}, places{})
	s.move(0, 4)
	s.move(1, 4)
	s.give([]partition{0})
	s.move(0, 5)
	if got := s.unsaved(); !maps.Equal(got, places{1: 4}) {
		t.Errorf("to commit: %v", got)
	}
}

func TestWhatWentToAnotherReaderBeforeItsCommitIsNotCalledCommitted(t *testing.T) {
	for _, c := range []struct {
		about string
		do    func(*share)
		want  bool
	}{
		{"nothing was returned", func(s *share) { s.give([]partition{0}) }, false},
		{"it was returned, then given away", func(s *share) { s.move(0, 1); s.give([]partition{0}) }, true},
		{"it was returned, then lost", func(s *share) { s.move(0, 1); s.lose() }, true},
		{"it was given away, then returned", func(s *share) { s.give([]partition{0}); s.move(0, 1) }, true},
		{"it was committed in time", func(s *share) { s.move(0, 1); s.save(s.unsaved()); s.give([]partition{0}) }, false},
		{"it was sought, then given away", func(s *share) { s.seek(places{0: 9}); s.give([]partition{0}) }, true},
		{"it was sought, then lost", func(s *share) { s.seek(places{0: 9}); s.lose() }, false},
		{"another one was given away", func(s *share) { s.move(0, 1); s.give([]partition{1}) }, false},
	} {
		s := newShare()
		s.take([]partition{0, 1})
		s.begin(places{0: -1, 1: -1}, places{})
		c.do(s)
		if got := s.forgo(); got != c.want {
			t.Errorf("%s: %t", c.about, got)
		}
		if s.forgo() {
			t.Errorf("%s: said twice", c.about)
		}
	}
}

func TestASeekThatIsNotCommittedOutlivesALostSession(t *testing.T) {
	s := newShare()
	s.take([]partition{0})
	s.begin(places{0: 50}, places{0: 0})
	if got := s.seek(places{0: 10, 1: 10}); !maps.Equal(got, places{0: 10}) {
		t.Fatalf("sought %v", got)
	}
	s.lose()
	if got := s.unsaved(); len(got) != 0 {
		t.Errorf("a reader without a share commits %v", got)
	}
	s.take([]partition{0})
	if got := s.begin(places{0: 50}, places{0: 0}); !maps.Equal(got, places{0: 10}) {
		t.Errorf("after the loss it begins at %v", got)
	}
	s.save(s.unsaved())
	s.lose()
	s.take([]partition{0})
	if got := s.begin(places{0: 20}, places{0: 0}); !maps.Equal(got, places{0: 20}) {
		t.Errorf("a seek that was committed comes again: %v", got)
	}
}

func TestAShareIsAwaitedUntilEveryPlaceIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShare()
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
		s.take([]partition{0, 1})
		waits("no place is known")
		s.begin(places{0: 1}, places{})
		waits("one place is known")
		s.begin(places{1: 1}, places{})
		if err := <-done; err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := newShare().await(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestLagCountsWhatIsKeptAndNotBeforeThePlace(t *testing.T) {
	got := waiting(places{0: 5, 1: 2, 2: 9, 3: 4}, places{0: 0, 1: 6, 2: 0, 3: 0}, places{0: 8, 1: 10, 2: 7, 3: 4, 4: 100})
	if got != 3+4 {
		t.Errorf("%d are waiting", got)
	}
}
