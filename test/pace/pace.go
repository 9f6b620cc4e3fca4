// Package pace tells a test how long it may take: shorter under the race detector
// and in the short form (`make quick`), longer in the long form (`make soak`).
//
// `make test` runs the packages that contain a file race_test.go a second time
// under the race detector. A package whose code or tests start goroutines gets one.
package pace

import (
	"os"
	"testing"
)

// Heavy skips a test that computes for long, in the short form and under the race
// detector, where it would take minutes and run the same goroutines as others.
func Heavy(t testing.TB, why string) {
	t.Helper()
	Slow(t, why)
	if Race {
		t.Skipf("too slow under the race detector: %s", why)
	}
}

// Slow skips a test that takes seconds, in the short form only.
func Slow(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("not in the short form: %s", why)
	}
}

// Least returns how often a random test must have tried a thing. In the short form,
// in which rapid runs a fifth of its checks, it asks for nothing.
func Least(n int) int {
	if testing.Short() {
		return 0
	}
	return n
}

// Long reports whether tests take their long forms: minutes instead of seconds.
func Long() bool { return os.Getenv("MAYFLY_LONG") != "" }
