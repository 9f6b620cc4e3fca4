package diskstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Tests cut everything small, so that a little data reaches every mechanism.
const testInline = 4 * kibibyte

func testOptions(fs vfs.FS) Options {
	return Options{FS: fs, Dir: "tier", InlineBytes: testInline, VolumeBytes: 6 * testInline, MemtableBytes: minMemtable, CacheBytes: mebibyte}
}

func mustOpen(t testing.TB, opts Options) *Store {
	t.Helper()
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func mustPut(t testing.TB, s *Store, key mayfly.BlobKey, data []byte) {
	t.Helper()
	o, err := s.Put(t.Context(), key, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if want := (store.Object{Key: key, Size: int64(len(data)), SHA256: sha256.Sum256(data)}); o != want {
		t.Fatalf("put answers %+v, want %+v", o, want)
	}
}

func readAll(ctx context.Context, s *Store, key mayfly.BlobKey, span store.Span) ([]byte, error) {
	r, o, err := s.Open(ctx, key, span)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err == nil && span == (store.Span{}) && (o.Size != int64(len(data)) || o.SHA256 != sha256.Sum256(data)) {
		err = fmt.Errorf("%s is described as %+v", key, o)
	}
	return data, err
}

func wantKind(t testing.TB, kind mayfly.Kind, err error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("error is %v, want kind %s", err, kind)
	}
}

// noise is n bytes that no other call gives.
func noise(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func testKey(n int) mayfly.BlobKey {
	return mayfly.BlobKey(fmt.Sprintf("%02d/%022d/0-0", n%mayfly.Prefixes, n))
}

// state is what a tier must hold: the hash of each object.
type state map[mayfly.BlobKey][32]byte

// contents is what a tier does hold, read through every operation; it fails
// when they do not agree.
func contents(ctx context.Context, s *Store) (state, error) {
	listed, err := s.List(ctx, "", "", 1<<20)
	if err != nil {
		return nil, err
	}
	found := state{}
	for _, l := range listed {
		data, err := readAll(ctx, s, l.Key, store.Span{})
		if err != nil {
			return nil, err
		}
		if o, err := s.Stat(ctx, l.Key); err != nil || o.Size != l.Size || o.Size != int64(len(data)) {
			return nil, fmt.Errorf("%s is listed with %d bytes and holds %d: %+v, %w", l.Key, l.Size, len(data), o, err)
		}
		found[l.Key] = sha256.Sum256(data)
	}
	return found, nil
}

// garbage is what is on the disk or in the database without an object, and what
// is counted wrong.
func garbage(s *Store) (found []string, err error) {
	owned, places := map[string]bool{}, map[string]mayfly.BlobKey{}
	live, dead := map[fileNumber]int64{}, map[fileNumber]int64{}
	visit := func(key, value []byte) (bool, error) {
		switch key[0] {
		case tableRecord:
			rec, err := decodeRecord(value)
			if err != nil {
				return false, err
			}
			owned[s.fileOf(rec.file)] = true
			if rec.shared() {
				places[string(placeKey(rec.place))] = mayfly.BlobKey(key[1:])
				live[rec.file] += rec.size
			}
		case tableDoomed:
			found = append(found, fmt.Sprintf("doomed %x", key[1:]))
		case tableVolume:
			if places[string(key)] != mayfly.BlobKey(value[4:]) {
				found = append(found, fmt.Sprintf("place %x of %s", key[1:], value))
			}
			delete(places, string(key))
		case tableWaste:
			n, err := decodeFileKey(key)
			dead[n] = int64(binary.BigEndian.Uint64(value))
			return true, err
		}
		return true, nil
	}
	for _, table := range []byte{tableRecord, tableDoomed, tableVolume, tableWaste} {
		if err := s.scan([]byte{table}, visit); err != nil {
			return nil, err
		}
	}
	for at, key := range places {
		found = append(found, fmt.Sprintf("%s is not noted at %x", key, at))
	}
	for n := range fileNumber(folders) {
		names, err := s.fs.List(s.folderOf(n))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if path := s.fs.PathJoin(s.folderOf(n), name); !owned[path] && path != s.fileOf(s.volumes.current) {
				found = append(found, path)
			}
		}
	}
	for n := range dead {
		info, err := s.fs.Stat(s.fileOf(n))
		if err != nil || live[n]+dead[n] > info.Size()-volumeHead || dead[n] != s.waste.volumes[n].dead {
			found = append(found, fmt.Sprintf("volume %x: %d live, %d dead, %v", n, live[n], dead[n], err))
		}
	}
	return found, nil
}

// unerased names the files of a tier that hold bytes of no object. Call it when no
// writer is at work.
func unerased(t testing.TB, s *Store) (found []string) {
	t.Helper()
	owned := map[string][]record{}
	err := s.scan([]byte{tableRecord}, func(_, value []byte) (bool, error) {
		rec, err := decodeRecord(value)
		path := s.fileOf(rec.file)
		owned[path] = append(owned[path], rec)
		return true, err
	})
	if err != nil {
		t.Fatal(err)
	}
	for n := range fileNumber(folders) {
		names, err := s.fs.List(s.folderOf(n))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			path := s.fs.PathJoin(s.folderOf(n), name)
			data := content(t, s.fs, path)
			for _, rec := range owned[path] {
				if rec.shared() {
					clear(data[rec.offset : rec.offset+rec.size])
				} else {
					clear(data)
				}
			}
			if len(data) > volumeHead && bytes.ContainsFunc(data[volumeHead:], func(r rune) bool { return r != 0 }) {
				found = append(found, path)
			}
		}
	}
	return found
}

// content reads a file.
func content(t testing.TB, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return data
}

func wantClean(t testing.TB, s *Store) {
	t.Helper()
	if found, err := garbage(s); err != nil || len(found) > 0 {
		t.Errorf("garbage: %v, %v", found, err)
	}
}

func isNotFound(err error) bool { return errors.Is(err, mayfly.NotFound) }
