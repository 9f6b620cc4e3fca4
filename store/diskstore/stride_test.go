//go:build !race

package diskstore

// stride is which part of all crashes and faults is tried: every one.
const stride = 1
