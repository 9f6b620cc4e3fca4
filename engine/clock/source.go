package clock

import (
	"fmt"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
)

// Source is where a clock gets its time from. System is the real one, Portable
// works inside a synctest bubble, and a Manual is driven by hand.
type Source struct {
	// Read reads wall and boot time at one moment, the wall first if one must
	// come first. Safe for concurrent use; every reading of the clock calls it.
	Read func() Moment
	// BootID names the boot that boot times count from. Empty when it cannot be
	// told: then every start counts as one after a reboot.
	BootID string
	// Synchronised says whether the system reports that its clock is in step
	// with a reference.
	Synchronised func() bool
}

// Moment is wall and boot time at one moment.
type Moment struct {
	Wall int64         // Unix nanoseconds, by the system's clock
	Boot time.Duration // since boot; goes on while the machine is suspended, never back
}

// Portable is a source on the standard library alone: boot time does not count
// suspension, no boot is recognised, and nothing is ever synchronised. Inside a
// synctest bubble it follows the bubble's time.
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

// Manual is a machine whose time is moved by hand, for tests and simulations.
// Safe for concurrent use.
type Manual struct {
	mu     sync.Mutex
	wall   int64
	boot   time.Duration
	boots  int
	synced bool
}

// NewManual is a machine that has just booted at an instant.
func NewManual(wall mayfly.Instant) *Manual { return &Manual{wall: nanos(wall), boots: 1} }

// Source is the machine's source until it reboots.
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

// Advance lets time pass, awake or suspended: wall and boot time both count it.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wall, m.boot = m.wall+int64(d), m.boot+d
}

// Step sets the wall forward or back. As in a kernel, the clock is not
// synchronised after it.
func (m *Manual) Step(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wall, m.synced = m.wall+int64(d), false
}

// Synchronise sets what the system reports of its clock.
func (m *Manual) Synchronise(synced bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.synced = synced
}

// Reboot turns the machine off for a while: boot time begins anew.
func (m *Manual) Reboot(off time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wall, m.boot, m.synced = m.wall+int64(off), 0, false
	m.boots++
}
