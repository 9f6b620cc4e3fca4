package diskfs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/diskfs"
)

func root(t testing.TB, dir string) *diskfs.RootFS {
	t.Helper()
	r, err := diskfs.Root(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func write(t testing.TB, fs vfs.FS, name, text string) {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, fs vfs.FS, name string) string {
	t.Helper()
	f, err := fs.Open(name, vfs.SequentialReadsOption)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestNothingLeadsOutOfTheFolder(t *testing.T) {
	outside, inside := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.Symlink(filepath.Join(outside, "secret"), filepath.Join(inside, "link")),
		os.Symlink(outside, filepath.Join(inside, "folder")),
	); err != nil {
		t.Fatal(err)
	}
	r := root(t, inside)
	write(t, r, "own", "own")
	up, err := filepath.Rel(inside, filepath.Join(outside, "secret"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "folder/secret", "folder/new", up, "../new", filepath.Join(outside, "secret"), "/tmp/new"} {
		for what, try := range map[string]func() error{
			"Open":          func() error { return drop(r.Open(name)) },
			"OpenReadWrite": func() error { return drop(r.OpenReadWrite(name, "")) },
			"Stat":          func() error { _, err := r.Stat(name); return err },
			"Lock":          func() error { _, err := r.Lock(name); return err },
			"GetDiskUsage":  func() error { _, err := r.GetDiskUsage(name); return err },
		} {
			if err := try(); err == nil {
				t.Errorf("%s of %s went through", what, name)
			}
		}
		if name == "link" {
			continue // may be replaced and removed: it is the link that goes
		}
		for what, try := range map[string]func() error{
			"Create":        func() error { return drop(r.Create(name, "")) },
			"Rename to":     func() error { return r.Rename("own", name) },
			"Rename from":   func() error { return r.Rename(name, "stolen") },
			"Link":          func() error { return r.Link(name, "stolen") },
			"ReuseForWrite": func() error { return drop(r.ReuseForWrite("own", name, "")) },
			"MkdirAll":      func() error { return r.MkdirAll(filepath.Join(name, "x"), 0o700) },
			"Remove":        func() error { return r.Remove(name) },
			"RemoveAll":     func() error { return r.RemoveAll(name) },
		} {
			if err := try(); err == nil {
				t.Errorf("%s of %s went through", what, name)
			}
		}
	}
	if err := drop(r.OpenDir("folder")); err == nil {
		t.Error("a folder outside was opened")
	}
	if names, err := r.List("folder"); err == nil {
		t.Errorf("listed %v", names)
	}
	if text, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || string(text) != "secret" {
		t.Fatalf("what is outside was changed: %q, %v", text, err)
	}
	if names, err := os.ReadDir(outside); err != nil || len(names) != 1 {
		t.Fatalf("outside there is now %v, %v", names, err)
	}
	if read(t, r, "own") != "own" {
		t.Fatal("what is inside was moved")
	}
}

func drop(f vfs.File, err error) error {
	if err == nil {
		err = f.Close()
		if err == nil {
			return nil
		}
	}
	return err
}

func TestRootDoesWhatTheFileSystemOfPebbleDoes(t *testing.T) {
	script := func(t *testing.T, fs vfs.FS, at func(string) string) []string {
		var log []string
		note := func(format string, args ...any) { log = append(log, fmt.Sprintf(format, args...)) }
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(fs.MkdirAll(at("a/b"), 0o755))
		write(t, fs, at("a/one"), "one")
		must(fs.Link(at("a/one"), at("a/two")))
		write(t, fs, at("a/one"), "1") // a new inode: two keeps the old text
		note("two after one was created again: %s", read(t, fs, at("a/two")))
		f, err := fs.OpenReadWrite(at("a/two"), "", vfs.RandomReadsOption)
		must(err)
		_, err = f.WriteAt([]byte("T"), 0)
		must(errors.Join(err, f.Preallocate(0, 1<<16), f.SyncData()))
		_ = f.Prefetch(0, 1) // Pebble's own answers with errno 0
		_, err = f.SyncTo(1)
		must(err)
		info, err := f.Stat()
		must(err)
		note("two is %d bytes long: %s", info.Size(), read(t, fs, at("a/two")))
		must(f.Close())
		f, err = fs.ReuseForWrite(at("a/two"), at("a/b/three"), "")
		must(err)
		_, err = f.Write([]byte("n"))
		must(errors.Join(err, f.Sync(), f.Close()))
		note("three: %s", read(t, fs, at("a/b/three")))
		must(fs.Rename(at("a/b/three"), at("a/one")))
		note("one: %s", read(t, fs, at("a/one")))
		dir, err := fs.OpenDir(at("a"))
		must(err)
		_, err = dir.SyncTo(1)
		must(errors.Join(err, dir.Sync(), dir.SyncData(), dir.Close()))
		names, err := fs.List(at("a"))
		must(err)
		slices.Sort(names)
		note("in a: %v", names)
		note("remove a folder with something in it: %v", fs.Remove(at("a")) != nil)
		must(fs.RemoveAll(at("a")))
		for what, err := range map[string]error{
			"open": drop(fs.Open(at("a/one"))), "remove": fs.Remove(at("a")), "rename": fs.Rename(at("a"), at("b")),
			"create": drop(fs.Create(at("a/one"), "")), "link": fs.Link(at("a"), at("b")),
		} {
			if !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s of what is not there: %v", what, err)
			}
		}
		must(fs.RemoveAll(at("a")))
		usage, err := fs.GetDiskUsage(at("."))
		must(err)
		note("there is space: %v", usage.AvailBytes > 0 && usage.TotalBytes > usage.AvailBytes)
		device, err := fs.Stat(at("."))
		must(err)
		note("device %s", device.DeviceID())
		return log
	}
	one, other := t.TempDir(), t.TempDir()
	want := script(t, vfs.Default, func(name string) string { return filepath.Join(one, name) })
	got := script(t, root(t, other), func(name string) string { return name })
	if !slices.Equal(got, want) {
		t.Fatalf("differ:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestPebbleRunsOnRoot(t *testing.T) {
	r := root(t, filepath.Join(t.TempDir(), "not", "yet", "there"))
	for round := range 3 {
		db, err := pebble.Open("ledger", &pebble.Options{FS: r, Logger: quiet{}, MemTableSize: 256 << 10})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 2000 {
			if err := db.Set(fmt.Appendf(nil, "%d-%d", round, n), make([]byte, 200), pebble.NoSync); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(db.Flush(), db.Compact(t.Context(), []byte("0"), []byte("9"), false), db.LogData(nil, pebble.Sync)); err != nil {
			t.Fatal(err)
		}
		for n := range (round + 1) * 2000 {
			if _, closer, err := db.Get(fmt.Appendf(nil, "%d-%d", n/2000, n%2000)); err != nil || closer.Close() != nil {
				t.Fatal(n, err)
			}
		}
		if err := errors.Join(db.Checkpoint(fmt.Sprintf("copy-%d", round)), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

func TestRootSaysWhyItCannotBeOpened(t *testing.T) {
	taken := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{taken, filepath.Join(taken, "below")} {
		if _, err := diskfs.Root(dir); !errors.Is(err, mayfly.Unavailable) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
