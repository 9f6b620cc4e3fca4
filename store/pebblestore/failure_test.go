package pebblestore

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// failing is a file system on which some calls fail once the toggle is on.
type failing struct {
	*errorfs.Toggle
	fs vfs.FS
}

func failWhen(under vfs.FS, err error, match func(op errorfs.Op) bool) failing {
	toggle := &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
		if match(op) {
			return err
		}
		return nil
	})}
	return failing{toggle, injected(under, toggle)}
}

// injected is errorfs that also injects into reused files: errorfs returns those
// unwrapped, and Pebble reuses its logs.
func injected(under vfs.FS, inj errorfs.Injector) vfs.FS { return reusing{errorfs.Wrap(under, inj)} }

type reusing struct{ *errorfs.FS }

func (r reusing) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := r.Rename(oldname, newname); err != nil {
		return nil, err
	}
	return r.OpenReadWrite(newname, category)
}

func writes(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite }

// diskFailures are the failures after which nothing may be acknowledged.
func diskFailures() map[string]struct {
	err   error
	match func(op errorfs.Op) bool
} {
	type failure = struct {
		err   error
		match func(op errorfs.Op) bool
	}
	return map[string]failure{
		"fsync of the write-ahead log": {syscall.EIO, func(op errorfs.Op) bool {
			return strings.HasSuffix(op.Path, ".log") && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData)
		}},
		"write of the write-ahead log on a full disk": {syscall.ENOSPC, func(op errorfs.Op) bool {
			return strings.HasSuffix(op.Path, ".log") && op.Kind == errorfs.OpFileWrite
		}},
		"creation of the next write-ahead log": {syscall.ENOSPC, func(op errorfs.Op) bool {
			return strings.HasSuffix(op.Path, ".log") && (op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpRename)
		}},
		"fsync of the manifest": {syscall.EIO, func(op errorfs.Op) bool {
			return strings.Contains(op.Path, "MANIFEST-") && op.Kind == errorfs.OpFileSync
		}},
		"every write, on a disk that became read-only": {syscall.EROFS, writes},
	}
}

// TestNothingIsAcknowledgedAfterAFailedDurableWrite writes from many goroutines until
// the disk fails: every call returns, and all acknowledged births are there after a
// power loss.
func TestNothingIsAcknowledgedAfterAFailedDurableWrite(t *testing.T) {
	for name, failure := range diskFailures() {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			disk := failWhen(mem, failure.err, failure.match)
			fuse := store.NewFuse()
			s := openWith(t, Options{FS: disk.fs, Dir: "db", Fuse: fuse, MemtableBytes: 64 << 10})
			r := seeded(t)
			var births [8][]store.Birth
			for w := range births {
				for range 300 {
					births[w] = append(births[w], birth(t, r, testBirth, "24h"))
				}
			}
			var wg sync.WaitGroup
			var acked [8]int
			for w := range births {
				wg.Go(func() {
					for i, one := range births[w] {
						if w == 0 && i == 20 {
							disk.On()
						}
						var b store.Batch
						b.Insert(one)
						b.Append(mayfly.EventOf(one.Item, mayfly.WasCreated))
						if err := s.Writer().Commit(t.Context(), &b); err != nil {
							if !errors.Is(err, mayfly.Unavailable) {
								t.Errorf("%v is not Unavailable", err)
							}
							return
						}
						acked[w] = i + 1
					}
				})
			}
			wg.Wait()
			<-fuse.Blown()
			wantStopped(t, s, birth(t, r, testBirth, "24h"))
			if err := s.Close(); !errors.Is(err, mayfly.Unavailable) {
				t.Errorf("Close returns %v", err)
			}
			again := openMem(t, mem.CrashClone(vfs.CrashCloneCfg{}))
			total := 0
			for w := range births {
				for _, one := range births[w][:acked[w]] {
					total++
					if _, ok := found(t, again, one.Item.ID); !ok {
						t.Fatalf("%s was acknowledged and is not there", one.Item.ID)
					}
				}
			}
			t.Logf("%d births were acknowledged before the failure", total)
			if total == 0 {
				t.Error("nothing was acknowledged before the failure, so nothing is proved")
			}
		})
	}
}

