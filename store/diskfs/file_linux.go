package diskfs

import (
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// Prefetch implements vfs.File.
func (f *file) Prefetch(offset, length int64) error {
	_, _, errno := unix.Syscall(unix.SYS_READAHEAD, f.fd, uintptr(offset), uintptr(length))
	if errno != 0 {
		return errno
	}
	return nil
}

// Preallocate implements vfs.File. The size that readers see stays.
func (f *file) Preallocate(offset, length int64) error {
	return unix.Fallocate(int(f.fd), unix.FALLOC_FL_KEEP_SIZE, offset, length)
}

// SyncData implements vfs.File. An interrupted call has not failed: a failed
// sync is the end of the process (I20), a signal must not be.
func (f *file) SyncData() error {
	for {
		if err := unix.Fdatasync(int(f.fd)); err != unix.EINTR {
			return err
		}
	}
}

// SyncTo implements vfs.File: it pushes the beginning of the file out and waits
// only for what was pushed before.
func (f *file) SyncTo(length int64) (bool, error) {
	if !f.fs.ranges {
		err := f.SyncData()
		return err == nil, err
	}
	return false, unix.SyncFileRange(int(f.fd), 0, length, unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_BEFORE)
}

// rangesIn reports whether sync_file_range works in dir. Some file systems ignore it,
// so only those where it is known to work count.
func rangesIn(dir string) bool {
	var stat unix.Statfs_t
	return unix.Statfs(dir, &stat) == nil && stat.Type == unix.EXT4_SUPER_MAGIC
}

// punch makes a hole in a file of the operating system. It reports false where holes
// are not known.
func punch(f vfs.File, offset, length int64) (bool, error) {
	fd := f.Fd()
	if fd == vfs.InvalidFd {
		return false, nil
	}
	for {
		switch err := unix.Fallocate(int(fd), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, offset, length); err {
		case nil:
			return true, nil
		case unix.EINTR:
		case unix.EOPNOTSUPP, unix.ENOSYS:
			return false, nil
		default:
			return false, err
		}
	}
}
