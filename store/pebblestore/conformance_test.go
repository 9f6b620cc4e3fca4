package pebblestore_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/pebblestore"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/tables"
)

// openers open the store in memory, with a small memtable so that the cases meet
// flushes and compactions, and on disk.
func openers() map[string]storetest.Open {
	return map[string]storetest.Open{
		"pebblestore/memory": func(t *testing.T) store.Set {
			return open(t, pebblestore.Options{Tables: append(tables.All(), storetest.Own()...), FS: vfs.NewMem(), Dir: "db", MemtableBytes: 64 << 10, CacheBytes: 1 << 20})
		},
		"pebblestore/disk": func(t *testing.T) store.Set {
			return open(t, pebblestore.Options{Tables: append(tables.All(), storetest.Own()...), FS: vfs.Default, Dir: t.TempDir()})
		},
	}
}

func open(t *testing.T, opts pebblestore.Options) store.Set {
	t.Helper()
	s, err := pebblestore.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return store.Set{Writer: s.Writer(), Ledger: s.Ledger(), Rows: s.Rows(), Log: s.Log(), Fuse: s.Fuse()}
}

func TestPebblestorePassesTheConformanceSuites(t *testing.T) {
	for driver, opener := range openers() {
		t.Run(driver, func(t *testing.T) {
			t.Run("writer", func(t *testing.T) { storetest.Writer(t, driver, opener) })
			t.Run("ledger", func(t *testing.T) { storetest.Ledger(t, driver, opener) })
			t.Run("rows", func(t *testing.T) { storetest.Rows(t, driver, opener) })
			t.Run("log", func(t *testing.T) { storetest.Log(t, driver, opener) })
			t.Run("lease", func(t *testing.T) { storetest.Lease(t, driver, opener) })
		})
	}
}

func TestPebblestoreAnswersLikeTheModel(t *testing.T) {
	for driver, opener := range openers() {
		t.Run(driver, func(t *testing.T) { storetest.Random(t, driver, opener) })
	}
}
