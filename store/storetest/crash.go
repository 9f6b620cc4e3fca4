package storetest

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Crashes copies a disk as a power loss would leave it, before operations that change
// it. T is what the test knows at that moment, such as what had been acknowledged:
// it is read before the disk is copied, so that the copy must hold all of it.
type Crashes[T any] struct {
	Disk  *vfs.MemFS // made by vfs.NewCrashableMem
	RNG   *rand.Rand // chooses which unsynced data survives
	Every int        // copy before one operation in so many, at random; 0 or 1: before each
	First int        // index in Shares of the first copy's share
	Done  func()     // called when the disk is copied, if not nil: what is known may change again

	mu      sync.Mutex
	known   func() T // nil: off
	ops     int
	crashes []Crash[T]
}

// Crash is the disk as a power loss at one moment leaves it.
type Crash[T any] struct {
	FS    *vfs.MemFS
	Share int    // percentage of the unsynced data that survives
	Op    string // the operation that was about to be done
	Known T
}

// String says where the crash was.
func (p Crash[T]) String() string { return fmt.Sprintf("%d %% unsynced, before %s", p.Share, p.Op) }

// Shares returns the percentages of unsynced data that survive a power loss.
func Shares() []int { return []int{0, 25, 50, 75, 100} }

// FS returns the file system to open the store on.
func (c *Crashes[T]) FS() vfs.FS { return errorfs.Wrap(c.Disk, c) }

// On starts to copy the disk.
func (c *Crashes[T]) On(known func() T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = known
}

// Off stops it, and returns the copies and the number of operations.
func (c *Crashes[T]) Off() (crashes []Crash[T], ops int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = nil
	return c.crashes, c.ops
}

// MaybeError implements errorfs.Injector. It never injects an error.
func (c *Crashes[T]) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpCreate, errorfs.OpLink, errorfs.OpRemove, errorfs.OpRename, errorfs.OpReuseForWrite, errorfs.OpMkdirAll,
		errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
	default:
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		return nil
	}
	if c.ops++; c.Every > 1 && c.RNG.IntN(c.Every) != 0 {
		return nil
	}
	share := Shares()[(c.First+len(c.crashes))%len(Shares())]
	known := c.known()
	clone := c.Disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: share, RNG: c.RNG})
	if c.Done != nil {
		c.Done()
	}
	c.crashes = append(c.crashes, Crash[T]{FS: clone, Share: share, Op: fmt.Sprint(op.Kind, " ", op.Path), Known: known})
	return nil
}

// String implements errorfs.Injector.
func (c *Crashes[T]) String() string { return "crashes" }
