package diskfs

import (
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// file is a file of a RootFS. What the operating systems do differently is in
// the files that are named after them.
type file struct {
	*os.File
	fd uintptr
	fs *RootFS
}

// Fd implements vfs.File.
func (f *file) Fd() uintptr { return f.fd }

// Stat implements vfs.File.
func (f *file) Stat() (vfs.FileInfo, error) { return f.fs.info(f.File.Stat()) }

// folder is an open folder: it is there to be synced.
type folder struct{ file }

// Prefetch implements vfs.File.
func (*folder) Prefetch(int64, int64) error { return nil }

// Preallocate implements vfs.File.
func (*folder) Preallocate(int64, int64) error { return nil }

// SyncData implements vfs.File.
func (d *folder) SyncData() error { return d.Sync() }

// SyncTo implements vfs.File.
func (*folder) SyncTo(int64) (bool, error) { return false, nil }

// info is a FileInfo with its device: that of the data folder.
type info struct {
	os.FileInfo
	device vfs.DeviceID
}

// DeviceID implements vfs.FileInfo.
func (i info) DeviceID() vfs.DeviceID { return i.device }

func (r *RootFS) info(i os.FileInfo, err error) (vfs.FileInfo, error) {
	if err != nil {
		return nil, err
	}
	return info{FileInfo: i, device: r.device}, nil
}
