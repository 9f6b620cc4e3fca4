// Package diskfs is in charge of the file system below the embedded drivers, in
// the shape of Pebble's vfs.FS: Root, which cannot leave its folder, and
// Metered, which counts what is written and synced.
//
// No name and no symbolic link leads a driver out of the data folder, and one
// process at a time locks it. What the package returns as synced has been synced
// by the operating system: nothing is delayed or put together here.
package diskfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
)

// FS is Pebble's file system, by another name for those who do not import Pebble.
type FS = vfs.FS

// RootFS is the file system of one folder. Names are relative to it.
type RootFS struct {
	root   *os.Root
	device vfs.DeviceID
	ranges bool // whether part of a file can be pushed out (SyncTo)
}

var _ vfs.FS = (*RootFS)(nil)

const (
	folderMode = 0o700
	fileMode   = 0o600
)

// Root opens the folder dir. It makes it, durably, if there is none. Close it
// when no file of it is needed any more.
func Root(dir string) (*RootFS, error) {
	if err := makeFolder(dir); err != nil {
		return nil, mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("data folder: %w", err), "choose a folder that can be made and written")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("data folder: %w", err), "choose a folder that can be opened")
	}
	info, err := vfs.Default.Stat(dir)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &RootFS{root: root, device: info.DeviceID(), ranges: rangesIn(dir)}, nil
}

// makeFolder makes dir and what is missing above it, and syncs the folder above
// each: a folder whose name is not durable takes everything in it along.
func makeFolder(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	above := filepath.Dir(dir)
	if err := makeFolder(above); err != nil {
		return err
	}
	if err := os.Mkdir(dir, folderMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	parent, err := os.Open(above)
	if err != nil {
		return err
	}
	return errors.Join(parent.Sync(), parent.Close())
}

// Close lets go of the folder. Files that are open stay open.
func (r *RootFS) Close() error { return r.root.Close() }

func (r *RootFS) open(name string, flags int, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := r.root.OpenFile(name, flags, fileMode)
	if err != nil {
		return nil, err
	}
	opened := &file{File: f, fd: f.Fd(), fs: r}
	for _, o := range opts {
		o.Apply(opened)
	}
	return opened, nil
}

// Create implements vfs.FS: a new inode, always, because the old one may have
// another name by a hard link.
func (r *RootFS) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	for {
		f, err := r.open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
		if err := r.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

// Open implements vfs.FS.
func (r *RootFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return r.open(name, os.O_RDONLY, opts...)
}

// OpenReadWrite implements vfs.FS.
func (r *RootFS) OpenReadWrite(name string, _ vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return r.open(name, os.O_RDWR|os.O_CREATE, opts...)
}

// OpenDir implements vfs.FS.
func (r *RootFS) OpenDir(name string) (vfs.File, error) {
	f, err := r.root.Open(name)
	if err != nil {
		return nil, err
	}
	return &folder{file{File: f, fd: vfs.InvalidFd, fs: r}}, nil
}

// ReuseForWrite implements vfs.FS.
func (r *RootFS) ReuseForWrite(oldname, newname string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	if err := r.root.Rename(oldname, newname); err != nil {
		return nil, err
	}
	return r.open(newname, os.O_RDWR|os.O_CREATE)
}

// Link implements vfs.FS.
func (r *RootFS) Link(oldname, newname string) error { return r.root.Link(oldname, newname) }

// Remove implements vfs.FS.
func (r *RootFS) Remove(name string) error { return r.root.Remove(name) }

// RemoveAll implements vfs.FS.
func (r *RootFS) RemoveAll(name string) error { return r.root.RemoveAll(name) }

// Rename implements vfs.FS.
func (r *RootFS) Rename(oldname, newname string) error { return r.root.Rename(oldname, newname) }

// MkdirAll implements vfs.FS.
func (r *RootFS) MkdirAll(dir string, perm os.FileMode) error { return r.root.MkdirAll(dir, perm) }

// List implements vfs.FS.
func (r *RootFS) List(dir string) ([]string, error) {
	f, err := r.root.Open(dir)
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}

// Stat implements vfs.FS.
func (r *RootFS) Stat(name string) (vfs.FileInfo, error) { return r.info(r.root.Stat(name)) }

// PathBase implements vfs.FS.
func (r *RootFS) PathBase(path string) string { return filepath.Base(path) }

// PathJoin implements vfs.FS.
func (r *RootFS) PathJoin(elem ...string) string { return filepath.Join(elem...) }

// PathDir implements vfs.FS.
func (r *RootFS) PathDir(path string) string { return filepath.Dir(path) }

// GetDiskUsage implements vfs.FS.
func (r *RootFS) GetDiskUsage(name string) (vfs.DiskUsage, error) {
	if _, err := r.root.Stat(name); err != nil {
		return vfs.DiskUsage{}, err
	}
	return vfs.Default.GetDiskUsage(filepath.Join(r.root.Name(), name))
}

// Unwrap implements vfs.FS: there is nothing below but the operating system.
func (r *RootFS) Unwrap() vfs.FS { return nil }

// Lock implements vfs.FS. A folder that is in use is a Conflict.
func (r *RootFS) Lock(name string) (io.Closer, error) { return r.lock(name) }
