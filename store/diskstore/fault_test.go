package diskstore

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/pace"
)

// fault fails the writes with the numbers from first to last.
type fault struct {
	err         error
	first, last int64
	seen, hit   atomic.Int64
}

func (f *fault) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() == errorfs.OpIsRead || op.Kind == errorfs.OpFileClose {
		return nil
	}
	if n := f.seen.Add(1); n < f.first || n > f.last {
		return nil
	}
	f.hit.Add(1)
	return f.err
}

func (*fault) String() string { return "fault" }

// TestAfterEveryFailedWriteNothingAcknowledgedIsLost fails each write in turn,
// once or from then on, and cuts the power at the end: I20.
func TestAfterEveryFailedWriteNothingAcknowledgedIsLost(t *testing.T) {
	pace.Heavy(t, "hundreds of failed writes")
	const seed, steps = 11, 10
	t.Logf("seed %d", seed)
	blown, survived := 0, 0
	for _, kind := range []*fault{{err: syscall.EIO}, {err: syscall.EIO, last: 1 << 40}, {err: syscall.ENOSPC}} {
		for n := int64(1); ; n += stride {
			f := &fault{err: kind.err, first: n, last: n + kind.last}
			mem, j := vfs.NewCrashableMem(), newJournal()
			opts := tinyVolumes(errorfs.Wrap(mem, f))
			opts.Fuse = store.NewFuse()
			if s, err := Open(opts); err == nil {
				err := j.live(t.Context(), s, seed, steps)
				if opts.Fuse.Err() != nil {
					blown++
					wantKind(t, mayfly.Unavailable, err)
					_, err = s.Put(t.Context(), "no/more", strings.NewReader("x"))
					wantKind(t, mayfly.Unavailable, err)
					// What Pebble waits for never comes: s is left as a process that ends leaves it.
				} else {
					survived++
					_ = s.Close()
				}
			}
			if f.hit.Load() == 0 {
				break
			}
			crash{disk: mem.CrashClone(vfs.CrashCloneCfg{}), journal: j}.check(t, "after the fault")
			if t.Failed() {
				t.Fatalf("write %d of a life failed with %v, and %d after it", n, kind.err, kind.last)
			}
		}
	}
	storetest.Proof(t, "media disk faults", "lives ended by the fuse", blown)
	storetest.Proof(t, "media disk faults", "lives that went on", survived)
	if blown < 100/stride || survived < 10/stride {
		t.Errorf("%d lives ended and %d went on: too few to prove anything", blown, survived)
	}
}

// failing fails the operations of a kind on files whose path holds a text.
func failing(kind errorfs.OpKind, path string, err error, on *atomic.Bool) errorfs.Injector {
	return errorfs.InjectorFunc(func(op errorfs.Op) error {
		if on.Load() && op.Kind == kind && strings.Contains(op.Path, path) {
			return err
		}
		return nil
	})
}

func TestADiskThatIsFullRefusesBigObjectsAndGoesOn(t *testing.T) {
	var full atomic.Bool
	s := mustOpen(t, testOptions(errorfs.Wrap(vfs.NewMem(), failing(errorfs.OpFileWrite, "files", syscall.ENOSPC, &full))))
	big := make([]byte, 3*framePayload)
	mustPut(t, s, testKey(1), big)
	full.Store(true)
	_, err := s.Put(t.Context(), testKey(2), bytes.NewReader(big))
	wantKind(t, mayfly.Full, err)
	if err := s.Delete(t.Context(), testKey(1)); err != nil {
		t.Errorf("a delete on a full disk: %v", err)
	}
	wantClean(t, s)
	full.Store(false)
	mustPut(t, s, testKey(2), big)
}

func TestAFailedSyncOfAFileEndsAcknowledgements(t *testing.T) {
	var failed atomic.Bool
	s := mustOpen(t, testOptions(errorfs.Wrap(vfs.NewMem(), failing(errorfs.OpFileSync, "files", syscall.EIO, &failed))))
	failed.Store(true)
	_, err := s.Put(t.Context(), testKey(1), bytes.NewReader(make([]byte, framePayload)))
	wantKind(t, mayfly.Unavailable, err)
	var why *store.FuseError
	if !errors.As(err, &why) {
		t.Errorf("%v does not say that the fuse has blown", err)
	}
	failed.Store(false)
	_, err = s.Put(t.Context(), testKey(1), strings.NewReader("small"))
	wantKind(t, mayfly.Unavailable, err)
	wantKind(t, mayfly.Unavailable, s.Delete(t.Context(), testKey(1)))
}

func TestAFileThatCannotBeRemovedIsRemovedLater(t *testing.T) {
	var stuck atomic.Bool
	mem := vfs.NewMem()
	s := mustOpen(t, testOptions(errorfs.Wrap(mem, failing(errorfs.OpRemove, "files", syscall.EACCES, &stuck))))
	for n := range 3 {
		mustPut(t, s, testKey(n), make([]byte, framePayload))
	}
	stuck.Store(true)
	if err := s.Delete(t.Context(), testKey(0)); err != nil {
		t.Fatal(err)
	}
	_, err := s.Stat(t.Context(), testKey(0))
	wantKind(t, mayfly.NotFound, err)
	mustPut(t, s, testKey(1), []byte("small now")) // a replaced file in the way is no reason to refuse
	if found, _ := garbage(s); len(found) != 4 {
		t.Errorf("two files should be in the way, doomed: %v", found)
	}
	stuck.Store(false)
	if err := errors.Join(s.Delete(t.Context(), testKey(2)), s.Reclaim(t.Context())); err != nil { // by the next Reclaim
		t.Fatal(err)
	}
	wantClean(t, s)

	mustPut(t, s, testKey(3), make([]byte, framePayload))
	stuck.Store(true)
	if err := s.Delete(t.Context(), testKey(3)); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	wantClean(t, mustOpen(t, testOptions(mem))) // or by the next opening
}

func TestAReadThatFailsIsUnavailableAndNotAbsent(t *testing.T) {
	var broken atomic.Bool
	mem := vfs.NewMem()
	s := mustOpen(t, testOptions(mem))
	mustPut(t, s, testKey(1), make([]byte, 100))
	mustPut(t, s, testKey(2), make([]byte, framePayload))
	mustClose(t, s)
	for kind, objects := range map[errorfs.OpKind][]int{errorfs.OpFileReadAt: {1, 2}, errorfs.OpOpen: {1, 2}} {
		broken.Store(false)
		opts := testOptions(errorfs.Wrap(mem, failing(kind, "", syscall.EIO, &broken)))
		opts.CacheBytes = 1 // what is cached is not read
		s := mustOpen(t, opts)
		broken.Store(true)
		for _, n := range objects {
			_, err := readAll(t.Context(), s, testKey(n), store.Span{})
			wantKind(t, mayfly.Unavailable, err)
			if errors.Is(err, mayfly.NotFound) || errors.Is(err, mayfly.Corrupt) {
				t.Errorf("a failed read says %v", err)
			}
		}
		broken.Store(false)
		mustClose(t, s)
	}
}
