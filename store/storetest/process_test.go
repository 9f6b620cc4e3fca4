package storetest

import "testing"

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
