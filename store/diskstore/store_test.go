package diskstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// hookReader calls hook once it has given n bytes, and goes on for ever.
type hookReader struct {
	n    int
	hook func() error
}

func (r *hookReader) Read(p []byte) (int, error) {
	if r.n <= 0 {
		if err := r.hook(); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	n := min(r.n, len(p))
	r.n -= n
	return n, nil
}

var bothSizes = map[string]int{"small": 10, "big": 3 * framePayload}

func TestAPutThatIsCancelledLeavesNothing(t *testing.T) {
	for name, size := range bothSizes {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, testOptions(vfs.NewMem()))
			mustPut(t, s, testKey(2), []byte("old"))
			for n := 1; n <= 2; n++ {
				ctx, cancel := context.WithCancel(t.Context())
				_, err := s.Put(ctx, testKey(n), &hookReader{size, func() error { cancel(); return nil }})
				if !errors.Is(err, context.Canceled) {
					t.Errorf("put answers %v", err)
				}
				wantKind(t, mayfly.Unavailable, err)
			}
			_, err := s.Stat(t.Context(), testKey(1))
			wantKind(t, mayfly.NotFound, err)
			if data, err := readAll(t.Context(), s, testKey(2), store.Span{}); err != nil || string(data) != "old" {
				t.Errorf("the old object is %q, %v", data, err)
			}
			wantClean(t, s)
		})
	}
}

func TestAPutThatIsCancelledBehindItsLastByteLeavesNothing(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, testOptions(mem))
	ctx, cancel := context.WithCancel(t.Context())
	s.locks.lock(testKey(1)) // it waits here, with its bytes in a volume
	done := make(chan error)
	go func() {
		_, err := s.Put(ctx, testKey(1), strings.NewReader("small"))
		done <- err
	}()
	for s.lastVolume() == 0 {
		runtime.Gosched()
	}
	cancel()
	s.locks.unlock(testKey(1))
	wantKind(t, mayfly.Unavailable, <-done)
	_, err := s.Stat(t.Context(), testKey(1))
	wantKind(t, mayfly.NotFound, err)
	mustClose(t, s)
	s = mustOpen(t, testOptions(mem))
	wantClean(t, s)
	if n := held(t, s); n != 0 {
		t.Errorf("%d bytes are held without an owner", n)
	}
}

// lastVolume is a volume with something pending in it, if there is one.
func (s *Store) lastVolume() (last fileNumber) {
	s.volumes.mu.Lock()
	defer s.volumes.mu.Unlock()
	for n := range s.volumes.pending {
		last = n
	}
	return last
}

// A connection that is cut says io.ErrUnexpectedEOF, and so does io.ReadFull of
// an object that is merely small.
func TestAnUploadThatIsCutOffIsNotStored(t *testing.T) {
	for name, size := range bothSizes {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, testOptions(vfs.NewMem()))
			_, err := s.Put(t.Context(), testKey(1), &hookReader{size, func() error { return io.ErrUnexpectedEOF }})
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("put answers %v", err)
			}
			_, err = s.Stat(t.Context(), testKey(1))
			wantKind(t, mayfly.NotFound, err)
			wantClean(t, s)
		})
	}
}

func TestAReaderThatStaysSilentIsGivenUp(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	_, err := s.Put(t.Context(), testKey(1), silentReader{})
	if !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("put answers %v", err)
	}
}

type silentReader struct{}

func (silentReader) Read([]byte) (int, error) { return 0, nil }

