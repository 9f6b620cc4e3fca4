package diskstore_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskstore"
	"github.com/mayflyhq/mayfly/store/storetest"
)

func TestDriverKeepsItsContractInMemoryAndOnDisk(t *testing.T) {
	for name, open := range map[string]storetest.Open{
		"diskstore in memory": func(t *testing.T) store.Set {
			fs := vfs.NewMem()
			return store.Set{Hot: openTier(t, fs, "hot"), Cold: openTier(t, fs, "cold")}
		},
		"diskstore": func(t *testing.T) store.Set {
			dir := t.TempDir()
			return store.Set{Hot: openTier(t, vfs.Default, dir+"/hot"), Cold: openTier(t, vfs.Default, dir+"/cold")}
		},
	} {
		t.Run(name, func(t *testing.T) { storetest.Blobs(t, name, open) })
	}
}

func openTier(t *testing.T, fs vfs.FS, dir string) *diskstore.Store {
	t.Helper()
	s, err := diskstore.Open(diskstore.Options{FS: fs, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
