package diskfs

import "github.com/cockroachdb/pebble/v2/vfs"

// Blank makes length bytes of f from offset on zero, durable after the next sync. Where
// the file system can, it gives the blocks back as well; elsewhere it writes zeros. It
// does not change the size of the file if the range lies inside it.
func Blank(f vfs.File, offset, length int64) error {
	if length <= 0 {
		return nil
	}
	if punched, err := punch(f, offset, length); punched || err != nil {
		return err
	}
	zeros := make([]byte, min(length, 64<<10))
	for length > 0 {
		n, err := f.WriteAt(zeros[:min(length, int64(len(zeros)))], offset)
		if err != nil {
			return err
		}
		offset, length = offset+int64(n), length-int64(n)
	}
	return nil
}
