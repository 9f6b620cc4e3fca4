//go:build unix

package diskstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskfs"
)

// BenchmarkWays measures the ways to keep media that docs/decisions/0002 weighs,
// on the disk that holds the temporary folder:
//
//	go test ./store/diskstore -run NONE -bench Ways -benchtime 1x
//
// Each way is filled by 64 writers, and each put is followed by a durable commit
// of 300 bytes in another database, as a birth does. The ways take turns, round
// by round, because machines are noisy.
func BenchmarkWays(b *testing.B) {
	for _, size := range []int{8, 32, 64, 128, 512} {
		b.Run(fmt.Sprintf("%dKiB", size), func(b *testing.B) {
			for range b.N {
				compare(b, size*kibibyte, min(40_000, 640*mebibyte/(size*kibibyte)))
			}
		})
	}
}

func compare(b *testing.B, size, objects int) {
	const rounds = 4
	each := objects / rounds
	race := &race{noise: noise(rand.New(rand.NewPCG(1, 2)), 16*mebibyte), size: size}
	race.ledger, _ = openWay(b, nil)
	var ways []*contender
	for _, name := range []string{"a file each", "values in the LSM", "values apart", "volumes"} {
		ways = append(ways, newContender(b, name))
	}
	for round := range rounds {
		for _, w := range ways {
			w.fill(b, race, round*each, each)
		}
	}
	live := float64(each*rounds) * float64(size)
	text := fmt.Sprintf("%d objects of %d KiB\n%-18s %8s %8s %9s %9s %8s %8s %9s %9s %9s\n", each*rounds, size/kibibyte,
		"", "puts/s", "CPU µs", "written/B", "fsyncs", "reads/s", "p99 µs", "disk/live", "deletes/s", "left MiB")
	for _, w := range ways {
		n := float64(each * rounds)
		read, p99 := w.readAll(b, race, each*rounds)
		disk := w.disk()
		deleted := w.deleteAll(b, each*rounds)
		text += fmt.Sprintf("%-18s %8.0f %8.0f %9.2f %9.3f %8.0f %8.0f %9.2f %9.0f %9.1f\n", w.name,
			n/w.took.Seconds(), float64(w.cpu.Microseconds())/n, float64(w.wrote.Bytes)/live, float64(w.wrote.Syncs)/n,
			read, p99, disk/live, deleted, w.disk()/mebibyte)
		b.ReportMetric(n/w.took.Seconds(), w.unit()+"-puts/s")
		w.close()
	}
	b.Log("\n" + text)
}

// race is what is the same for all.
type race struct {
	ledger *pebble.DB
	noise  []byte
	size   int
}

func (r *race) object(n int) []byte {
	at := n * 7919 % (len(r.noise) - r.size)
	return r.noise[at : at+r.size]
}

// contender is a way with what it has cost so far.
type contender struct {
	way
	name  string
	fs    *diskfs.RootFS
	meter *diskfs.Meter
	took  time.Duration
	cpu   time.Duration
	wrote diskfs.Count
}

func (c *contender) unit() string {
	return string(bytes.ReplaceAll([]byte(c.name), []byte(" "), []byte("-")))
}

func (c *contender) fill(b *testing.B, r *race, from, n int) {
	before, cpu, start := c.meter.Read(), cpuTime(), time.Now()
	together(b, 64, n, func(i int) error {
		if err := c.put(testKey(from+i), r.object(from+i)); err != nil {
			return err
		}
		return r.ledger.Set(fmt.Appendf(nil, "%s%020d", c.name, from+i), r.noise[:300], pebble.Sync)
	})
	c.took += time.Since(start)
	c.settle()
	c.cpu += cpuTime() - cpu
	wrote := c.meter.Read().Since(before).Total()
	c.wrote.Bytes, c.wrote.Syncs = c.wrote.Bytes+wrote.Bytes, c.wrote.Syncs+wrote.Syncs
}

// readAll reads each object once, two readers in an order of their own.
func (c *contender) readAll(b *testing.B, r *race, n int) (perSecond, p99 float64) {
	times := make([]time.Duration, n)
	start := time.Now()
	together(b, 2, n, func(i int) error {
		from, k := time.Now(), i*7919%n
		data, err := c.get(testKey(k))
		if err == nil && !bytes.Equal(data, r.object(k)) {
			err = fmt.Errorf("object %d is not what was put", k)
		}
		times[i] = time.Since(from)
		return err
	})
	perSecond = float64(n) / time.Since(start).Seconds()
	slices.Sort(times)
	return perSecond, float64(times[n*99/100].Microseconds())
}

// deleteAll deletes in the order of birth, 500 at a time.
func (c *contender) deleteAll(b *testing.B, n int) (perSecond float64) {
	start := time.Now()
	for from := 0; from < n; from += 500 {
		var keys []mayfly.BlobKey
		for i := from; i < min(n, from+500); i++ {
			keys = append(keys, testKey(i))
		}
		if err := c.del(keys); err != nil {
			b.Fatal(err)
		}
	}
	perSecond = float64(n) / time.Since(start).Seconds()
	c.settle()
	return perSecond
}

func (c *contender) disk() float64 { return float64(sizeOf(c.fs, ".")) }

func sizeOf(fs vfs.FS, dir string) (total int64) {
	names, _ := fs.List(dir)
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		info, err := fs.Stat(path)
		switch {
		case err != nil: // removed meanwhile
		case info.IsDir():
			total += sizeOf(fs, path)
		default:
			total += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
	}
	return total
}

func together(b *testing.B, workers, n int, do func(int) error) {
	b.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// product is the way that was taken.
type product struct{ *Store }

func (p product) put(key mayfly.BlobKey, data []byte) error {
	_, err := p.Put(p.ctx(), key, bytes.NewReader(data))
	return err
}

func (p product) get(key mayfly.BlobKey) ([]byte, error) {
	r, o, err := p.Open(p.ctx(), key, store.Span{})
	if err != nil {
		return nil, err
	}
	data := make([]byte, o.Size)
	_, err = io.ReadFull(r, data)
	return data, errors.Join(err, r.Close())
}

func (p product) del(keys []mayfly.BlobKey) error { return p.Delete(p.ctx(), keys...) }
func (p product) close()                          { _ = p.Close() }

func (p product) settle() {
	p.behind.Wait()
	_ = p.Reclaim(p.ctx()) // as a node does from time to time
}