func wantStopped(t *testing.T, s *Store, one store.Birth) {
	t.Helper()
	var b store.Batch
	b.Insert(one)
	_, transitions := s.Ledger().Transition(t.Context(), []mayfly.Change{expire(one.Item, 1)})
	_, _, swap := s.Rows().Swap(t.Context(), walk.Leases, store.Key{Partition: "p"}, nil, []byte("v"), 0)
	_, reclaim := s.Reclaim(t.Context(), 1, 1)
	_, get := s.Ledger().Get(t.Context(), one.Item.ID)
	for what, err := range map[string]error{
		"Commit": s.Writer().Commit(t.Context(), &b), "Transition": transitions, "Swap": swap, "Reclaim": reclaim, "Get": get,
		"Append": s.Log().Append(t.Context(), mayfly.EventOf(one.Item, mayfly.WasCreated)),
		"Remove": s.Ledger().Remove(t.Context(), one.Item.ID),
		"Trim":   s.Log().Trim(t.Context(), 1, 0),
	} {
		if !errors.Is(err, mayfly.Unavailable) {
			t.Errorf("%s returns %v after the fuse has blown", what, err)
		}
	}
	s.Figures() // must not hang
}

func TestOpenOnAReadOnlyDiskIsRefusedWithAHint(t *testing.T) {
	disk := failWhen(vfs.NewMem(), syscall.EROFS, writes)
	disk.On()
	_, err := Open(Options{FS: disk.fs, Dir: "db"})
	var e *mayfly.Error
	if !errors.As(err, &e) || e.Kind != mayfly.Unavailable || e.Hint == "" {
		t.Fatalf("%v", err)
	}
}

// TestAFlushThatFailsOnAFullDiskIsRetriedAndLosesNothing: the write-ahead log holds
// the data until the tables are written.
func TestAFlushThatFailsOnAFullDiskIsRetriedAndLosesNothing(t *testing.T) {
	var failures atomic.Int64
	disk := failWhen(vfs.NewMem(), syscall.ENOSPC, func(op errorfs.Op) bool {
		return strings.HasSuffix(op.Path, ".sst") && writes(op) && failures.Add(1) <= 5
	})
	s := openWith(t, Options{FS: disk.fs, Dir: "db", MemtableBytes: 1 << 20})
	r := seeded(t)
	disk.On()
	var births []store.Birth
	for before := s.Figures().Flushes; s.Figures().Flushes == before; {
		one := birth(t, r, testBirth, "24h")
		one.Body.Data = make([]byte, 4<<10)
		commit(t, s, func(b *store.Batch) { b.Insert(one) })
		births = append(births, one)
	}
	if s.Figures().BackgroundErrors == 0 {
		t.Error("the failed flush was not counted")
	}
	for _, one := range births {
		if _, ok := found(t, s, one.Item.ID); !ok {
			t.Fatalf("%s is lost", one.Item.ID)
		}
	}
	if err := s.Fuse().Err(); err != nil {
		t.Fatal(err)
	}
}

func TestBelowTheFloorOnlyBirthsAreRefused(t *testing.T) {
	mem := vfs.NewMem()
	mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 2000})
	s := openWith(t, Options{FS: mem, Dir: "db", Floor: 1000})
	r := seeded(t)
	first := birth(t, r, testBirth, "24h")
	commit(t, s, func(b *store.Batch) { b.Insert(first) })

	mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 999})
	second := birth(t, r, testBirth, "24h")
	var b store.Batch
	key := store.Key{Partition: "p"}
	b.Put(engine.Owners, key, []byte("v"), 0)
	b.Then()
	b.Insert(second)
	var e *mayfly.Error
	if err := s.Writer().Commit(t.Context(), &b); !errors.As(err, &e) || e.Kind != mayfly.Full || e.Hint == "" {
		t.Fatalf("a birth below the floor: %v", err)
	}
	if values, err := s.Rows().Get(t.Context(), engine.Owners, key); err != nil || values[0] != nil {
		t.Fatalf("part of the refused batch was written: %q, %v", values, err)
	}
	out := transition(t, s, expire(first.Item, 5))
	if out[0].Result != store.Applied {
		t.Fatalf("expiry below the floor: %+v", out)
	}
	commit(t, s, func(b *store.Batch) { b.Append(mayfly.EventOf(out[0].Current, mayfly.WasExpired)) })
	if ok, _, err := s.Rows().Swap(t.Context(), walk.Leases, key, nil, []byte("v"), 0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1000})
	commit(t, s, func(b *store.Batch) { b.Insert(second) })
}
