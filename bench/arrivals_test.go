package bench

import (
	"testing"
	"time"
)

func TestArrivalsCountTheWaitBehindASlowAnswer(t *testing.T) {
	a := arrivals{perSecond: 1_000, askers: 1, seed: 3}
	const stall = 100 * time.Millisecond
	h, err := a.run(t.Context(), 0, 300*time.Millisecond, func(_, n int) error {
		if n == 50 {
			time.Sleep(stall)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// About a hundred questions fell due during the stall. One that measured from
	// the moment of asking would have seen a single slow answer.
	slow := 0
	for _, bar := range h.Distribution() {
		if bar.From > int64(stall/10) {
			slow += int(bar.Count)
		}
	}
	if slow < 50 {
		t.Fatalf("%d of %d waited", slow, h.TotalCount())
	}
}

func TestArrivalsFollowTheirSeed(t *testing.T) {
	count := func(seed uint64) int64 {
		a := arrivals{perSecond: 2_000, askers: 3, seed: seed}
		h, err := a.run(t.Context(), 10*time.Millisecond, 100*time.Millisecond, func(int, int) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return h.TotalCount()
	}
	first := count(1)
	if again := count(1); again != first {
		t.Errorf("%d, then %d", first, again)
	}
	if first < 100 || first > 300 {
		t.Errorf("%d questions in 100 ms at 2,000 a second", first)
	}
}

func TestAlarmWaitsUntilItsInstant(t *testing.T) {
	a, err := newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	for _, wait := range []time.Duration{-time.Second, 0, 300 * time.Microsecond, 20 * time.Millisecond} {
		at := time.Now().Add(wait)
		if err := a.until(at); err != nil {
			t.Fatal(err)
		}
		if early := time.Until(at); early > 0 {
			t.Errorf("%s: early by %s", wait, early)
		}
	}
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
}

func TestMedian(t *testing.T) {
	if got := median([]float64{5, 1, 3}); got != 3 {
		t.Error(got)
	}
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Error(got)
	}
}
