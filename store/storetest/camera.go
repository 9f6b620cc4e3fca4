package storetest

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Camera takes a disk as a power loss would leave it, before operations that
// change it. T is what the test knows at that moment, such as what had been
// acknowledged: it is asked for before the disk is taken, so that what was
// acknowledged by then is on the disk by then.
type Camera[T any] struct {
	Disk  *vfs.MemFS // a crashable one
	RNG   *rand.Rand // chooses what of the unsynced data survives
	Every int        // one operation in so many, by chance; 0 or 1: each
	First int        // the share that the first picture begins with

	mu     sync.Mutex
	know   func() T // nil: off
	ops    int
	photos []Photo[T]
}

// Photo is the disk as a power loss at one moment leaves it.
type Photo[T any] struct {
	FS    *vfs.MemFS
	Share int    // of what was not synced that survives, in percent
	Op    string // that was about to be done
	Known T
}

// String says where the crash was.
func (p Photo[T]) String() string { return fmt.Sprintf("%d %% unsynced, before %s", p.Share, p.Op) }

// Shares are how much of the unsynced data survives a power loss, in percent.
func Shares() []int { return []int{0, 25, 50, 75, 100} }

// FS is the disk seen through the camera.
func (c *Camera[T]) FS() vfs.FS { return errorfs.Wrap(c.Disk, c) }

// On begins to take pictures.
func (c *Camera[T]) On(know func() T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.know = know
}

// Off ends it, and answers the pictures and how many operations there were.
func (c *Camera[T]) Off() (photos []Photo[T], ops int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.know = nil
	return c.photos, c.ops
}

// MaybeError implements errorfs.Injector. It never injects an error.
func (c *Camera[T]) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpCreate, errorfs.OpLink, errorfs.OpRemove, errorfs.OpRename, errorfs.OpReuseForWrite, errorfs.OpMkdirAll,
		errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
	default:
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.know == nil {
		return nil
	}
	if c.ops++; c.Every > 1 && c.RNG.IntN(c.Every) != 0 {
		return nil
	}
	share := Shares()[(c.First+len(c.photos))%len(Shares())]
	known := c.know()
	clone := c.Disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: share, RNG: c.RNG})
	c.photos = append(c.photos, Photo[T]{FS: clone, Share: share, Op: fmt.Sprint(op.Kind, " ", op.Path), Known: known})
	return nil
}

// String implements errorfs.Injector.
func (c *Camera[T]) String() string { return "camera" }
