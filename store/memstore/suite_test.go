package memstore_test

import (
	"testing"

	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/memstore"
	"github.com/mayflyhq/mayfly/store/storetest"
)

func TestDriversKeepTheirContracts(t *testing.T) {
	open := func(*testing.T) store.Set {
		return store.Set{Limits: memstore.NewLimits(0), Signals: memstore.NewSignals()}
	}
	storetest.Limits(t, "memstore", open)
	storetest.Signals(t, "memstore", open)
}
