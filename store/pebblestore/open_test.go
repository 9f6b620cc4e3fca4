package pebblestore

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskfs"
)

// changeDatabase opens the closed database with plain Pebble and changes it.
func changeDatabase(t *testing.T, fs vfs.FS, change func(db *pebble.DB) error) {
	t.Helper()
	db, err := pebble.Open("db", &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatTableFormatV6, Logger: diskfs.Logger(store.NewFuse(), slog.New(slog.DiscardHandler))})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(change(db), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func wantFormatError(t *testing.T, fs vfs.FS, found uint32) {
	t.Helper()
	_, err := Open(Options{FS: fs, Dir: "db"})
	var format *FormatError
	var e *mayfly.Error
	if !errors.As(err, &format) || format.Found != found || !errors.As(err, &e) || e.Kind != mayfly.Unsupported || e.Hint == "" {
		t.Fatalf("%v", err)
	}
}

func TestAnUnknownFormatIsRefusedAndNothingIsChanged(t *testing.T) {
	mem := vfs.NewMem()
	if err := openMem(t, mem).Close(); err != nil {
		t.Fatal(err)
	}
	key := []byte{metaPrefix, metaFormat}
	changeDatabase(t, mem, func(db *pebble.DB) error {
		return db.Set(key, binary.BigEndian.AppendUint32(nil, Format+1), pebble.Sync)
	})
	wantFormatError(t, mem, Format+1)
	changeDatabase(t, mem, func(db *pebble.DB) error {
		return db.Set(key, binary.BigEndian.AppendUint32(nil, Format), pebble.Sync)
	})
	openMem(t, mem)
}

func TestADatabaseThatMayflyDidNotWriteIsRefused(t *testing.T) {
	mem := vfs.NewMem()
	changeDatabase(t, mem, func(db *pebble.DB) error { return db.Set([]byte("foreign"), nil, pebble.Sync) })
	wantFormatError(t, mem, 0)
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	for _, o := range []Options{
		{Dir: "db"},
		{FS: vfs.NewMem()},
		{FS: vfs.NewMem(), Dir: "db", Floor: -1},
		{FS: vfs.NewMem(), Dir: "db", Share: 2},
		{FS: vfs.NewMem(), Dir: "db", CacheBytes: -1},
		{FS: vfs.NewMem(), Dir: "db", MemtableBytes: 1},
		{FS: vfs.NewMem(), Dir: "db", MemtableBytes: 1 << 40},
	} {
		if _, err := Open(o); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestASecondOpenOfTheFolderIsRefused(t *testing.T) {
	dir := t.TempDir()
	openWith(t, Options{FS: vfs.Default, Dir: dir})
	if _, err := Open(Options{FS: vfs.Default, Dir: dir}); !errors.Is(err, mayfly.Unavailable) {
		t.Fatal(err)
	}
}

func TestAReopenedStoreHoldsEverything(t *testing.T) {
	mem := vfs.NewMem()
	s := openMem(t, mem)
	r := seeded(t)
	mortal, eternal := birth(t, r, testBirth, "1h"), birth(t, r, testBirth, "never")
	commit(t, s, func(b *store.Batch) { b.Insert(mortal, eternal) })
	moved := transition(t, s, expire(mortal.Item, 9))[0].Current
	if ok, _, err := s.Rows().Swap(t.Context(), walk.Leases, store.Key{Partition: "p"}, nil, []byte{}, 0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Ledger().Get(t.Context(), mortal.Item.ID); !errors.Is(err, mayfly.Unavailable) {
		t.Fatalf("a closed store returns %v", err)
	}
	s = openMem(t, mem)
	if got, ok := found(t, s, mortal.Item.ID); !ok || got != moved {
		t.Fatalf("%+v", got)
	}
	if got, ok := found(t, s, eternal.Item.ID); !ok || got != eternal.Item {
		t.Fatalf("%+v", got)
	}
	values, err := s.Rows().Get(t.Context(), walk.Leases, store.Key{Partition: "p"})
	if err != nil || values[0] == nil {
		t.Fatal(values, err)
	}
}
