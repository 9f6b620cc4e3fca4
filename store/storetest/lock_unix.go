//go:build unix && !solaris && !illumos && !aix

package storetest

import (
	"os"
	"syscall"
)

// lock locks an open file until it is closed or this process ends, and reports whether it
// was free.
func lock(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
