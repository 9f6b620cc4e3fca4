package redisstore

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

const lease = time.Second

func in(l generation, seq uint64) position { return position{l, seq} }

func wantLease(t testing.TB, lt *leaseTracker, now time.Duration, epoch uint64, held bool) {
	t.Helper()
	if e, ok := lt.lease(now); e != epoch || ok != held {
		t.Errorf("at %v: epoch %d, held %t; want %d, %t", now, e, ok, epoch, held)
	}
}

func TestALeaseCountsFromWhenItsBeatWasSentAndIsATenthShort(t *testing.T) {
	lt := newLeaseTracker(lease)
	wantLease(t, lt, 0, 0, false)
	lt.beat(in("a", 7), true, 100*time.Millisecond, 600*time.Millisecond)
	wantLease(t, lt, 600*time.Millisecond, 1, true)
	wantLease(t, lt, time.Second-1, 1, true)
	wantLease(t, lt, time.Second, 1, false)
}

func TestABeatThatComesBackTooLateGivesNoLease(t *testing.T) {
	lt := newLeaseTracker(lease)
	lt.beat(in("a", 0), true, 0, lease)
	wantLease(t, lt, lease, 0, false)
}

func TestALeaseIsRenewedInItsEpochWhileEverySignalIsReceived(t *testing.T) {
	lt := newLeaseTracker(lease)
	seq := uint64(0)
	for now := time.Duration(0); now < 10*lease; now += lease / 4 {
		lt.beat(in("a", seq), true, now, now)
		seq++
		lt.signal(in("a", seq))
		wantLease(t, lt, now+lease/4, 1, true)
	}
}

func TestALeaseAfterAnExpiredOneHasANewEpoch(t *testing.T) {
	lt := newLeaseTracker(lease)
	lt.beat(in("a", 0), true, 0, 0)
	wantLease(t, lt, lease, 1, false)
	lt.beat(in("a", 0), true, lease, lease)
	wantLease(t, lt, lease, 2, true)
}

func TestAMissedSignalEndsTheEpoch(t *testing.T) {
	for name, miss := range map[string]func(*leaseTracker){
		"a signal that skips one":                        func(lt *leaseTracker) { lt.signal(in("a", 3)) },
		"a signal that comes again":                      func(lt *leaseTracker) { lt.signal(in("a", 1)) },
		"a signal of another generation":                 func(lt *leaseTracker) { lt.signal(in("b", 2)) },
		"a beat after a signal that was not received":    func(lt *leaseTracker) { lt.beat(in("a", 2), false, 0, 0) },
		"a beat of another generation":                   func(lt *leaseTracker) { lt.beat(in("b", 1), false, 0, 0) },
		"a connection that broke":                        func(lt *leaseTracker) { lt.lose() },
		"a beat of a generation with a smaller position": func(lt *leaseTracker) { lt.beat(in("b", 0), false, 0, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			lt := newLeaseTracker(lease)
			lt.beat(in("a", 0), true, 0, 0)
			lt.signal(in("a", 1))
			wantLease(t, lt, 1, 1, true)
			miss(lt)
			wantLease(t, lt, 1, 1, false)
			lt.beat(lt.at, true, 1, 1)
			wantLease(t, lt, 2, 2, true)
		})
	}
}

func TestNoLeaseIsGrantedWhileAMemberIsSilent(t *testing.T) {
	lt := newLeaseTracker(lease)
	lt.beat(in("a", 0), true, 0, 0)
	lt.beat(in("a", 0), false, lease/2, lease/2)
	wantLease(t, lt, lease*9/10-1, 1, true) // a granted lease stays
	wantLease(t, lt, lease*9/10, 1, false)
}

// Signals and heartbeats are lost, late or of another generation at random. While the
// lease is held, every signal sent before the last received heartbeat was received.
func TestAHolderOfALeaseHasMissedNoSignal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lt := newLeaseTracker(lease)
		sent := in("a", 0)
		var received []position // since the epoch began
		var epoch uint64
		missed := false
		for now := time.Duration(0); now < 50*lease/10; now += lease / 10 {
			lost := rapid.IntRange(0, 4).Draw(t, "fate") == 0
			switch rapid.SampledFrom([]string{"signal", "signal", "beat", "beat", "flush", "break"}).Draw(t, "event") {
			case "signal":
				sent.seq++
				if lost {
					missed = true
				} else {
					lt.signal(sent)
					received = append(received, sent)
				}
			case "beat":
				if !lost {
					lt.beat(sent, true, now-time.Duration(rapid.IntRange(0, 12).Draw(t, "late"))*lease/10, now)
					if e, held := lt.lease(now); held && e != epoch {
						epoch, missed, received = e, false, nil
					} else if held && missed {
						t.Fatalf("lease of epoch %d renewed at %v although a signal is missing after %v", e, now, received)
					}
				}
			case "flush":
				sent = position{sent.generation + "'", 0}
				missed = true
			case "break":
				lt.lose()
			}
		}
	})
}
