package diskfs_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly/store/diskfs"
)

// busyFS takes a while for every write.
type busyFS struct{ vfs.FS }

type busyFile struct{ vfs.File }

func (b busyFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := b.FS.Create(name, c)
	return busyFile{f}, err
}

func (b busyFile) Write(p []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return b.File.Write(p)
}

func TestFlushesAndCompactionsRestUnlessThereIsAHurry(t *testing.T) {
	for _, tc := range []struct {
		name     string
		category vfs.DiskWriteCategory
		hurry    bool
		rests    bool
	}{
		{"a compaction", "pebble-compaction", false, true},
		{"a flush", "pebble-memtable-flush", false, true},
		{"a compaction in a hurry", "pebble-compaction", true, false},
		{"the write-ahead log", "pebble-wal", false, false},
		{"anything else", vfs.WriteCategoryUnspecified, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := diskfs.Paced(busyFS{vfs.NewMem()}, 0.25, func() bool { return tc.hurry })
				f, err := fs.Create("x", tc.category)
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				const writes = 16
				for range writes {
					if n, err := f.Write(make([]byte, 32<<10)); n != 32<<10 || err != nil {
						t.Fatal(n, err)
					}
				}
				took, want := time.Since(start), writes*time.Millisecond
				if tc.rests {
					want *= 4 // a quarter of the time is work
				}
				if took != want {
					t.Errorf("%s, want %s", took, want)
				}
				if info, err := f.Stat(); err != nil || info.Size() != writes*32<<10 {
					t.Errorf("%v, %v", info, err)
				}
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// A machine that stood still during a write owes no long rest for it.
func TestARestIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := diskfs.Paced(vfs.NewMem(), 0.01, func() bool { return false })
		f, err := fs.Create("x", "pebble-compaction")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		start := time.Now()
		if _, err := f.Write(make([]byte, 64<<10)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 20*time.Millisecond {
			t.Errorf("rested for %s", took)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
