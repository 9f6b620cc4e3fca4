package kvpebble

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/pace"
)

// Clients change keys by compare-and-set while the disk loses what was not synced, again
// and again: what they were answered is explained by one register for each key.
func TestCompareAndSetIsLinearizableOverPowerLoss(t *testing.T) {
	random := seeded(t)
	h := storetest.NewKVHistory(4)
	disk := vfs.NewCrashableMem()
	rounds := 6
	if pace.Long() {
		rounds = 60
	}
	for round := range rounds {
		s, err := Open(Options{FS: disk, Dir: "kv", MemtableBytes: 64 << 10, CacheBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var crashed atomic.Bool
		var clients sync.WaitGroup
		for client := range 6 {
			r := rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
			clients.Go(func() { h.Client(ctx, s, r, client, crashed.Load) })
		}
		time.Sleep(time.Duration(5+random.IntN(40)) * time.Millisecond)
		for begin := time.Now(); h.Swapped() < 20*(round+1) && time.Since(begin) < 10*time.Second; { // a busy machine does little in that time
			time.Sleep(time.Millisecond)
		}
		crashed.Store(true) // what is answered from now on may be on the disk or not
		disk = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: random.IntN(101), RNG: rand.New(rand.NewPCG(random.Uint64(), 1))})
		stop()
		clients.Wait()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	h.Check(t, "compare-and-set over power loss", pace.Least(100))
}
