package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskfs"
)

// baselineTurns is how often the product and its baseline are measured, one after
// the other. Machines differ by half from hour to hour, so that only a ratio of
// the same minutes can be compared with another run.
const baselineTurns = 3

// medianRatio returns the median of the ratios of a to b, turn by turn.
func medianRatio(a, b []float64) float64 {
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = a[i] / b[i]
	}
	return median(ratios)
}

// syncedIO returns what was written to write-ahead logs and media files, and how
// often they were synced: what acknowledged writes wait for. Tables are left out,
// because flushes and compactions write them later.
func syncedIO(m *diskfs.Meter) benchIO {
	c := m.Read()
	return benchIO{fsyncs: c.WAL.Syncs + c.Media.Syncs, bytes: c.WAL.Bytes + c.Media.Bytes}
}

// bareWrites describes the synced writes of one turn of the product, to be
// repeated without the product.
type bareWrites struct {
	writers int     // concurrent writers
	bytes   int     // of one write
	syncs   float64 // for each write; below 1 if one sync serves several writes
}

// newBareWrites divides what count operations of the product wrote among them.
func newBareWrites(writers int, io benchIO, count int64) bareWrites {
	n := float64(max(count, 1))
	return bareWrites{writers: writers, bytes: max(1, int(float64(io.bytes)/n)), syncs: float64(io.fsyncs) / n}
}

// run repeats the writes in a new file in folder until more returns false, and
// returns how many were acknowledged in a second.
func (w bareWrites) run(ctx context.Context, folder string, more func(written int64) bool) (float64, error) {
	f, err := openSyncedFile(folder, w)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	written, err := w.write(ctx, f, more)
	took := time.Since(start)
	return float64(written) / took.Seconds(), errors.Join(err, f.close())
}

// write lets all writers write until more returns false.
func (w bareWrites) write(ctx context.Context, f *syncedFile, more func(written int64) bool) (int64, error) {
	var written atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for n := range w.writers {
		g.Go(func() error {
			defer f.leave()
			record := opaque(uint64(n), w.bytes)
			for more(written.Load()) && ctx.Err() == nil {
				if err := f.write(record); err != nil {
					return err
				}
				written.Add(1)
			}
			return ctx.Err()
		})
	}
	err := g.Wait()
	return written.Load(), err
}

// opaque returns n bytes that do not compress.
func opaque(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 17))
	b := make([]byte, n+8)
	for i := 0; i < n; i += 8 {
		binary.BigEndian.PutUint64(b[i:], r.Uint64())
	}
	return b[:n]
}

// syncedFile is a file that several writers append to. A write returns after it
// has been synced; one sync serves as many writes as it does in the product. Groups
// are written and synced one after the other, so that no sync finds its bytes
// synced already and costs nothing.
type syncedFile struct {
	root  *diskfs.RootFS
	syncs float64 // for each write

	disk sync.Mutex // held while a group is written and synced
	file vfs.File

	mu      sync.Mutex
	owed    float64 // syncs for what has been written
	writers int     // that have not left
	waiting int     // of them wait for the sync of another one
	group   *syncGroup
}

// syncGroup is a set of writes that one sync acknowledges.
type syncGroup struct {
	buf  []byte
	size int // writers that wait
	done chan struct{}
	err  error // set before done is closed
}

func newSyncGroup() *syncGroup { return &syncGroup{done: make(chan struct{})} }

func openSyncedFile(folder string, w bareWrites) (*syncedFile, error) {
	root, err := diskfs.Root(folder)
	if err != nil {
		return nil, err
	}
	file, err := root.Create("bare", "mayfly-bench")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &syncedFile{root: root, file: file, syncs: w.syncs, writers: w.writers, group: newSyncGroup()}, nil
}

// write appends a record and returns when it is durable. The writer that makes
// the next sync due syncs for its group; so does the last one that could, if all
// others wait.
func (f *syncedFile) write(record []byte) error {
	f.mu.Lock()
	f.owed += f.syncs
	g := f.group
	g.buf = append(g.buf, record...)
	if f.owed < 1 && f.waiting+1 < f.writers {
		g.size++
		f.waiting++
		f.mu.Unlock()
		<-g.done
		return g.err
	}
	return f.syncGroup()
}

// syncGroup writes and syncs the current group, in as many parts as there are syncs
// to do. It is called with the lock held, and releases it, so that the next group
// can form meanwhile.
func (f *syncedFile) syncGroup() error {
	g, times := f.group, max(1, int(f.owed))
	f.owed = max(0, f.owed-float64(times))
	f.group = newSyncGroup()
	f.mu.Unlock()
	f.disk.Lock()
	for part := range slices.Chunk(g.buf, (len(g.buf)+times-1)/times) {
		if _, g.err = f.file.Write(part); g.err == nil {
			g.err = f.file.SyncData()
		}
		if g.err != nil {
			break
		}
	}
	f.disk.Unlock()
	f.mu.Lock()
	f.waiting -= g.size
	f.mu.Unlock()
	close(g.done)
	return g.err
}

// leave says that a writer writes no more. If all that are left wait, it syncs
// for them.
func (f *syncedFile) leave() {
	f.mu.Lock()
	f.writers--
	if f.group.size > 0 && f.waiting >= f.writers {
		_ = f.syncGroup() // those that wait return the error
		return
	}
	f.mu.Unlock()
}

// close deletes the file: only its writes count.
func (f *syncedFile) close() error {
	return errors.Join(f.file.Close(), f.root.Remove("bare"), f.root.Close())
}

// barePebble writes as many bytes for each story as the sweep does, in batches of
// 500 stories with a sync each, from as many goroutines as there are shards, into
// an empty Pebble with the product's sizes and without compactions, which the
// product slows down while it sweeps. A story is an update of its row and an event.
func barePebble(ctx context.Context, folder string, stories, shards, bytesPerStory int) (perSecond float64, err error) {
	const perBatch, keySize = 500, 24
	logger := diskfs.Logger(store.NewFuse(), slog.New(slog.DiscardHandler))
	memory := config.Default().Memory
	db, err := pebble.Open(filepath.Join(folder, "pebble"), &pebble.Options{
		CacheSize: int64(memory.Cache) + int64(memory.Memtable), MemTableSize: uint64(memory.Memtable), MemTableStopWritesThreshold: 3,
		L0StopWritesThreshold: 1_000, DisableAutomaticCompactions: true, Logger: logger,
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	value := opaque(1, max(1, bytesPerStory/2-keySize))
	start := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for shard := range shards {
		g.Go(func() error {
			for done := shard * perBatch; done < stories && ctx.Err() == nil; done += shards * perBatch {
				batch := db.NewBatchWithSize(perBatch * (bytesPerStory + 2*keySize))
				for i := done; i < min(stories, done+perBatch); i++ {
					for _, table := range []byte{'r', 'e'} {
						var key [keySize]byte
						key[0], key[1] = table, byte(shard)
						binary.BigEndian.PutUint64(key[8:], uint64(i))
						if err := batch.Set(key[:], value, nil); err != nil {
							return errors.Join(err, batch.Close())
						}
					}
				}
				if err := errors.Join(batch.Commit(pebble.Sync), batch.Close()); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	err = g.Wait()
	return float64(stories) / time.Since(start).Seconds(), err
}
