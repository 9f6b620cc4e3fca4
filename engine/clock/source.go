package clock

import (
	"time"
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
