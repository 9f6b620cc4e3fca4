package diskfs

import "github.com/cockroachdb/pebble/v2/vfs"

// Metered is fs with everything that is written and synced counted in m.
func Metered(fs vfs.FS, m *Meter) vfs.FS { return &meteredFS{FS: fs, meter: m} }

type meteredFS struct {
	vfs.FS
	meter *Meter
}

// Unwrap implements vfs.FS.
func (m *meteredFS) Unwrap() vfs.FS { return m.FS }

func (m *meteredFS) count(c category, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &meteredFile{File: f, meter: m.meter, category: c}, nil
}

// Create implements vfs.FS.
func (m *meteredFS) Create(name string, written vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := m.FS.Create(name, written)
	return m.count(categoryOf(name, written), f, err)
}

// OpenReadWrite implements vfs.FS.
func (m *meteredFS) OpenReadWrite(name string, written vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := m.FS.OpenReadWrite(name, written, opts...)
	return m.count(categoryOf(name, written), f, err)
}

// ReuseForWrite implements vfs.FS.
func (m *meteredFS) ReuseForWrite(oldname, newname string, written vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := m.FS.ReuseForWrite(oldname, newname, written)
	return m.count(categoryOf(newname, written), f, err)
}

// OpenDir implements vfs.FS.
func (m *meteredFS) OpenDir(name string) (vfs.File, error) {
	f, err := m.FS.OpenDir(name)
	return m.count(other, f, err)
}

type meteredFile struct {
	vfs.File
	meter    *Meter
	category category
}

func (f *meteredFile) wrote(n int) { f.meter.counts[f.category].bytes.Add(int64(n)) }
func (f *meteredFile) synced()     { f.meter.counts[f.category].syncs.Add(1) }

// Write implements vfs.File.
func (f *meteredFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.wrote(n)
	return n, err
}

// WriteAt implements vfs.File.
func (f *meteredFile) WriteAt(p []byte, offset int64) (int, error) {
	n, err := f.File.WriteAt(p, offset)
	f.wrote(n)
	return n, err
}

// Sync implements vfs.File. A sync that failed has cost one as well.
func (f *meteredFile) Sync() error {
	f.synced()
	return f.File.Sync()
}

// SyncData implements vfs.File.
func (f *meteredFile) SyncData() error {
	f.synced()
	return f.File.SyncData()
}

// SyncTo implements vfs.File. Only a full sync counts: pushing pages out is none.
func (f *meteredFile) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	if full {
		f.synced()
	}
	return full, err
}
