package storetest

import "testing"

// Two nodes that were given the same port, each while the other was not listening
// yet, once answered for each other.
func TestNoAddressIsGivenTwice(t *testing.T) {
	const n = 1000 // by chance alone, fifty of them would be given twice
	seen := map[string]bool{}
	for range n {
		if a := Address(t); seen[a] {
			t.Fatalf("%s was given twice", a)
		} else {
			seen[a] = true
		}
	}
}
