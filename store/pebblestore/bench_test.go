package pebblestore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/store"
)

// load inserts n stories whose deadlines are spread over one minute.
func load(b *testing.B, s *Store, n int, minute mayfly.Minute) {
	b.Helper()
	r := rand.New(rand.NewPCG(1, uint64(minute)))
	for done := 0; done < n; {
		var batch store.Batch
		for range min(1000, n-done) {
			at := minute.Start() - 24*3_600_000 + mayfly.Instant(done*60_000/n) // in order, as births come
			batch.Insert(birth(b, r, at, "24h"))
			done++
		}
		if err := s.Writer().Commit(b.Context(), &batch); err != nil {
			b.Fatal(err)
		}
	}
}

// sweep walks one pigeonhole as the engine does: read a page, transition, append.
func sweep(ctx context.Context, s *Store, minute mayfly.Minute, shard mayfly.Shard, page int) (int, error) {
	stretch := store.Stretch{Minute: minute, Shard: shard, To: (minute + 1).Start() - 1}
	swept := 0
	for {
		items, err := s.Ledger().Walk(ctx, stretch, page)
		if err != nil || len(items) == 0 {
			return swept, err
		}
		changes := make([]mayfly.Change, len(items))
		for i := range items {
			changes[i] = expire(items[i], mayfly.Nonce(i)+1)
		}
		outcomes, err := s.Ledger().Transition(ctx, changes)
		if err != nil {
			return swept, err
		}
		events := make([]mayfly.Event, 0, len(outcomes))
		for i := range outcomes {
			if outcomes[i].Result == store.Applied {
				events = append(events, mayfly.EventOf(outcomes[i].Current, mayfly.WasExpired))
			}
		}
		if err := s.Log().Append(ctx, events...); err != nil {
			return swept, err
		}
		swept += len(events)
		stretch.After = store.PositionOf(items[len(items)-1])
	}
}

// BenchmarkSweep measures expiry on a real disk: walk a page of 500, transition it,
// append its events, all durable, with one goroutine for each shard.
func BenchmarkSweep(b *testing.B) {
	s := openWith(b, Options{FS: vfs.Default, Dir: b.TempDir()})
	minute := mayfly.Minute(30_000_000)
	load(b, s, b.N, minute)
	b.ReportAllocs()
	b.ResetTimer()
	var total atomic.Int64
	var wg sync.WaitGroup
	for shard := range mayfly.Shard(mayfly.Shards) {
		wg.Go(func() {
			n, err := sweep(b.Context(), s, minute, shard, 500)
			if err != nil {
				b.Error(err)
			}
			total.Add(int64(n))
		})
	}
	wg.Wait()
	b.StopTimer()
	if total.Load() != int64(b.N) {
		b.Fatalf("swept %d of %d", total.Load(), b.N)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "stories/s")
}

// BenchmarkTransition measures calls with 500 changes of one pigeonhole, durable, by
// one goroutine; no row is changed twice.
func BenchmarkTransition(b *testing.B) {
	const page = 500
	s := openWith(b, Options{FS: vfs.Default, Dir: b.TempDir()})
	minute := mayfly.Minute(30_000_000)
	load(b, s, b.N*page*17, minute)
	stretch := store.Stretch{Minute: minute, Shard: 3, To: (minute + 1).Start()}
	var calls [][]mayfly.Change
	for range b.N {
		items, err := s.Ledger().Walk(b.Context(), stretch, page)
		if err != nil || len(items) != page {
			b.Fatal(len(items), err)
		}
		changes := make([]mayfly.Change, page)
		for i := range items {
			changes[i] = expire(items[i], 1)
		}
		calls = append(calls, changes)
		stretch.After = store.PositionOf(items[page-1])
	}
	b.ReportAllocs()
	b.ResetTimer()
	for _, changes := range calls {
		outcomes, err := s.Ledger().Transition(b.Context(), changes)
		if err != nil || outcomes[0].Result != store.Applied {
			b.Fatal(outcomes, err)
		}
	}
	b.ReportMetric(page*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkBirths measures births as the engine commits them (owner index, item,
// event) with 64 writers.
func BenchmarkBirths(b *testing.B) {
	s := openWith(b, Options{FS: vfs.Default, Dir: b.TempDir(), Floor: 1})
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for w := range 64 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(2, uint64(w)))
			for next.Add(1) <= int64(b.N) {
				one := birth(b, r, testBirth+mayfly.Instant(next.Load()/20), "24h")
				var batch store.Batch
				batch.Put(engine.Owners, store.Key{Partition: string(one.Item.Owner[:]), Clustering: string(one.Item.ID[:])}, nil, 0)
				batch.Then()
				batch.Insert(one)
				batch.Then()
				batch.Append(mayfly.EventOf(one.Item, mayfly.WasCreated))
				if err := s.Writer().Commit(b.Context(), &batch); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "births/s")
}

// BenchmarkGrowth inserts b.N live stories of one day, reopens the store, and sweeps
// one minute of them: the cost must not depend on b.N.
func BenchmarkGrowth(b *testing.B) {
	const due, day = 100_000, 1440
	dir := b.TempDir()
	s := openWith(b, Options{FS: vfs.Default, Dir: dir})
	minute := mayfly.Minute(30_000_000)
	for m := range mayfly.Minute(day) {
		load(b, s, b.N/day, minute+1+m)
	}
	load(b, s, due, minute)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	s = openWith(b, Options{FS: vfs.Default, Dir: dir})
	opened := b.Elapsed()
	var wg sync.WaitGroup
	for shard := range mayfly.Shard(mayfly.Shards) {
		wg.Go(func() {
			if _, err := sweep(b.Context(), s, minute, shard, 500); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(due/(b.Elapsed()-opened).Seconds(), "stories/s")
	b.ReportMetric(opened.Seconds(), "open-s")
	b.ReportMetric(float64(s.Figures().DiskBytes)/float64(b.N+due), "B/item")
	b.ReportMetric(float64(s.Figures().ReadAmp), "readamp")
	b.ReportMetric(residentMiB(b), "MiB-resident")
}

func residentMiB(b *testing.B) float64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident int
	if _, err := fmt.Sscan(string(data), &size, &resident); err != nil {
		b.Fatal(err)
	}
	return float64(resident*os.Getpagesize()) / mebibyte
}
