package clock

import (
	"fmt"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
)

// Source provides the time of a machine. System is the real one, Portable works
// inside a synctest bubble, and Manual is controlled by a test.
type Source struct {
	// Read reads wall and boot time at one moment, the wall clock first if they
	// are read one after the other. It is safe for concurrent use and is called by
	// every reading of the clock.
	Read func() Moment
	// BootID identifies the boot that boot times count from. If it is empty, every
	// start counts as one after a reboot.
	BootID string
	// Synchronised reports whether the system's clock is synchronised with a
	// reference, according to the system.
	Synchronised func() bool
}

// Moment is wall and boot time at one moment.
type Moment struct {
	Wall int64         // Unix nanoseconds of the system's clock
	Boot time.Duration // since boot, including suspension; never goes back
}

// Portable returns a source that uses only the standard library: boot time excludes
// suspension, boots have no id, and the clock is never synchronised. Inside a
// synctest bubble it follows the time of the bubble.
func Portable() Source {
	start := time.Now()
	return Source{
		Read: func() Moment {
			now := time.Now()
			return Moment{Wall: now.UnixNano(), Boot: now.Sub(start)}
		},
		Synchronised: func() bool { return false },
	}
}

// Manual is a machine whose time is set by tests and simulations. It is safe for
// concurrent use.
type Manual struct {
	mu     sync.Mutex
	wall   int64
	boot   time.Duration
	boots  int
	synced bool
}

// NewManual returns a machine that has just booted.
func NewManual(wall mayfly.Instant) *Manual { return &Manual{wall: nanos(wall), boots: 1} }

// Source returns the source of the machine until it reboots.
func (m *Manual) Source() Source {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Source{Read: m.read, BootID: fmt.Sprintf("boot-%d", m.boots), Synchronised: m.synchronised}
}

func (m *Manual) read() Moment {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Moment{Wall: m.wall, Boot: m.boot}
}

func (m *Manual) synchronised() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.synced
}

// Advance lets time pass, running or suspended: it advances wall and boot time.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wall, m.boot = m.wall+int64(d), m.boot+d
}

// Step sets the wall clock forward or back. As in a kernel, the clock is not
// synchronised afterwards.
func (m *Manual) Step(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wall, m.synced = m.wall+int64(d), false
}

// Synchronise sets whether the system reports a synchronised clock.
func (m *Manual) Synchronise(synced bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.synced = synced
}

// Reboot turns the machine off for a while; boot time starts at zero again.
func (m *Manual) Reboot(off time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wall, m.boot, m.synced = m.wall+int64(off), 0, false
	m.boots++
}
