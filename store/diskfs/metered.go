package diskfs

import (
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

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

// Meter counts what goes to disk. The zero Meter is ready; safe for concurrent use.
type Meter struct {
	counts [categories]struct{ syncs, bytes atomic.Int64 }
}

// Count is how often something was synced, and how many bytes were written.
type Count struct {
	Syncs, Bytes int64
}

// Counts is what a Meter has counted.
type Counts struct {
	WAL    Count // write-ahead logs
	Tables Count // sorted tables
	Media  Count // media, in files of their own or apart from their keys
	Other  Count // manifests, markers, folders
}

type category uint8

const (
	wal category = iota
	tables
	media
	other
	categories
)

// mediaPrefix begins the name by which drivers call what they write for media.
const mediaPrefix = "mayfly-media"

func categoryOf(name string, written vfs.DiskWriteCategory) category {
	switch {
	case strings.HasSuffix(name, ".log"):
		return wal
	case strings.HasSuffix(name, ".sst"):
		return tables
	case strings.HasSuffix(name, ".blob"), strings.HasPrefix(string(written), mediaPrefix):
		return media
	default:
		return other
	}
}

// Read is what has been counted so far.
func (m *Meter) Read() Counts {
	read := func(c category) Count {
		return Count{Syncs: m.counts[c].syncs.Load(), Bytes: m.counts[c].bytes.Load()}
	}
	return Counts{WAL: read(wal), Tables: read(tables), Media: read(media), Other: read(other)}
}

// Total is the sum.
func (c Counts) Total() Count {
	return Count{
		Syncs: c.WAL.Syncs + c.Tables.Syncs + c.Media.Syncs + c.Other.Syncs,
		Bytes: c.WAL.Bytes + c.Tables.Bytes + c.Media.Bytes + c.Other.Bytes,
	}
}

// Since is what came on top of an earlier reading.
func (c Counts) Since(before Counts) Counts {
	return Counts{
		WAL: c.WAL.since(before.WAL), Tables: c.Tables.since(before.Tables),
		Media: c.Media.since(before.Media), Other: c.Other.since(before.Other),
	}
}

func (c Count) since(before Count) Count {
	return Count{Syncs: c.Syncs - before.Syncs, Bytes: c.Bytes - before.Bytes}
}
