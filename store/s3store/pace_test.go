package s3store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/mayflyhq/mayfly"
)

func TestEachPrefixHasItsOwnBucket(t *testing.T) {
	seen := map[int]bool{}
	for n := range mayfly.Prefixes {
		p := prefixOf(mayfly.BlobKey(fmt.Sprintf("%02d/upload/0-0", n)))
		if p != n || seen[p] {
			t.Errorf("prefix %d has bucket %d", n, p)
		}
		seen[p] = true
	}
	for _, key := range []mayfly.BlobKey{"", "0", "00", "20/x/0-0", "99/x", "ab/x", "erased/x", "000/x"} {
		if prefixOf(key) != mayfly.Prefixes {
			t.Errorf("%q has bucket %d", key, prefixOf(key))
		}
	}
}

func TestOnePrefixIsPacedAndTheOthersAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t, Options{Writes: 100, Reads: 100})
		fine := func() error { return nil }
		begun := time.Now()
		for range burst + 200 {
			if err := s.try(t.Context(), s.writes("00/x"), fine); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("200 writes beyond the burst took %v at 100 a second", took)
		}
		begun = time.Now()
		for _, cost := range [][]share{s.writes("01/x"), s.reads("00/x")} {
			if err := s.try(t.Context(), cost, fine); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("another prefix, and reads, waited %v", took)
		}
	})
}

func TestABulkDeleteIsPaidByThePrefixesOfItsKeys(t *testing.T) {
	s := alone(t, Options{})
	var keys []mayfly.BlobKey
	for n := range 50 {
		keys = append(keys, mayfly.BlobKey(fmt.Sprintf("%02d/x/%d-0", n%5, n)))
	}
	shares := s.writes(keys...)
	if len(shares) != 5 {
		t.Fatalf("%d prefixes pay, want 5", len(shares))
	}
	for _, x := range shares {
		if x.n != 10 {
			t.Errorf("a prefix pays %d, want 10", x.n)
		}
	}
}

func TestASlowDownHalvesTheRateAndSuccessesBringItBack(t *testing.T) {
	now := rate.Limit(3500)
	for range 3 {
		now = paced(now, 3500, true)
	}
	if now != 3500/8. {
		t.Errorf("after three the rate is %v", now)
	}
	for range 100 {
		now = paced(now, 3500, true)
	}
	if now != 35 {
		t.Errorf("the rate falls to %v, want a hundredth", now)
	}
	for range 100 {
		now = paced(now, 3500, false)
	}
	if now != 3500 {
		t.Errorf("a hundred successes bring it to %v", now)
	}
}

func TestARequestThatCannotWaitLongEnoughFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(1)
		if err := b.take(t.Context(), burst); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		err := b.take(ctx, 100)
		if took := time.Since(begun); took != 0 || !errors.Is(err, mayfly.Unavailable) {
			t.Errorf("after %v: %v", took, err)
		}
	})
}
