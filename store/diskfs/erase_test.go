package diskfs_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskfs"
	"github.com/mayflyhq/mayfly/test/residue"
)

func TestEraseDeletedReachesEveryLevelOfADatabase(t *testing.T) {
	const seed, keys, mark = 9, 8000, "Secret#"
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, seed))
	mem := vfs.NewMem()
	guard := diskfs.Guard(mem, store.NewFuse())
	opts := &pebble.Options{FS: guard, Logger: quiet{}, MemTableSize: 64 << 10, LBaseMaxBytes: 64 << 10, FlushSplitBytes: 16 << 10, FormatMajorVersion: pebble.FormatTableFormatV6}
	opts.TargetFileSizes[0] = 16 << 10
	opts.L0CompactionThreshold, opts.L0StopWritesThreshold = 4, 1000
	db, err := pebble.Open("db", opts)
	if err != nil {
		t.Fatal(err)
	}
	key := func(n int) []byte { return fmt.Appendf(nil, "%08d", n) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	text := func(n int) []byte {
		b := fmt.Appendf(nil, "%s%08d", mark, n)
		for range 100 {
			b = append(b, byte(rng.Uint32()))
		}
		return b
	}
	for _, n := range rng.Perm(keys) {
		must(db.Set(key(n), text(n), pebble.NoSync))
	}
	gone := map[string]bool{}
	for n := 0; n < keys; n += 7 { // so that deletions are above what they delete
		gone[fmt.Sprintf("%s%08d", mark, n)] = true
		switch n % 3 {
		case 0:
			must(db.Delete(key(n), pebble.NoSync))
		case 1:
			must(db.Set(key(n), []byte("overwritten"), pebble.NoSync))
		default:
			must(db.DeleteRange(key(n), key(n+1), pebble.NoSync))
		}
	}
	levels := func() (used int) {
		all, err := db.SSTables()
		must(err)
		for _, level := range all {
			if len(level) > 0 {
				used++
			}
		}
		return used
	}
	must(db.Flush())
	if n := levels(); n < 3 {
		t.Fatalf("tables in %d levels show little", n)
	}
	must(guard.EraseDeleted(t.Context(), db, "db"))
	if n := levels(); n != 1 {
		t.Errorf("tables are in %d levels", n)
	}
	iter, err := db.NewIter(nil)
	must(err)
	kept := 0
	for ok := iter.First(); ok; ok = iter.Next() {
		kept++
	}
	must(iter.Close())
	must(db.Close())
	found, err := residue.In(mem, "db", mark, len(mark)+8)
	must(err)
	texts := map[string]bool{}
	for _, f := range found.Found {
		if texts[f.Pattern] = true; gone[f.Pattern] {
			t.Errorf("%s is still in %s", f.Pattern, f.File)
		}
	}
	if want := keys - len(gone); len(texts) < want || kept < want {
		t.Errorf("%d texts and %d keys are left, want at least %d", len(texts), kept, want)
	}
	db, err = pebble.Open("db", opts)
	must(err)
	must(db.Close())
}

// Pebble moves a table that overlaps no other down to the last level as it is, with
// its tombstones, and the keys of what was deleted are in them.
func TestEraseDeletedErasesKeysOfANewDatabase(t *testing.T) {
	const keys, mark = 300, "Secret#"
	mem := vfs.NewMem()
	guard := diskfs.Guard(mem, store.NewFuse())
	db, err := pebble.Open("db", &pebble.Options{FS: guard, Logger: quiet{}, FormatMajorVersion: pebble.FormatTableFormatV6})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	key := func(n int) []byte { return fmt.Appendf(nil, "%s%08d", mark, n) }
	gone := map[string]bool{}
	for n := range keys {
		must(db.Set(key(n), []byte("value"), pebble.NoSync))
	}
	for n := 15; n < keys; n += 30 { // so few that Pebble does not rewrite the table for their sake
		must(db.Delete(key(n), pebble.NoSync))
		gone[string(key(n))] = true
	}
	must(guard.EraseDeleted(t.Context(), db, "db"))
	for n := range keys {
		_, closer, err := db.Get(key(n))
		if gone[string(key(n))] != (err != nil) {
			t.Errorf("key %d: %v", n, err)
		}
		if err == nil {
			must(closer.Close())
		}
	}
	must(db.Close())
	found, err := residue.In(mem, "db", mark, len(mark)+8)
	must(err)
	texts := map[string]bool{}
	for _, f := range found.Found {
		if texts[f.Pattern] = true; gone[f.Pattern] {
			t.Errorf("%s is still in %s", f.Pattern, f.File)
		}
	}
	if want := keys - len(gone); len(texts) < want {
		t.Errorf("%d keys are found, want at least %d", len(texts), want)
	}
}

func TestBlankMakesARangeZeroAndLeavesTheRest(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"memory": vfs.NewMem(), "disk": root(t, t.TempDir())} {
		t.Run(name, func(t *testing.T) {
			f, err := fs.Create("file", "")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			data := make([]byte, 300_000)
			for i := range data {
				data[i] = 1
			}
			if _, err := f.Write(slices.Clone(data)); err != nil { // the file in memory may scribble over what it was given
				t.Fatal(err)
			}
			for _, r := range [][2]int64{{1, 1}, {100, 50}, {4096, 8192}, {20_001, 100_003}, {150_000, 0}, {299_999, 1}} {
				if err := diskfs.Blank(f, r[0], r[1]); err != nil {
					t.Fatal(err)
				}
				clear(data[r[0] : r[0]+r[1]])
			}
			got := make([]byte, len(data)+1)
			n, _ := f.ReadAt(got, 0)
			if string(got[:n]) != string(data) {
				t.Errorf("%d bytes, not what was expected", n)
			}
		})
	}
}
