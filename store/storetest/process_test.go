package storetest

import (
	"os"
	"path/filepath"
	"testing"
)

// Two nodes once got the same port, each while the other did not listen yet, and
// answered requests for each other.
func TestNoAddressIsReturnedTwice(t *testing.T) {
	const n = 1000 // random ports would repeat about fifty times
	seen := map[string]bool{}
	for range n {
		if a := Address(t); seen[a] {
			t.Fatalf("%s was returned twice", a)
		} else {
			seen[a] = true
		}
	}
}

// A lock holds between any two openings of a file, in one program as between two.
func TestALockedFileIsNotLockedAgain(t *testing.T) {
	name := filepath.Join(t.TempDir(), "port")
	for _, want := range []bool{true, false} {
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		if got := lock(f); got != want {
			t.Errorf("locked: %t, want %t", got, want)
		}
	}
}
