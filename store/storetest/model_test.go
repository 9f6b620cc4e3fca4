package storetest_test

import (
	"testing"

	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

func openModel(*testing.T) store.Set { return storetest.NewModel().Set() }

// The oracle is held to the suites, so that suites and oracle agree.
func TestModelKeepsTheContracts(t *testing.T) {
	for _, suite := range []func(*testing.T, string, storetest.Open){
		storetest.Writer, storetest.Ledger, storetest.Rows, storetest.Log, storetest.Lease,
	} {
		suite(t, "model", openModel)
	}
}

// The oracle beside itself: what Random compares holds for two of its kind.
func TestRandomOperationsAgreeOnTheModel(t *testing.T) {
	storetest.Random(t, "model", openModel, storetest.Options{Checks: 30})
}
