package diskstore

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskfs"
)

// onDisk is a file system of the operating system: holes are punched there.
func onDisk(t testing.TB) vfs.FS {
	t.Helper()
	root, err := diskfs.Root(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func TestDeletedMediaAreInNoFileAfterReclaim(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"memory": vfs.NewMem(), "disk": onDisk(t)} {
		t.Run(name, func(t *testing.T) {
			const seed, objects = 3, 200
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, seed))
			opts := testOptions(fs)
			opts.VolumeBytes = 20 * testInline
			s := mustOpen(t, opts)
			for n := range objects { // in volumes and in files
				mustPut(t, s, testKey(n), noise(rng, []int{100, 1000, testInline, framePayload}[n%4]))
			}
			before := held(t, s)
			for n := range objects {
				if n%10 == 3 || n > objects-4 { // some in the middle, and of the volume that is being filled
					if err := s.Delete(t.Context(), testKey(n)); err != nil {
						t.Fatal(err)
					}
				}
			}
			if len(unerased(t, s)) == 0 {
				t.Fatal("every byte is gone before Reclaim: this shows nothing")
			}
			mustClose(t, s) // what is to be erased is remembered
			s = mustOpen(t, opts)
			if err := s.Reclaim(t.Context()); err != nil {
				t.Fatal(err)
			}
			if left := unerased(t, s); len(left) > 0 {
				t.Errorf("deleted bytes are left in %v", left)
			}
			if f := s.Figures(); f != (Figures{}) {
				t.Errorf("figures are %+v", f)
			}
			if _, err := contents(t.Context(), s); err != nil {
				t.Errorf("an object that was not deleted: %v", err)
			}
			wantClean(t, s)
			if now := held(t, s); now > before {
				t.Errorf("%d bytes are held, %d before", now, before)
			}
			mustClose(t, s)
			s = mustOpen(t, opts)
			if f := s.Figures(); f != (Figures{}) {
				t.Errorf("after opening again figures are %+v", f)
			}
		})
	}
}

// A Put that fails after its bytes are in a volume leaves them there without a record.
func TestBytesOfAFailedPutAreErasedToo(t *testing.T) {
	secret := bytes.Repeat([]byte("secret"), 100)
	mem := vfs.NewCrashableMem()
	s := mustOpen(t, testOptions(mem))
	mustPut(t, s, testKey(0), []byte("a neighbour that stays"))
	s.locks.lock(testKey(1)) // the record waits, the bytes are in the volume
	done := make(chan error)
	go func() {
		_, err := s.Put(t.Context(), testKey(1), bytes.NewReader(secret))
		done <- err
	}()
	for s.lastVolume() == 0 {
		runtime.Gosched()
	}
	volume := s.fileOf(s.lastVolume())
	clone := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	s.locks.unlock(testKey(1))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(content(t, clone, volume), secret) {
		t.Fatal("the crash came too early: this shows nothing")
	}
	s = mustOpen(t, testOptions(clone))
	if _, err := s.Stat(t.Context(), testKey(1)); !isNotFound(err) {
		t.Fatalf("the crash came too late: %v", err)
	}
	if err := s.Reclaim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := unerased(t, s); len(left) > 0 {
		t.Errorf("bytes of no object are left in %v", left)
	}
	if _, err := readAll(t.Context(), s, testKey(0), store.Span{}); err != nil {
		t.Error(err)
	}
}

func TestAReaderOfAnOverwrittenObjectFindsItGoneAndNotCorrupt(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	mustPut(t, s, testKey(0), []byte("stays"))
	mustPut(t, s, testKey(1), []byte("goes"))
	rec, _, err := s.lookup(testKey(1)) // a reader that has got so far
	if err := errors.Join(err, s.Delete(t.Context(), testKey(1)), s.Reclaim(t.Context())); err != nil {
		t.Fatal(err)
	}
	if _, err := s.readShared(rec); !errors.Is(err, mayfly.Corrupt) {
		t.Fatalf("it is not overwritten: %v", err)
	}
	if r, err := s.openRecord(testKey(1), rec, store.Span{}); r != nil || err != nil {
		t.Errorf("%v, %v: want neither, so that the index is asked again", r, err)
	}
}

func TestAVolumeThatCannotBeOverwrittenIsReportedAndStopsNoOther(t *testing.T) {
	var stuck atomic.Pointer[string]
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if at := stuck.Load(); at != nil && op.Kind == errorfs.OpFileWriteAt && strings.HasSuffix(op.Path, *at) {
			return syscall.EPERM
		}
		return nil
	}))
	s := mustOpen(t, testOptions(fs))
	for n := range 40 {
		mustPut(t, s, testKey(n), make([]byte, 1000))
		mustPut(t, s, testKey(100+n), bytes.Repeat([]byte{7}, 1000))
	}
	rec, _, err := s.lookup(testKey(0))
	if err != nil {
		t.Fatal(err)
	}
	first := s.fileOf(rec.file)
	stuck.Store(&first)
	for n := range 40 {
		if err := s.Delete(t.Context(), testKey(100+n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Reclaim(t.Context()); err != nil {
		t.Errorf("reclaim: %v", err)
	}
	if left := unerased(t, s); len(left) != 1 || left[0] != first {
		t.Errorf("left in %v, want %s", left, first)
	}
	if f := s.Figures(); f.StuckFiles != 1 || f.UnerasedBytes == 0 {
		t.Errorf("figures are %+v", f)
	}
	stuck.Store(nil)
	if err := s.Reclaim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, f := unerased(t, s), s.Figures(); len(left) > 0 || f != (Figures{}) {
		t.Errorf("left in %v, figures are %+v", left, f)
	}
}
