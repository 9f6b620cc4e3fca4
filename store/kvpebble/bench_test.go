package kvpebble

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskfs"
)

// BenchmarkKV writes and reads 64 bytes by 50 goroutines, as pipelines of 1 and of 16,
// on the disk of the temporary folder. An operation is one key.
func BenchmarkKV(b *testing.B) {
	const clients, keys = 50, 200_000
	key := func(i int) string { return fmt.Sprintf("key:%012d", i) }
	value := []byte(strings.Repeat("v", 64))
	for _, durable := range []Sync{Always, EverySec} {
		for _, pipeline := range []int{1, 16} {
			for _, action := range []string{"set", "get"} {
				if action == "get" && durable == EverySec {
					continue
				}
				b.Run(fmt.Sprintf("%s/%s/p%d", action, durable, pipeline), func(b *testing.B) {
					var meter diskfs.Meter
					s, err := Open(Options{FS: diskfs.Metered(vfs.Default, &meter), Dir: b.TempDir(), Sync: durable})
					if err != nil {
						b.Fatal(err)
					}
					defer s.Close()
					space := store.KVSpace{Name: "bench"}
					if action == "get" {
						for from := 0; from < keys; from += 1000 {
							var g store.KVGroup
							for i := range 1000 {
								g.Ops = append(g.Ops, store.KVOp{Key: key(from + i), Action: store.KVSet, Value: value, Expiry: testNow + minute})
							}
							if _, err := s.Apply(b.Context(), space, testNow, g); err != nil {
								b.Fatal(err)
							}
						}
						if err := s.db.Flush(); err != nil {
							b.Fatal(err)
						}
					}
					before := meter.Read()
					var left atomic.Int64
					left.Store(int64(b.N))
					var wg sync.WaitGroup
					b.ResetTimer()
					for range clients {
						wg.Go(func() {
							names := make([]string, pipeline)
							for left.Add(-int64(pipeline)) > -int64(pipeline) {
								var g store.KVGroup
								for i := range names {
									names[i] = key(rand.IntN(keys))
									g.Ops = append(g.Ops, store.KVOp{Key: names[i], Action: store.KVSet, Value: value, Expiry: testNow + minute})
								}
								var err error
								if action == "get" {
									_, err = s.Get(b.Context(), space, testNow, names...)
								} else {
									_, err = s.Apply(b.Context(), space, testNow, g)
								}
								if err != nil {
									b.Error(err)
								}
							}
						})
					}
					wg.Wait()
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "keys/s")
					if syncs := meter.Read().Since(before).WAL.Syncs; syncs > 0 {
						b.ReportMetric(float64(b.N)/float64(syncs), "keys/sync")
					}
				})
			}
		}
	}
}
