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

// inside changes the closed database from below.
func inside(t *testing.T, fs vfs.FS, change func(db *pebble.DB) error) {
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

func TestAnUnknownFormatIsRefusedAndLeftAlone(t *testing.T) {
	mem := vfs.NewMem()
	if err := openMem(t, mem).Close(); err != nil {
		t.Fatal(err)
	}
	key := []byte{metaPrefix, metaFormat}
	inside(t, mem, func(db *pebble.DB) error {
		return db.Set(key, binary.BigEndian.AppendUint32(nil, Format+1), pebble.Sync)
	})
	wantFormatError(t, mem, Format+1)
	inside(t, mem, func(db *pebble.DB) error {
		return db.Set(key, binary.BigEndian.AppendUint32(nil, Format), pebble.Sync)
	})
	openMem(t, mem)
}

func TestADatabaseThatIsNotOursIsRefused(t *testing.T) {
	mem := vfs.NewMem()
	inside(t, mem, func(db *pebble.DB) error { return db.Set([]byte("somebody's"), nil, pebble.Sync) })
	wantFormatError(t, mem, 0)
}

func TestBadOptionsAreInvalid(t *testing.T) {
	for _, o := range []Options{
		{Dir: "db"},
		{FS: vfs.NewMem()},
		{FS: vfs.NewMem(), Dir: "db", Floor: -1},
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

func TestEverythingIsThereAfterAReopen(t *testing.T) {
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
		t.Fatalf("a closed store answers %v", err)
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

// TestALateBirthNeverBringsADeletedItemBack, whichever state the row is in (I7).
func TestALateBirthNeverBringsADeletedItemBack(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	r := seeded(t)
	for _, lifetime := range []string{"1h", "never"} {
		one := birth(t, r, testBirth, lifetime)
		commit(t, s, func(b *store.Batch) { b.Insert(one) })
		gone := transition(t, s, mayfly.Change{
			ID: one.Item.ID, From: mayfly.Active, Generation: mayfly.Born, To: mayfly.Deleted, Nonce: 3, Cause: mayfly.ByUser, At: testBirth + 1,
		})[0].Current
		late := one
		late.Body.Text = "late"
		commit(t, s, func(b *store.Batch) { b.Insert(late, late) })
		if got, ok := found(t, s, one.Item.ID); !ok || got != gone {
			t.Fatalf("the row is %+v", got)
		}
		bodies, err := s.Ledger().Body(t.Context(), one.Item.ID)
		if err != nil || bodies[0].Body.Text != one.Body.Text {
			t.Fatal(bodies, err)
		}
	}
}
