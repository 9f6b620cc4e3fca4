package storetest_test

import (
	"testing"

	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

func openModel(*testing.T) store.Set { return storetest.NewModel().Set() }

func TestTheModelPassesTheConformanceSuites(t *testing.T) {
	for _, suite := range []func(*testing.T, string, storetest.Open){
		storetest.Writer, storetest.Ledger, storetest.Rows, storetest.Log, storetest.Lease,
	} {
		suite(t, "model", openModel)
	}
}

// Two models return the same, so that Random compares only what the contracts promise.
func TestTheModelAnswersLikeTheModel(t *testing.T) {
	storetest.Random(t, "model", openModel)
}

func TestTheKVModelPassesItsConformanceSuite(t *testing.T) {
	storetest.KV(t, "model", func(*testing.T) store.Set { return store.Set{KV: storetest.NewKVModel()} })
}

func TestTheKVModelAnswersLikeTheKVModel(t *testing.T) {
	storetest.RandomKV(t, "model", func(*testing.T) store.Set { return store.Set{KV: storetest.NewKVModel()} }, nil)
}
