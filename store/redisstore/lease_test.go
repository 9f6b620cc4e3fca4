package redisstore

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

const lease = time.Second

func in(l life, seq uint64) place { return place{l, seq} }

func wantLease(t testing.TB, h *hearing, now time.Duration, epoch uint64, held bool) {
	t.Helper()
	if e, ok := h.lease(now); e != epoch || ok != held {
		t.Errorf("at %v: epoch %d, held %t; want %d, %t", now, e, ok, epoch, held)
	}
}

func TestALeaseCountsFromWhenItsBeatWasSentAndIsATenthShort(t *testing.T) {
	h := newHearing(lease)
	wantLease(t, h, 0, 0, false)
	h.beat(in("a", 7), true, 100*time.Millisecond, 600*time.Millisecond)
	wantLease(t, h, 600*time.Millisecond, 1, true)
	wantLease(t, h, time.Second-1, 1, true)
	wantLease(t, h, time.Second, 1, false)
}

func TestABeatThatComesBackTooLateGivesNoLease(t *testing.T) {
	h := newHearing(lease)
	h.beat(in("a", 0), true, 0, lease)
	wantLease(t, h, lease, 0, false)
}

func TestALeaseIsRenewedInItsEpochWhileEverythingIsHeard(t *testing.T) {
	h := newHearing(lease)
	seq := uint64(0)
	for now := time.Duration(0); now < 10*lease; now += lease / 4 {
		h.beat(in("a", seq), true, now, now)
		seq++
		h.signal(in("a", seq))
		wantLease(t, h, now+lease/4, 1, true)
	}
}

func TestALeaseThatRanOutComesBackInAnotherEpoch(t *testing.T) {
	h := newHearing(lease)
	h.beat(in("a", 0), true, 0, 0)
	wantLease(t, h, lease, 1, false)
	h.beat(in("a", 0), true, lease, lease)
	wantLease(t, h, lease, 2, true)
}

func TestWhatIsMissedEndsTheEpoch(t *testing.T) {
	for name, miss := range map[string]func(*hearing){
		"a signal that skips one":               func(h *hearing) { h.signal(in("a", 3)) },
		"a signal that comes again":             func(h *hearing) { h.signal(in("a", 1)) },
		"a signal of another life":              func(h *hearing) { h.signal(in("b", 2)) },
		"a beat that knows of an unheard one":   func(h *hearing) { h.beat(in("a", 2), false, 0, 0) },
		"a beat of another life":                func(h *hearing) { h.beat(in("b", 1), false, 0, 0) },
		"a connection that broke":               func(h *hearing) { h.lose() },
		"a beat of a life with a smaller place": func(h *hearing) { h.beat(in("b", 0), false, 0, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHearing(lease)
			h.beat(in("a", 0), true, 0, 0)
			h.signal(in("a", 1))
			wantLease(t, h, 1, 1, true)
			miss(h)
			wantLease(t, h, 1, 1, false)
			h.beat(h.at, true, 1, 1)
			wantLease(t, h, 2, 2, true)
		})
	}
}

func TestNobodyGetsALeaseWhileTheRollIsNotWhole(t *testing.T) {
	h := newHearing(lease)
	h.beat(in("a", 0), true, 0, 0)
	h.beat(in("a", 0), false, lease/2, lease/2)
	wantLease(t, h, lease*9/10-1, 1, true) // what was given stays
	wantLease(t, h, lease*9/10, 1, false)
}

// However signals and beats are lost, late or of another life: while the lease is
// held, everything told before the last beat that was heard has been heard.
func TestWhoHoldsALeaseHasMissedNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHearing(lease)
		told := in("a", 0)
		var heard []place // since the epoch began
		var epoch uint64
		missed := false
		for now := time.Duration(0); now < 50*lease/10; now += lease / 10 {
			lost := rapid.IntRange(0, 4).Draw(t, "fate") == 0
			switch rapid.SampledFrom([]string{"signal", "signal", "beat", "beat", "flush", "break"}).Draw(t, "event") {
			case "signal":
				told.seq++
				if lost {
					missed = true
				} else {
					h.signal(told)
					heard = append(heard, told)
				}
			case "beat":
				if !lost {
					h.beat(told, true, now-time.Duration(rapid.IntRange(0, 12).Draw(t, "late"))*lease/10, now)
					if e, held := h.lease(now); held && e != epoch {
						epoch, missed, heard = e, false, nil
					} else if held && missed {
						t.Fatalf("a lease of epoch %d was renewed at %v, and a signal is missing after %v", e, now, heard)
					}
				}
			case "flush":
				told = place{told.life + "'", 0}
				missed = true
			case "break":
				h.lose()
			}
		}
	})
}
