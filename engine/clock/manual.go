package clock

import (
	"fmt"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
)

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
