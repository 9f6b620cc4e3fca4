//go:build !linux

package clock

// System is the source of this machine.
func System() Source { return Portable() }
