//go:build servers

package cassandrastore

import (
	"testing"

	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

func TestALeaseIsRenewedWhileEveryPigeonholeIsBusy(t *testing.T) {
	s := openTestStore(t)
	for _, lane := range s.lanes {
		lane <- struct{}{}
	}
	key := store.Key{Partition: "busy", Clustering: births(t, 1, "24h")[0].Item.ID.Short()}
	if swapped, _, err := s.Rows().Swap(t.Context(), walk.Leases, key, nil, []byte("mine"), 0); err != nil || !swapped {
		t.Errorf("swapped %t: %v", swapped, err)
	}
}
