package diskstore

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// change changes one byte of a file.
func change(t *testing.T, mem *vfs.MemFS, path string, at int64) {
	t.Helper()
	f, err := mem.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	b[0] ^= 0x40
	_, werr := f.WriteAt(b[:], at)
	if err := errors.Join(err, werr, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestNoChangedByteOfAFileIsHandedOut(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	mem := vfs.NewMem()
	s := mustOpen(t, testOptions(mem))
	data := noise(rng, 3*framePayload+100)
	mustPut(t, s, testKey(1), data)
	rec, _, err := s.lookup(testKey(1))
	if err != nil {
		t.Fatal(err)
	}
	path := s.fileOf(rec.file)
	size := framedSize(rec.size)
	for _, at := range []int64{0, 5, frameSize - 1, frameSize, 2*frameSize + 7, size - 5, size - 1} {
		change(t, mem, path, at)
		_, err := readAll(t.Context(), s, testKey(1), store.Span{})
		wantKind(t, mayfly.Corrupt, err)
		frame := at / frameSize
		for other := range int64(4) {
			span := store.Span{Offset: other*framePayload + 3, Length: 20}
			got, err := readAll(t.Context(), s, testKey(1), span)
			switch {
			case other == frame:
				wantKind(t, mayfly.Corrupt, err)
			case err != nil || !bytes.Equal(got, data[span.Offset:span.Offset+span.Length]):
				t.Errorf("a range of a whole frame: %v", err)
			}
		}
		change(t, mem, path, at) // back
	}
	if got, err := readAll(t.Context(), s, testKey(1), store.Span{}); err != nil || !bytes.Equal(got, data) {
		t.Errorf("changed back: %v", err)
	}
}

func TestAFileThatIsGoneCutOrSwappedIsCorrupt(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, testOptions(mem))
	var paths []string
	for n := range 3 {
		mustPut(t, s, testKey(n), make([]byte, 2*framePayload))
		rec, _, err := s.lookup(testKey(n))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, s.fileOf(rec.file))
	}
	cut, err := mem.Create(paths[1], vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = cut.Write(make([]byte, frameSize))
	if err := errors.Join(err, cut.Close(), mem.Remove(paths[0]), mem.Rename(paths[2], paths[0])); err != nil {
		t.Fatal(err)
	}
	for n := range 3 { // another object's bytes, too few bytes, none
		_, err := readAll(t.Context(), s, testKey(n), store.Span{})
		wantKind(t, mayfly.Corrupt, err)
	}
}

func TestNoChangedByteOfAVolumeIsHandedOutAndItsNeighboursAre(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	mem := vfs.NewMem()
	s := mustOpen(t, testOptions(mem))
	for n := range 3 {
		mustPut(t, s, testKey(n), noise(rng, 700))
	}
	want, err := contents(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for hit := range 3 {
		rec, _, err := s.lookup(testKey(hit))
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []int64{0, 350, 699} {
			change(t, mem, s.fileOf(rec.file), rec.offset+at)
			for n := range 3 {
				data, err := readAll(t.Context(), s, testKey(n), store.Span{Offset: 20, Length: 3})
				if n == hit {
					wantKind(t, mayfly.Corrupt, err) // a range far from the change as well
				} else if err != nil || len(data) != 3 {
					t.Errorf("a neighbour: %v", err)
				}
			}
			change(t, mem, s.fileOf(rec.file), rec.offset+at)
		}
	}
	if got, err := contents(t.Context(), s); err != nil || !maps.Equal(got, want) {
		t.Errorf("changed back: %v", err)
	}
}

func TestAVolumeWithAChangedObjectIsEmptiedButForThat(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	mem := vfs.NewMem()
	s := mustOpen(t, testOptions(mem))
	for n := range 12 { // more than a volume
		mustPut(t, s, testKey(n), noise(rng, testInline-20+n))
	}
	rec, _, err := s.lookup(testKey(0))
	if err != nil {
		t.Fatal(err)
	}
	change(t, mem, s.fileOf(rec.file), rec.offset)
	if err := s.Delete(t.Context(), testKey(2), testKey(3), testKey(4), testKey(5)); err != nil {
		t.Fatal(err)
	}
	wantKind(t, mayfly.Corrupt, s.Reclaim(t.Context()))
	if err := s.Reclaim(t.Context()); err != nil { // not tried over and over
		t.Error(err)
	}
	_, err = readAll(t.Context(), s, testKey(0), store.Span{})
	wantKind(t, mayfly.Corrupt, err)
	if moved, _, err := s.lookup(testKey(1)); err != nil || moved.file == rec.file {
		t.Errorf("the neighbour was not moved: %v", err)
	}
	if _, err := readAll(t.Context(), s, testKey(1), store.Span{}); err != nil {
		t.Error(err)
	}
	if err := s.Delete(t.Context(), testKey(0)); err != nil {
		t.Fatal(err)
	}
	wantClean(t, s) // the volume went with it
}
