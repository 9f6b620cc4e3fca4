package profile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime/debug"
	"slices"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/diskfs"
)

// The files of a data folder that are ours and no driver's.
const (
	lockFile   = "LOCK"
	formatFile = "FORMAT"
	formatNew  = "FORMAT.new" // being written
)

// format is what FORMAT says: how far the steps have come, and for an operator
// who wonders, which version made the folder and which changed it last.
type format struct {
	Format    int    `json:"format"`
	MadeBy    string `json:"made_by"`
	ChangedBy string `json:"changed_by"`
}

// step takes a data folder from the format before it to its own. It may be run
// again after a crash in its middle, or just before it was recorded.
type step struct {
	name string
	run  func(f *folder) error
}

// folder is a locked data folder in the newest format.
type folder struct {
	fs   diskfs.FS
	dir  string
	lock io.Closer
}

// openFolder locks the folder and brings it up to the last of steps. A folder
// that is not ours, or newer than steps, is refused and not touched.
func openFolder(fsys diskfs.FS, dir string, steps []step) (*folder, error) {
	f := &folder{fs: fsys, dir: dir}
	if _, err := f.check(len(steps)); err != nil { // before anything is written, the lock included
		return nil, err
	}
	lock, err := fsys.Lock(f.path(lockFile))
	if err != nil {
		return nil, f.failed("lock", err)
	}
	f.lock = lock
	found, err := f.check(len(steps)) // what another process may have changed until we held it
	if err == nil {
		err = f.upgrade(found, steps)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return f, nil
}

func (f *folder) path(parts ...string) string {
	return f.fs.PathJoin(append([]string{f.dir}, parts...)...)
}

// failed gives an error that has no kind one, and a hint.
func (f *folder) failed(what string, err error) error {
	if known := (*mayfly.Error)(nil); errors.As(err, &known) {
		return fmt.Errorf("data folder: %s: %w", what, err)
	}
	return mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("data folder: %s: %w", what, err),
		"the data folder must be writable, on a working disk; a link in it that leads out of it is not followed: mount there instead")
}

// check reads FORMAT; nil stands for a folder with nothing in it.
func (f *folder) check(newest int) (*format, error) {
	names, err := f.fs.List(f.dir)
	if err != nil {
		return nil, f.failed("list", err)
	}
	if !slices.Contains(names, formatFile) {
		for _, name := range names {
			if !slices.Contains([]string{lockFile, formatNew, "lost+found"}, name) {
				return nil, mayfly.Errorf(mayfly.Unsupported, "data folder: it holds %q and no %s", name, formatFile).
					WithHint("it is not mayfly's: choose an empty folder, or one that mayfly made; nothing was changed")
			}
		}
		return nil, nil
	}
	file, err := f.fs.Open(f.path(formatFile))
	if err != nil {
		return nil, f.failed("read "+formatFile, err)
	}
	text, err := io.ReadAll(io.LimitReader(file, 1<<16))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, f.failed("read "+formatFile, err)
	}
	var found format
	if err := json.Unmarshal(text, &found); err != nil || found.Format < 0 {
		return nil, mayfly.Errorf(mayfly.Corrupt, "data folder: %s cannot be read: %.80q", formatFile, text).
			WithHint("restore it from a backup of the folder; nothing was changed")
	}
	if found.Format > newest {
		return nil, mayfly.Errorf(mayfly.Unsupported, "data folder: it has format %d, last changed by mayfly %s; this version knows up to %d", found.Format, found.ChangedBy, newest).
			WithHint("start that version, or a newer one; nothing was changed")
	}
	return &found, nil
}

// upgrade runs the steps that are missing, in order, each recorded durably after
// it ran. A new folder is claimed first, so that a crash in its first step does
// not leave something that looks like another program's.
func (f *folder) upgrade(found *format, steps []step) error {
	if found == nil {
		found = &format{MadeBy: version()}
		if err := f.record(*found); err != nil {
			return err
		}
	}
	for n := found.Format; n < len(steps); n++ {
		if err := steps[n].run(f); err != nil {
			return f.failed(fmt.Sprintf("upgrade to format %d (%s)", n+1, steps[n].name), err)
		}
		found.Format = n + 1
		if err := f.record(*found); err != nil {
			return err
		}
	}
	return nil
}

// record replaces FORMAT: the old one or the new one is there at every moment.
func (f *folder) record(now format) error {
	now.ChangedBy = version()
	text, err := json.MarshalIndent(now, "", "  ")
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if err := f.write(formatNew, append(text, '\n')); err != nil {
		return f.failed("write "+formatNew, err)
	}
	if err := f.fs.Rename(f.path(formatNew), f.path(formatFile)); err != nil {
		return f.failed("write "+formatFile, err)
	}
	return f.sync()
}

func (f *folder) write(name string, text []byte) error {
	file, err := f.fs.Create(f.path(name), "mayfly-format")
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// makeFolder makes a folder in the data folder, if it is not there.
func (f *folder) makeFolder(name string) error {
	if info, err := f.fs.Stat(f.path(name)); err == nil && !info.IsDir() {
		return fmt.Errorf("%s: %w", name, fs.ErrExist)
	}
	return f.fs.MkdirAll(f.path(name), 0o700)
}

// sync makes the names in the data folder durable.
func (f *folder) sync() error {
	dir, err := f.fs.OpenDir(f.dir)
	if err != nil {
		return f.failed("sync", err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return f.failed("sync", err)
	}
	return nil
}

// version is this program's.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
