package diskstore

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// held is how many bytes the files of a tier take on the disk.
func held(t *testing.T, s *Store) (total int64) {
	t.Helper()
	for n := range fileNumber(folders) {
		names, err := s.fs.List(s.folderOf(n))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			info, err := s.fs.Stat(s.fs.PathJoin(s.folderOf(n), name))
			if err != nil {
				t.Fatal(err)
			}
			total += info.Size()
		}
	}
	return total
}

func TestAVolumeGoesWithItsLastObjectWithoutAnyTraffic(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	s := mustOpen(t, testOptions(vfs.NewMem()))
	const objects = 300
	var keys []mayfly.BlobKey
	for n := range objects {
		keys = append(keys, testKey(n))
		mustPut(t, s, testKey(n), noise(rng, 1000))
	}
	for n := 0; n < objects; n += 30 { // in the order of their birth
		if err := s.Delete(t.Context(), keys[n:n+30]...); err != nil {
			t.Fatal(err)
		}
		wantClean(t, s)
		if left, most := held(t, s), int64(objects-n-30)*1000+2*s.opts.VolumeBytes; left > most {
			t.Errorf("%d bytes are held after %d deletes, %d would do", left, n+30, most)
		}
	}
	if err := s.Reclaim(t.Context()); err != nil { // the volume that was being filled
		t.Fatal(err)
	}
	if left := held(t, s); left != 0 {
		t.Errorf("%d bytes are held without an owner", left)
	}
	mustPut(t, s, testKey(0), []byte("life goes on"))
}

func TestTheFewThatLiveOnAreMovedTogether(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	mem := vfs.NewMem()
	s := mustOpen(t, testOptions(mem))
	const objects = 400
	var dying []mayfly.BlobKey
	for n := range objects {
		mustPut(t, s, testKey(n), noise(rng, 1000))
		if n%20 != 0 {
			dying = append(dying, testKey(n))
		}
	}
	if err := s.Delete(t.Context(), dying...); err != nil {
		t.Fatal(err)
	}
	want, err := contents(t.Context(), s)
	if err != nil || len(want) != objects/20 {
		t.Fatalf("%d objects, %v", len(want), err)
	}
	mustClose(t, s) // the background is done, or gave up
	s = mustOpen(t, testOptions(mem))
	if err := s.Reclaim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, most := held(t, s), 3*int64(len(want))*1000+2*s.opts.VolumeBytes; left > most {
		t.Errorf("%d bytes are held, %d would do", left, most)
	}
	got, err := contents(t.Context(), s)
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d objects after moving, %v", len(got), err)
	}
	for key, hash := range want {
		if got[key] != hash {
			t.Errorf("%s was changed by moving", key)
		}
	}
	wantClean(t, s)
}

func TestTooMuchWasteIsReclaimedUnasked(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 12))
	mem := vfs.NewMem()
	s := mustOpen(t, testOptions(mem))
	for n := range 1000 {
		mustPut(t, s, testKey(n), noise(rng, 1000))
		if n%10 != 0 {
			if err := s.Delete(t.Context(), testKey(n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.behind.Wait()
	if left, most := held(t, s), 3*100*1000+(3+allowedVolumes)*s.opts.VolumeBytes; left > most {
		t.Errorf("%d bytes are held, %d would do", left, most)
	}
	if _, err := contents(t.Context(), s); err != nil {
		t.Error(err)
	}
}

func TestAReaderMayFinishWhileItsVolumeIsEmptied(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	for n := range 12 {
		mustPut(t, s, testKey(n), make([]byte, testInline))
	}
	rec, _, err := s.lookup(testKey(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.empty(t.Context(), rec.file); err != nil {
		t.Fatal(err)
	}
	// An old look at the index finds no volume, and Open looks again.
	if r, err := s.openRecord(testKey(0), rec, store.Span{}); r != nil || err != nil {
		t.Errorf("an emptied volume: %v, %v", r, err)
	}
	if _, err := readAll(t.Context(), s, testKey(0), store.Span{}); err != nil {
		t.Error(err)
	}
	wantClean(t, s)
}

func TestAVolumeStaysWhileAnObjectIsOnItsWayIntoTheIndex(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	s.locks.lock(testKey(0)) // its bytes are in a volume, and its record has to wait
	done := make(chan error)
	go func() {
		_, err := s.Put(t.Context(), testKey(0), strings.NewReader("late"))
		done <- err
	}()
	for s.lastVolume() == 0 {
		runtime.Gosched()
	}
	var others []mayfly.BlobKey
	for n := 1; n <= 20; n++ {
		mustPut(t, s, testKey(n), make([]byte, testInline))
		others = append(others, testKey(n))
	}
	if err := s.Delete(t.Context(), others...); err != nil {
		t.Fatal(err)
	}
	if err := s.Reclaim(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.locks.unlock(testKey(0))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if data, err := readAll(t.Context(), s, testKey(0), store.Span{}); err != nil || string(data) != "late" {
		t.Errorf("%q, %v", data, err)
	}
	wantClean(t, s)
}
