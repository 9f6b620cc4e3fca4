//go:build !linux

package clock

// System returns the source of this machine.
func System() Source { return Portable() }
