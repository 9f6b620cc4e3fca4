package kvpebble

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskfs"
	"github.com/mayflyhq/mayfly/store/storetest"
)

func TestNothingIsAcknowledgedAfterAFailedDurableWrite(t *testing.T) {
	for name, match := range map[string]func(op errorfs.Op) bool{
		"fsync of the write-ahead log": func(op errorfs.Op) bool {
			return strings.HasSuffix(op.Path, ".log") && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData)
		},
		"every write": func(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite },
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			toggle := &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
				if match(op) {
					return syscall.EIO
				}
				return nil
			})}
			s := openWith(t, Options{FS: errorfs.Wrap(mem, toggle)})
			var acked sync.Map
			var begun atomic.Int64 // writes of all writers: one alone may wait long for a processor
			var wg sync.WaitGroup
			for w := range 8 {
				wg.Go(func() {
					for i := range 1000 {
						if begun.Add(1) == 160 {
							toggle.On()
						}
						key := fmt.Sprint(w, " ", i)
						_, err := s.Apply(t.Context(), testSpace, testNow, store.KVGroup{Ops: []store.KVOp{set(key, "v", 0)}})
						if err != nil {
							if !errors.Is(err, mayfly.Unavailable) {
								t.Errorf("%v is not Unavailable", err)
							}
							return
						}
						acked.Store(key, true)
					}
					t.Error("every write was acknowledged")
				})
			}
			wg.Wait()
			if s.Fuse().Err() == nil {
				t.Error("the fuse has not blown")
			}
			if _, err := s.Get(t.Context(), testSpace, testNow, "k"); !errors.Is(err, mayfly.Unavailable) {
				t.Errorf("a read after the failure: %v", err)
			}
			after := openWith(t, Options{FS: mem.CrashClone(vfs.CrashCloneCfg{})})
			n := 0
			acked.Range(func(key, _ any) bool {
				n++
				if !get(t, after, testNow, key.(string)).Found {
					t.Errorf("LOST %s", key)
				}
				return true
			})
			t.Logf("%d acknowledged writes are there", n)
			if n < 20 {
				t.Error("too few to prove anything")
			}
		})
	}
}

// little is a file system with little free space.
type little struct{ vfs.FS }

func (little) GetDiskUsage(string) (vfs.DiskUsage, error) { return vfs.DiskUsage{AvailBytes: 99}, nil }

func TestBelowTheFreeSpaceFloorOnlyDeletesPass(t *testing.T) {
	disk := vfs.NewMem()
	s := openWith(t, Options{FS: disk})
	apply(t, s, testNow, set("k", "v", 0))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openWith(t, Options{FS: little{disk}, Floor: 100})
	if _, err := s.Apply(t.Context(), testSpace, testNow, store.KVGroup{Ops: []store.KVOp{set("k", "w", 0)}}); !errors.Is(err, mayfly.Full) {
		t.Errorf("a set below the floor: %v", err)
	}
	if string(get(t, s, testNow, "k").Value) != "v" {
		t.Error("the entry was changed")
	}
	apply(t, s, testNow, store.KVOp{Key: "k", Action: store.KVDelete})
}

