//go:build servers

package cassandrastore

import "testing"

// A birth that ends between its body and its row leaves a body that no row leads to.
func TestTheBodyOfABirthThatWasGivenUpIsErased(t *testing.T) {
	s := openTestStore(t)
	b := births(t, 1, "24h")[0]
	id := b.Item.ID
	there := func() bool {
		t.Helper()
		found, err := s.Ledger().Body(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return found[0].Found
	}
	if err := s.bodyTask(b)(t.Context()); err != nil || !there() {
		t.Fatalf("it is not there: %v", err)
	}
	for range 2 {
		if err := s.Ledger().EraseBody(t.Context(), id, id); err != nil || there() {
			t.Fatalf("it is still there: %v", err)
		}
	}
	if err := s.bodyTask(b)(t.Context()); err != nil || there() { // its insert lands late
		t.Fatalf("it is there again: %v", err)
	}
}
