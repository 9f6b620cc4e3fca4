package kvpebble

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mayflyhq/mayfly/store"
)

// slowSyncs is a file system in memory on which a sync of the write-ahead log takes so
// long; it counts them.
func slowSyncs(takes time.Duration, syncs *atomic.Int64) vfs.FS {
	return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if strings.HasSuffix(op.Path, ".log") && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) {
			syncs.Add(1)
			time.Sleep(takes)
		}
		return nil
	}))
}

// increment adds 1 to the number in the value.
func increment(key string) store.KVOp {
	return store.KVOp{Key: key, Action: store.KVUpdate, Update: func(old store.KVEntry) ([]byte, error) {
		n, _ := strconv.Atoi(string(old.Value))
		return strconv.AppendInt(nil, int64(n)+1, 10), nil
	}}
}

func TestCallersThatWriteAgainAndAgainShareSyncs(t *testing.T) {
	const callers, writes, takes = 50, 40, 10 * time.Millisecond
	for name, keys := range map[string]int{"keys of their own": callers, "one key": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var syncs atomic.Int64
				s, err := Open(Options{FS: slowSyncs(takes, &syncs), Dir: "kv"})
				if err != nil {
					t.Fatal(err)
				}
				opened := syncs.Load()
				var clients sync.WaitGroup
				for c := range callers {
					clients.Go(func() {
						for range writes {
							apply(t, s, testNow, increment(fmt.Sprint(c%keys)))
						}
					})
				}
				clients.Wait()
				total := 0
				for k := range keys {
					n, _ := strconv.Atoi(string(get(t, s, testNow, fmt.Sprint(k)).Value))
					total += n
				}
				if total != callers*writes {
					t.Errorf("LOST: the numbers add up to %d after %d increments", total, callers*writes)
				}
				t.Logf("%d writes, %d syncs", callers*writes, syncs.Load()-opened)
				if took := syncs.Load() - opened; took > writes+writes/4 {
					t.Errorf("%d writes of %d callers took %d syncs", callers*writes, callers, took)
				}
				checkCounts(t, s)

				apply(t, s, testNow, set("alone", "v", 0)) // waits for the others once
				for range 5 {
					began := time.Now()
					apply(t, s, testNow, set("alone", "w", 0))
					if took := time.Since(began); took != takes {
						t.Errorf("the write of a caller alone took %s, a sync takes %s", took, takes)
					}
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
