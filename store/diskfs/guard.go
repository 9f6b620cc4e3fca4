package diskfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly/store"
)

// GuardFS stands between Pebble and the disk and keeps I20: when a write that
// durability hangs on fails (write-ahead log, manifest, markers, folder syncs),
// it blows the fuse and the call never returns. Pebble cannot be notified: some of
// these errors make it panic with a mutex in a state that ends the process
// without a word, and some let it go on (docs/decisions/0003). A goroutine
// that does not return can neither acknowledge nor clean up files that the
// manifest may already name.
//
// It also keeps names in order: a marker is made durable after the manifest that
// it names, and before the marker that it replaces is removed. Pebble leaves all
// three to one sync, and a disk that keeps only some of them would be left
// without a database.
//
// Once the fuse has blown, for any reason, nothing more of this database is
// written, renamed or removed. Tables are not guarded before that: Pebble
// writes a table again when it could not.
type GuardFS struct {
	vfs.FS
	fuse *store.Fuse

	reuse sync.RWMutex // read-held while a file is written over
	fresh bool         // no file is written over
}

// Guard returns a file system for a Pebble database that keeps I20 by fuse.
func Guard(under FS, fuse *store.Fuse) *GuardFS { return &GuardFS{FS: under, fuse: fuse} }

// Stop blows the fuse and does not return: callers that wait get the error of the fuse.
func Stop(fuse *store.Fuse, reason error) {
	fuse.Blow(reason)
	select {}
}

// alive does not return once the fuse has blown.
func (g *GuardFS) alive() {
	select {
	case <-g.fuse.Blown():
		select {}
	default:
	}
}

func (g *GuardFS) must(what, name string, err error) {
	if err != nil {
		Stop(g.fuse, fmt.Errorf("%s %s: %w", what, name, err))
	}
}

func (g *GuardFS) vital(name string) bool {
	base := g.PathBase(name)
	return strings.HasSuffix(base, ".log") || strings.HasPrefix(base, "MANIFEST-") || strings.HasPrefix(base, "marker.")
}

func (g *GuardFS) wrap(name string, f vfs.File, err error) (vfs.File, error) {
	vital := g.vital(name)
	if vital {
		g.must("create", name, err)
	}
	if err != nil {
		return nil, err
	}
	return &guardFile{File: f, fs: g, name: name, vital: vital}, nil
}

// settle makes the names beside a marker durable before the marker changes.
func (g *GuardFS) settle(name string) {
	if !strings.HasPrefix(g.PathBase(name), "marker.") {
		return
	}
	dir, err := g.FS.OpenDir(g.PathDir(name))
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	g.must("sync the folder of", name, err)
}

// Create implements vfs.FS.
func (g *GuardFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	g.alive()
	g.settle(name)
	f, err := g.FS.Create(name, category)
	return g.wrap(name, f, err)
}

// ReuseForWrite implements vfs.FS. EraseDeleted may have removed the old file, or wants
// the new one to hold nothing of it.
func (g *GuardFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	g.alive()
	g.reuse.RLock()
	defer g.reuse.RUnlock()
	if !g.fresh {
		f, err := g.FS.ReuseForWrite(oldname, newname, category)
		if !errors.Is(err, fs.ErrNotExist) {
			return g.wrap(newname, f, err)
		}
	}
	if err := g.FS.Remove(oldname); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := g.FS.Create(newname, category)
	return g.wrap(newname, f, err)
}

// OpenReadWrite implements vfs.FS.
func (g *GuardFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	g.alive()
	f, err := g.FS.OpenReadWrite(name, category, opts...)
	return g.wrap(name, f, err)
}

// OpenDir implements vfs.FS. A folder is opened to be synced.
func (g *GuardFS) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &guardFile{File: f, fs: g, name: name, vital: true}, nil
}

// Link implements vfs.FS.
func (g *GuardFS) Link(oldname, newname string) error {
	g.alive()
	return g.FS.Link(oldname, newname)
}

// Remove implements vfs.FS.
func (g *GuardFS) Remove(name string) error {
	g.alive()
	g.settle(name)
	return g.FS.Remove(name)
}

// RemoveAll implements vfs.FS.
func (g *GuardFS) RemoveAll(name string) error {
	g.alive()
	return g.FS.RemoveAll(name)
}

// Rename implements vfs.FS.
func (g *GuardFS) Rename(oldname, newname string) error {
	g.alive()
	err := g.FS.Rename(oldname, newname)
	if g.vital(newname) {
		g.must("rename", newname, err)
	}
	return err
}

// MkdirAll implements vfs.FS.
func (g *GuardFS) MkdirAll(dir string, perm os.FileMode) error {
	g.alive()
	return g.FS.MkdirAll(dir, perm)
}

// Lock implements vfs.FS.
func (g *GuardFS) Lock(name string) (io.Closer, error) {
	g.alive()
	return g.FS.Lock(name)
}

// Unwrap implements vfs.FS.
func (g *GuardFS) Unwrap() vfs.FS { return g.FS }

// guardFile is a file that is written to.
type guardFile struct {
	vfs.File
	fs    *GuardFS
	name  string
	vital bool
}

func (f *guardFile) check(what string, err error) error {
	if f.vital {
		f.fs.must(what, f.name, err)
	}
	return err
}

// Write implements vfs.File.
func (f *guardFile) Write(p []byte) (int, error) {
	f.fs.alive()
	n, err := f.File.Write(p)
	return n, f.check("write", err)
}

// WriteAt implements vfs.File.
func (f *guardFile) WriteAt(p []byte, offset int64) (int, error) {
	f.fs.alive()
	n, err := f.File.WriteAt(p, offset)
	return n, f.check("write", err)
}

// Sync implements vfs.File.
func (f *guardFile) Sync() error {
	f.fs.alive()
	return f.check("sync", f.File.Sync())
}

// SyncData implements vfs.File.
func (f *guardFile) SyncData() error {
	f.fs.alive()
	return f.check("sync", f.File.SyncData())
}

// SyncTo implements vfs.File.
func (f *guardFile) SyncTo(length int64) (bool, error) {
	f.fs.alive()
	full, err := f.File.SyncTo(length)
	return full, f.check("sync", err)
}

// Close implements vfs.File.
func (f *guardFile) Close() error { return f.check("close", f.File.Close()) }