// Without group commit every write would wait for a sync of its own.
func TestConcurrentWritersShareSyncs(t *testing.T) {
	var meter diskfs.Meter
	s, err := Open(Options{FS: diskfs.Metered(vfs.Default, &meter), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const writers, each = 50, 40
	before := meter.Read()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if _, err := s.Apply(t.Context(), testSpace, testNow, store.KVGroup{Ops: []store.KVOp{set(fmt.Sprint(w, " ", i), "v", 0)}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	syncs := meter.Read().Since(before).WAL.Syncs
	storetest.Proof(t, "key-value writers", "writes per sync", writers*each/max(syncs, 1))
	if syncs*3 > writers*each {
		t.Errorf("%d writes took %d syncs", writers*each, syncs)
	}
}

// A write that comes while its span is rewritten must neither be lost nor be undone.
func TestWritersWaitWhileTheirSpanIsRewritten(t *testing.T) {
	s := openWith(t, Options{FS: vfs.NewMem()})
	quiet := store.KVSpace{Name: testSpace.Name} // each minute of its index of expiries would end in a range tombstone
	var now atomic.Int64
	now.Store(int64(testNow))
	stop := make(chan struct{})
	var reclaimer sync.WaitGroup
	var rewrites, entries atomic.Int64
	reclaimer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.Gosched() // on one processor the writers go on
			}
			r, err := s.Reclaim(context.Background(), mayfly.Instant(now.Add(int64(minute))))
			if err != nil {
				t.Error(err)
				return
			}
			if entries.Add(r.Entries); r.Entries > 0 {
				rewrites.Add(1)
			}
		}
	})
	const writers, least, most, enough = 4, 1500, 100_000, 30
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			last := map[string]uint64{}
			for i := 0; i < least || i < most && rewrites.Load() < enough; i++ {
				at := mayfly.Instant(now.Load())
				key := fmt.Sprintf("%03d %d", i%500, w)
				r, err := s.Apply(t.Context(), quiet, at, store.KVGroup{Ops: []store.KVOp{
					set(key, strings.Repeat("v", 50), 0), set(key+" ends", "v", at+1),
				}})
				if err != nil {
					t.Error(err)
					return
				}
				last[key] = r[0].New.Version
			}
			for key, version := range last {
				if got := get(t, s, testNow, key); got.Version != version {
					t.Errorf("LOST %q: version %d, was written as %d", key, got.Version, version)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	reclaimer.Wait()
	checkCounts(t, s)
	t.Logf("%d rewrites took %d entries back", rewrites.Load(), entries.Load())
	if rewrites.Load() < enough || entries.Load() < 100 {
		t.Error("too few rewrites to prove anything")
	}
}

func TestVersionsGrowOverDeletesAndRestarts(t *testing.T) {
	disk := vfs.NewMem()
	last := uint64(0)
	for range 5 {
		s := openWith(t, Options{FS: disk})
		s.versions.last.Store(s.versions.mark - versionBlock/2 - 3) // so that a block comes near its end
		for range 10 {
			r := apply(t, s, testNow, set("k", "v", 0), set("k", "w", 0))
			if v := r[0].New.Version; v <= last || r[1].New.Version <= v {
				t.Fatalf("versions %d and %d after %d", v, r[1].New.Version, last)
			}
			last = r[1].New.Version
			apply(t, s, testNow, store.KVOp{Key: "k", Action: store.KVDelete})
		}
		if s.versions.mark-last < versionBlock {
			t.Errorf("version %d is near the mark %d", last, s.versions.mark)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEverySecondWritesBecomeDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewCrashableMem()
		s, err := Open(Options{FS: disk, Dir: "kv", Sync: EverySec})
		if err != nil {
			t.Fatal(err)
		}
		apply(t, s, testNow, set("k", "v", 0))
		lost := disk.CrashClone(vfs.CrashCloneCfg{})
		time.Sleep(1100 * time.Millisecond)
		kept := disk.CrashClone(vfs.CrashCloneCfg{})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for clone, want := range map[*vfs.MemFS]bool{lost: false, kept: true} {
			s, err := Open(Options{FS: clone, Dir: "kv"})
			if err != nil {
				t.Fatal(err)
			}
			if get(t, s, testNow, "k").Found != want {
				t.Errorf("after a crash the entry is found: %t", !want)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestAnUnknownFormatIsRefused(t *testing.T) {
	for name, write := range map[string]func(*pebble.DB) error{
		"later format": func(db *pebble.DB) error {
			return db.Set([]byte{metaPrefix, metaFormat}, []byte{0, 0, 0, Format + 1}, pebble.Sync)
		},
		"foreign database": func(db *pebble.DB) error { return db.Set([]byte("x"), nil, pebble.Sync) },
	} {
		disk := vfs.NewMem()
		db, err := pebble.Open("kv", &pebble.Options{FS: disk, Merger: counter()})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(write(db), db.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Options{FS: disk, Dir: "kv"}); !errors.Is(err, mayfly.Unsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAClosedStoreRefusesCalls(t *testing.T) {
	s := openWith(t, Options{FS: vfs.NewMem()})
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	_, getErr := s.Get(t.Context(), testSpace, testNow, "k")
	_, applyErr := s.Apply(t.Context(), testSpace, testNow, store.KVGroup{Ops: []store.KVOp{set("k", "v", 0)}})
	_, reclaimErr := s.Reclaim(t.Context(), testNow)
	for _, err := range []error{getErr, applyErr, reclaimErr, s.Drop(t.Context(), testSpace)} {
		if !errors.Is(err, mayfly.Unavailable) {
			t.Errorf("a call after Close: %v", err)
		}
	}
}

func TestKeysThatExpiredLongAgoAreForgotten(t *testing.T) {
	s := openWith(t, Options{FS: vfs.NewMem()})
	other := store.KVSpace{Name: "testa", Events: true}
	for i := range 10 {
		at := testNow + mayfly.Instant(i+1)*minute
		apply(t, s, testNow, set(fmt.Sprint(i), "v", at))
		if _, err := s.Apply(t.Context(), other, testNow, store.KVGroup{Ops: []store.KVOp{set(fmt.Sprint(i), "v", at)}}); err != nil {
			t.Fatal(err)
		}
	}
	now := testNow + 10*minute
	reclaimAll(t, s, now)
	for _, space := range []store.KVSpace{testSpace, other} {
		due, err := s.Due(t.Context(), space, now, store.KVDue{}, 100)
		if err != nil || len(due) != 6 || due[0].At != now.Add(-store.KVRemembers) {
			t.Errorf("%s: due %v, %v", space.Name, due, err)
		}
	}
}
