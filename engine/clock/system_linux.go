package clock

import (
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// System returns the source of this machine.
func System() Source {
	s := &system{start: time.Now()}
	return Source{Read: s.read, BootID: bootID(), Synchronised: synchronised}
}

// system reads boot time at the cost of time.Now. Reading CLOCK_BOOTTIME is a
// system call in Go and costs several times as much as the two clocks that time.Now
// reads through the vDSO. Boot time is monotonic time plus the time suspended. A
// suspension changes the difference between wall clock and monotonic time, and so
// does only a step. So the kernel is asked for boot time when that difference has
// changed, and every tenth of a second in case a step has hidden a suspension.
type system struct {
	start time.Time
	known atomic.Pointer[known]
}

// known is what the kernel returned last.
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

// ask asks the kernel for boot time between two readings of monotonic time, and
// again if the scheduler interrupted it.
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

// bootID returns the kernel's id of this boot and the time namespace: each
// namespace has its own zero of boot time.
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

// synchronised asks the kernel whether its clock is synchronised. Setting the clock
// clears that state, so a report from before a step does not confirm the step.
func synchronised() bool {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	return err == nil && state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0
}
