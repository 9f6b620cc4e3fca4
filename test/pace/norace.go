//go:build !race

package pace

// Race is whether the race detector is on.
const Race = false
