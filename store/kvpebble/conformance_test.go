package kvpebble_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/kvpebble"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// openers open the store in memory, with a small memtable so that the cases meet
// flushes and compactions, and on disk with both settings of Sync.
func openers() map[string]storetest.Open {
	return map[string]storetest.Open{
		"kvpebble/memory": func(t *testing.T) store.Set {
			return open(t, kvpebble.Options{FS: vfs.NewMem(), Dir: "kv", MemtableBytes: 64 << 10, CacheBytes: 1 << 20})
		},
		"kvpebble/disk": func(t *testing.T) store.Set { return open(t, kvpebble.Options{FS: vfs.Default, Dir: t.TempDir()}) },
		"kvpebble/everysec": func(t *testing.T) store.Set {
			return open(t, kvpebble.Options{FS: vfs.Default, Dir: t.TempDir(), Sync: kvpebble.EverySec})
		},
	}
}

func open(t *testing.T, opts kvpebble.Options) store.Set {
	t.Helper()
	s, err := kvpebble.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return store.Set{KV: s, Fuse: s.Fuse()}
}

func TestKVPebblePassesTheConformanceSuite(t *testing.T) {
	for driver, opener := range openers() {
		t.Run(driver, func(t *testing.T) { storetest.KV(t, driver, opener) })
	}
}

func TestKVPebbleAnswersLikeTheModel(t *testing.T) {
	opts := kvpebble.Options{FS: vfs.NewMem(), Dir: "kv", MemtableBytes: 64 << 10, CacheBytes: 1 << 20}
	var s *kvpebble.Store
	start := func() store.Set {
		var err error
		if s, err = kvpebble.Open(opts); err != nil {
			t.Fatal(err)
		}
		return store.Set{KV: s}
	}
	stop := func() {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	defer func() { stop() }()
	storetest.RandomKV(t, "kvpebble", func(*testing.T) store.Set { return start() }, func(store.Set) store.Set {
		stop()
		return start()
	})
}
