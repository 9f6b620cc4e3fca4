package profile

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/diskfs"
)

func memory(t testing.TB) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewCrashableMem()
	if err := fs.MkdirAll("data", 0o700); err != nil {
		t.Fatal(err)
	}
	above, err := fs.OpenDir("")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(above.Sync(), above.Close()); err != nil {
		t.Fatal(err)
	}
	return fs
}

func put(t testing.TB, fs diskfs.FS, name, text string) {
	t.Helper()
	if err := (&folder{fs: fs, dir: "data"}).write(name, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, fs diskfs.FS, name string) string {
	t.Helper()
	f, err := fs.Open("data/" + name)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestNewFolderGetsTheNewestFormatAndKeepsIt(t *testing.T) {
	fs := memory(t)
	for range 2 {
		f, err := openFolder(fs, "data", steps())
		if err != nil {
			t.Fatal(err)
		}
		if err := f.lock.Close(); err != nil {
			t.Fatal(err)
		}
		if text := get(t, fs, "FORMAT"); !strings.Contains(text, fmt.Sprintf(`"format": %d`, len(steps()))) || !strings.Contains(text, `"made_by": "`) {
			t.Fatalf("FORMAT says %s", text)
		}
	}
	names, err := fs.List("data")
	slices.Sort(names)
	if want := []string{"FORMAT", "LOCK", "cold", "hot", "kv", "ledger"}; err != nil || !slices.Equal(names, want) {
		t.Fatalf("in the folder: %v, %v", names, err)
	}
}

func TestWhatIsNotKnownIsRefusedAndNotTouched(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		kind       mayfly.Kind
	}{
		"another program's":        {"thesis.txt", "chapter one", mayfly.Unsupported},
		"newer":                    {"FORMAT", `{"format": 999, "changed_by": "v9"}`, mayfly.Unsupported},
		"a format below zero":      {"FORMAT", `{"format": -1}`, mayfly.Corrupt},
		"a format that is no text": {"FORMAT", "\x00\x00", mayfly.Corrupt},
		"an empty format":          {"FORMAT", "", mayfly.Corrupt},
	} {
		fs := memory(t)
		put(t, fs, c.file, c.text)
		wrote := 0
		watched := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpFileClose {
				wrote++
			}
			return nil
		}))
		_, err := openFolder(watched, "data", steps())
		var said *mayfly.Error
		if !errors.Is(err, c.kind) || !errors.As(err, &said) || said.Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
		if names, err := fs.List("data"); err != nil || len(names) != 1 || get(t, fs, c.file) != c.text || wrote != 0 {
			t.Errorf("%s: touched %d times, now %v, %v", name, wrote, names, err)
		}
	}
}

func TestWhatIsLeftOfAFirstStartOrAFileSystemIsNoStranger(t *testing.T) {
	fs := memory(t)
	put(t, fs, "LOCK", "process 1\n")
	put(t, fs, "FORMAT.new", "{")
	if err := fs.MkdirAll("data/lost+found", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := openFolder(fs, "data", steps()); err != nil {
		t.Fatal(err)
	}
}

func TestFolderThatCannotBeWrittenSaysWhatToDo(t *testing.T) {
	for _, kind := range []errorfs.OpKind{errorfs.OpLock, errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileSync, errorfs.OpRename, errorfs.OpMkdirAll, errorfs.OpList} {
		fs := errorfs.Wrap(memory(t), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == kind {
				return errorfs.ErrInjected
			}
			return nil
		}))
		_, err := openFolder(fs, "data", steps())
		var said *mayfly.Error
		if !errors.Is(err, mayfly.Unavailable) || !errors.Is(err, errorfs.ErrInjected) || !errors.As(err, &said) || said.Hint == "" {
			t.Errorf("operation %d: %v", kind, err)
		}
	}
}

// tracked are steps that note in the folder that they ran, each in two halves:
// the second asserts that all before it are whole.
func tracked(n int) []step {
	var all []step
	for i := range n {
		all = append(all, step{fmt.Sprintf("step %d", i+1), func(f *folder) error {
			if i > 0 {
				if _, err := f.fs.Stat(f.path(fmt.Sprintf("b%d", i))); err != nil {
					return fmt.Errorf("step %d before step %d was durable: %w", i+1, i, err)
				}
			}
			if err := f.write(fmt.Sprintf("a%d", i+1), nil); err != nil {
				return err
			}
			if err := f.write(fmt.Sprintf("b%d", i+1), nil); err != nil {
				return err
			}
			return f.sync()
		}})
	}
	return all
}

func TestUpgradeResumesAfterACrashAtEveryWrite(t *testing.T) {
	const seed = 3
	points := 0
	for _, unsynced := range []int{0, 50, 100} {
		for from := range 3 { // formats that an older version left
			for k := 1; ; k++ {
				fs := memory(t)
				if from > 0 {
					f, err := openFolder(fs, "data", tracked(from))
					if err != nil {
						t.Fatal(err)
					}
					if err := f.lock.Close(); err != nil {
						t.Fatal(err)
					}
				}
				clone := crashAt(fs, k, vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: rand.New(rand.NewPCG(seed, uint64(k)))},
					func(fs vfs.FS) error { _, err := openFolder(fs, "data", tracked(4)); return err })
				if clone == nil {
					break
				}
				points++
				if _, err := openFolder(clone, "data", tracked(4)); err != nil {
					t.Fatalf("seed %d, %d%% unsynced, from format %d, crash at write %d: %v", seed, unsynced, from, k, err)
				}
				for i := range 4 {
					get(t, clone, fmt.Sprintf("a%d", i+1))
					get(t, clone, fmt.Sprintf("b%d", i+1))
				}
				if text := get(t, clone, "FORMAT"); !strings.Contains(text, `"format": 4`) {
					t.Fatalf("crash at write %d: FORMAT says %s", k, text)
				}
			}
		}
	}
	if points < 200 {
		t.Fatalf("only %d crash points", points)
	}
	t.Logf("%d crash points", points)
}

// crashAt runs do and is the file system as a crash just before its k-th write
// would have left it; nil when there are fewer.
func crashAt(fs *vfs.MemFS, k int, cfg vfs.CrashCloneCfg, do func(vfs.FS) error) (clone *vfs.MemFS) {
	n := 0
	_ = do(errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
			return nil
		}
		if n++; n == k {
			clone = fs.CrashClone(cfg)
		}
		return nil
	})))
	return clone
}

func TestStepThatFailsIsNotRecordedAndRunsAgain(t *testing.T) {
	fs, fails := memory(t), true
	list := append(tracked(2), step{"shaky", func(*folder) error {
		if fails {
			return mayfly.Errorf(mayfly.Full, "no room")
		}
		return nil
	}})
	if _, err := openFolder(fs, "data", list); !errors.Is(err, mayfly.Full) || !strings.Contains(err.Error(), "format 3 (shaky)") {
		t.Fatal(err)
	}
	if text := get(t, fs, "FORMAT"); !strings.Contains(text, `"format": 2`) {
		t.Fatalf("FORMAT says %s", text)
	}
	fails = false
	if _, err := openFolder(fs, "data", list); err != nil {
		t.Fatal(err)
	}
}
