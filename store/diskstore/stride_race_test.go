//go:build race

package diskstore

// stride is which part of all crashes and faults is tried: the race detector is
// slow, and looks for something else.
const stride = 7