func TestBelowTheFloorPutsAreRefusedAndTheRestGoesOn(t *testing.T) {
	mem := vfs.NewMem()
	free := func(bytes uint64) {
		mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: bytes, TotalBytes: 1 << 40, UsedBytes: 1<<40 - bytes})
	}
	free(1 << 30)
	opts := testOptions(mem)
	opts.Floor = 100 * mebibyte
	s := mustOpen(t, opts)
	mustPut(t, s, testKey(1), make([]byte, 10))
	mustPut(t, s, testKey(2), make([]byte, framePayload))

	free(100*mebibyte - 1)
	_, err := s.Put(t.Context(), testKey(3), strings.NewReader("x"))
	wantKind(t, mayfly.Full, err)
	var full *mayfly.Error
	if !errors.As(err, &full) || full.Hint == "" {
		t.Errorf("%v says nothing of what to do", err)
	}
	_, err = s.CopyTo(t.Context(), s, testKey(1), testKey(3))
	wantKind(t, mayfly.Full, err)
	if _, err := readAll(t.Context(), s, testKey(2), store.Span{}); err != nil {
		t.Error(err)
	}
	if err := s.Delete(t.Context(), testKey(1), testKey(2)); err != nil {
		t.Error(err)
	}

	free(1 << 30)
	_, err = s.Put(t.Context(), testKey(3), &hookReader{mebibyte, func() error { free(mebibyte); return nil }})
	wantKind(t, mayfly.Full, err) // a stream without end
	wantClean(t, s)
}

func TestAFolderIsUsedByOneStoreAtATime(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, testOptions(mem))
	_, err := Open(testOptions(mem))
	wantKind(t, mayfly.Unavailable, err)
	mustClose(t, s)
	mustOpen(t, testOptions(mem))
}

func TestAClosedStoreIsUnavailableAndItsReadersMayFinish(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	data := noise(rand.New(rand.NewPCG(1, 1)), 3*framePayload)
	mustPut(t, s, testKey(1), data)
	r, _, err := s.Open(t.Context(), testKey(1), store.Span{})
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data) {
		t.Errorf("an open reader gave %d bytes, %v", len(got), err)
	}
	_, err = s.Stat(t.Context(), testKey(1))
	wantKind(t, mayfly.Unavailable, err)
	_, err = s.Put(t.Context(), testKey(1), strings.NewReader("x"))
	wantKind(t, mayfly.Unavailable, err)
	mustClose(t, s) // again
}

func TestAFormatThatIsNotKnownIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(*pebble.DB) error{
		"newer": func(db *pebble.DB) error {
			return db.Set([]byte{tableHead}, append([]byte{Format + 1}, make([]byte, 8)...), nil)
		},
		"foreign": func(db *pebble.DB) error {
			return errors.Join(db.Delete([]byte{tableHead}, nil), db.Set([]byte("x"), nil, nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			s := mustOpen(t, testOptions(mem))
			if err := spoil(s.db); err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
			_, err := Open(testOptions(mem))
			wantKind(t, mayfly.Unsupported, err)
		})
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	for _, change := range []func(*Options){
		func(o *Options) { o.FS = nil },
		func(o *Options) { o.Dir = "" },
		func(o *Options) { o.Floor = -1 },
		func(o *Options) { o.CacheBytes = -1 },
		func(o *Options) { o.MemtableBytes = 1 },
		func(o *Options) { o.InlineBytes = -1 },
		func(o *Options) { o.InlineBytes = maxInline + 1 },
		func(o *Options) { o.VolumeBytes = 1 },
	} {
		opts := testOptions(vfs.NewMem())
		change(&opts)
		_, err := Open(opts)
		wantKind(t, mayfly.Invalid, err)
	}
}

func TestABadKeyIsInvalidForEveryOperation(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	for _, key := range []mayfly.BlobKey{"", "a//b", "../a", "a b", "ä", mayfly.BlobKey(strings.Repeat("a", 513))} {
		_, err := s.Stat(t.Context(), key)
		wantKind(t, mayfly.Invalid, err)
		_, err = readAll(t.Context(), s, key, store.Span{})
		wantKind(t, mayfly.Invalid, err)
		wantKind(t, mayfly.Invalid, s.Delete(t.Context(), testKey(1), key))
	}
}

func TestFileNumbersAreNeverGivenTwice(t *testing.T) {
	mem, given := vfs.NewMem(), map[fileNumber]bool{}
	for range 3 {
		s := mustOpen(t, testOptions(mem))
		for range 3 {
			mustPut(t, s, testKey(1), make([]byte, framePayload))
			rec, _, err := s.lookup(testKey(1))
			if err != nil || given[rec.file] {
				t.Fatalf("number %x again, %v", rec.file, err)
			}
			given[rec.file] = true
		}
		mustClose(t, s)
	}
}
