package memstore

import (
	"testing"

	"github.com/mayflyhq/mayfly/store"
)

func TestASubscriberThatEndsItselfLosesItsLeaseBeforeItMissesASignal(t *testing.T) {
	signals := NewSignals()
	sub, err := signals.Subscribe(t.Context(), func(store.Signal) {})
	if err != nil {
		t.Fatal(err)
	}
	if epoch, held := sub.Lease(); !held || epoch == 0 {
		t.Errorf("epoch %d, held %t", epoch, held)
	}
	for range 2 { // ending twice is ending once
		if err := sub.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, held := sub.Lease(); held {
		t.Error("the lease of an ended subscription is held")
	}
	if len(signals.subscribers) != 0 {
		t.Error("an ended subscription is remembered")
	}
}
