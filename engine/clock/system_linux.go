package clock

import (
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// System is the source of this machine.
func System() Source {
	s := &system{start: time.Now()}
	return Source{Read: s.read, BootID: bootID(), Synchronised: synchronised}
}

// system reads boot time at the price of time.Now. CLOCK_BOOTTIME itself is a
// system call from Go, several times as dear as the two clocks that time.Now
// reads through the vDSO. Boot time is monotonic time plus the time suspended,
// and a suspension moves the wall against monotonic time, as nothing else does
// but a step: so boot time is asked for when the two have moved apart, and every
// tenth of a second in case a step has cancelled a suspension out.
type system struct {
	start time.Time
	known atomic.Pointer[known]
}

type known struct {
	skew      int64         // wall − monotonic
	suspended time.Duration // boot − monotonic
	until     time.Duration // monotonic time at which to ask again
}

const (
	askAgain = 100 * time.Millisecond
	sameSkew = int64(500 * time.Microsecond)
)

func (s *system) read() Moment {
	now := time.Now()
	wall, mono := now.UnixNano(), now.Sub(s.start)
	k := s.known.Load()
	if k == nil || mono >= k.until || apart(wall-int64(mono), k.skew) > sameSkew {
		k = s.ask(k)
	}
	return Moment{Wall: wall, Boot: mono + k.suspended}
}

// ask asks the kernel for boot time, between two readings of monotonic time: a
// sample that was torn by the scheduler is taken again.
func (s *system) ask(old *known) *known {
	var boot unix.Timespec
	var now time.Time
	for range 5 {
		before := time.Now()
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
			panic("clock: CLOCK_BOOTTIME: " + err.Error()) // Linux has had it since 2.6.39
		}
		if now = time.Now(); now.Sub(before) < 100*time.Microsecond {
			break
		}
	}
	mono := now.Sub(s.start)
	k := &known{skew: now.UnixNano() - int64(mono), suspended: time.Duration(boot.Nano()) - mono, until: mono + askAgain}
	if old != nil && k.suspended < old.suspended+time.Millisecond {
		k.suspended = old.suspended // no suspension since: keep boot time smooth
	}
	s.known.Store(k)
	return k
}

func apart(a, b int64) int64 { return max(a-b, b-a) }

// bootID is the kernel's name for this boot, with the time namespace: in another
// one boot time counts from elsewhere.
func bootID() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	id := strings.TrimSpace(string(boot))
	if namespace, err := os.Readlink("/proc/self/ns/time"); err == nil {
		id += " " + namespace
	}
	return id
}

// synchronised asks the kernel. Setting the clock clears the state, so that a
// step is not confirmed by what was reported before it.
func synchronised() bool {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	return err == nil && state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0
}
