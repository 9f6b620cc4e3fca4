package diskfs_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mayflyhq/mayfly/store/diskfs"
)

func TestMeterCountsWhatIsWrittenAndSynced(t *testing.T) {
	var meter diskfs.Meter
	fs := diskfs.Metered(vfs.NewMem(), &meter)
	for name, category := range map[string]vfs.DiskWriteCategory{
		"000001.log": "", "000002.sst": "pebble-compaction", "000003.blob": "", "0000000000000001": "mayfly-media", "MANIFEST-000001": "",
	} {
		f, err := fs.Create(name, category)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Write(make([]byte, 100))
		if err := errors.Join(err, f.Sync(), f.SyncData(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	want := diskfs.Counts{
		WAL: diskfs.Count{Syncs: 2, Bytes: 100}, Tables: diskfs.Count{Syncs: 2, Bytes: 100},
		Media: diskfs.Count{Syncs: 4, Bytes: 200}, Other: diskfs.Count{Syncs: 2, Bytes: 100},
	}
	if got := meter.Read(); got != want {
		t.Fatalf("counted %+v, want %+v", got, want)
	}
	if got := meter.Read().Total(); got != (diskfs.Count{Syncs: 10, Bytes: 500}) {
		t.Fatalf("in all %+v", got)
	}
	before := meter.Read()
	f, err := fs.OpenReadWrite("000001.log", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 7), 0); err != nil {
		t.Fatal(err)
	}
	dir, err := fs.OpenDir("")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(dir.Sync(), dir.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	want = diskfs.Counts{WAL: diskfs.Count{Bytes: 7}, Other: diskfs.Count{Syncs: 1}}
	if got := meter.Read().Since(before); got != want {
		t.Fatalf("since then %+v, want %+v", got, want)
	}
}

func TestEveryCommitOfPebbleIsSyncedOnceInTheLog(t *testing.T) {
	var meter diskfs.Meter
	db, err := pebble.Open("db", &pebble.Options{FS: diskfs.Metered(root(t, t.TempDir()), &meter), Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	before := meter.Read()
	for n := range 20 {
		if err := db.Set(fmt.Append(nil, n), make([]byte, 100), pebble.Sync); err != nil {
			t.Fatal(err)
		}
	}
	got := meter.Read().Since(before)
	if got.WAL.Syncs != 20 || got.WAL.Bytes < 2000 || got.Total().Syncs != 20 {
		t.Fatalf("20 commits cost %+v", got)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestErrorsPassThroughTheMeter(t *testing.T) {
	for _, kind := range []errorfs.OpKind{
		errorfs.OpCreate, errorfs.OpOpen, errorfs.OpReuseForWrite, errorfs.OpOpenDir,
		errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo,
	} {
		var meter diskfs.Meter
		fs := diskfs.Metered(errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == kind {
				return errorfs.ErrInjected
			}
			return nil
		})), &meter)
		if err := everything(fs); !errors.Is(err, errorfs.ErrInjected) {
			t.Errorf("an error of operation %d became %v", kind, err)
		}
		if kind == errorfs.OpFileWrite && meter.Read().WAL.Bytes != 0 {
			t.Errorf("counted %+v of a write that failed", meter.Read())
		}
	}
	if err := everything(diskfs.Metered(vfs.NewMem(), new(diskfs.Meter))); err != nil {
		t.Fatal(err)
	}
}

// everything does each thing once and stops at the first error.
func everything(fs vfs.FS) error {
	f, err := fs.Create("1.log", "")
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write([]byte("text")); err != nil {
		return err
	}
	if _, err := f.SyncTo(1); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.SyncData()); err != nil {
		return err
	}
	if f, err = fs.ReuseForWrite("1.log", "2.log", ""); err != nil {
		return err
	}
	defer f.Close()
	if f, err = fs.OpenReadWrite("2.log", ""); err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("more"), 2); err != nil {
		return err
	}
	dir, err := fs.OpenDir("")
	if err != nil {
		return err
	}
	defer dir.Close()
	_, err = fs.Open("2.log")
	return err
}

func BenchmarkFiles(b *testing.B) {
	dir := b.TempDir()
	systems := map[string]vfs.FS{
		"default": vfs.Default,
		"root":    root(b, dir),
		"metered": diskfs.Metered(root(b, dir), new(diskfs.Meter)),
	}
	for name, fs := range systems {
		at := func(file string) string { return file }
		if name == "default" {
			at = func(file string) string { return dir + string(os.PathSeparator) + file }
		}
		if err := fs.MkdirAll(at("ledger"), 0o700); err != nil {
			b.Fatal(err)
		}
		b.Run("open/"+name, func(b *testing.B) {
			write(b, fs, at("ledger/table"), "text")
			for b.Loop() {
				if err := drop(fs.Open(at("ledger/table"))); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("write4k/"+name, func(b *testing.B) {
			f, err := fs.Create(at("ledger/000001.log"), "")
			if err != nil {
				b.Fatal(err)
			}
			page := make([]byte, 4096)
			for n := 0; b.Loop(); n++ {
				if n%4096 == 0 {
					if err := f.Close(); err != nil {
						b.Fatal(err)
					}
					if f, err = fs.Create(at("ledger/000001.log"), ""); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := f.Write(page); err != nil {
					b.Fatal(err)
				}
			}
			if err := f.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
