//go:build servers

package cassandrastore

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// BenchmarkSweep moves stories from active to expired_hot on 16 pigeonholes at
// once: one conditional batch for each page against one conditional write for
// each row, on the same table. An operation is one story.
func BenchmarkSweep(b *testing.B) {
	s := openTestStore(b)
	const clients = 16
	for _, size := range []int{1, 50, largestBatch} {
		b.Run(fmt.Sprintf("rows=%d", size), func(b *testing.B) {
			var holes [clients][]mayfly.Item
			each := (b.N + clients - 1) / clients
			for n := range holes {
				fresh := births(b, each, "24h")
				holes[n] = itemsOf(fresh)
				for from := 0; from < each; from += 1000 {
					insert(b, s, fresh[from:min(from+1000, each)]...)
				}
			}
			b.ResetTimer()
			var applied atomic.Int64
			var wg sync.WaitGroup
			for _, items := range holes {
				wg.Go(func() {
					for len(items) > 0 {
						n := min(size, len(items))
						changes := make([]mayfly.Change, n)
						for i, item := range items[:n] {
							changes[i] = expire(item)
						}
						items = items[n:]
						outcomes, err := s.Ledger().Transition(b.Context(), changes)
						if err != nil {
							b.Error(err)
							return
						}
						for _, o := range outcomes {
							if o.Result == store.Applied {
								applied.Add(1)
							}
						}
					}
				})
			}
			wg.Wait()
			if applied.Load() != int64(each*clients) {
				b.Errorf("%d of %d stories were swept", applied.Load(), each*clients)
			}
			b.ReportMetric(float64(applied.Load())/b.Elapsed().Seconds(), "stories/s")
		})
	}
}

// BenchmarkBirth publishes stories: row and body, by 16 clients.
func BenchmarkBirth(b *testing.B) {
	s := openTestStore(b)
	b.SetParallelism(8)
	var fresh atomic.Int64
	all := births(b, b.N, "24h")
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			var batch store.Batch
			batch.Insert(all[fresh.Add(1)-1])
			if err := s.Writer().Commit(b.Context(), &batch); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "births/s")
}
