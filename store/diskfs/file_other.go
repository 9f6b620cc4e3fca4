//go:build !linux

package diskfs

import "github.com/cockroachdb/pebble/v2/vfs"

// Prefetch implements vfs.File.
func (*file) Prefetch(int64, int64) error { return nil }

// Preallocate implements vfs.File.
func (*file) Preallocate(int64, int64) error { return nil }

// SyncData implements vfs.File.
func (f *file) SyncData() error { return f.Sync() }

// SyncTo implements vfs.File.
func (f *file) SyncTo(int64) (bool, error) {
	err := f.Sync()
	return err == nil, err
}

func rangesIn(string) bool { return false }

func punch(vfs.File, int64, int64) (bool, error) { return false, nil }
