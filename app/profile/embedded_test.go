package profile

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/tables"
)

func small(dir string) config.Config {
	c := config.Default()
	c.Data = dir
	c.Disk.Floor = 0
	c.Memory.Cache, c.Memory.MediaCache = config.MiB, config.MiB
	c.Memory.Memtable, c.Memory.MediaMemtable = config.MiB, config.MiB
	return c
}

func closed(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestEmbeddedKeepsWhatWasWrittenOverARestart(t *testing.T) {
	cfg := small(filepath.Join(t.TempDir(), "data"))
	key := store.Key{Partition: "walk"}
	for round, want := range [][]byte{nil, []byte("mark")} {
		s, err := Embedded(cfg, tables.All())
		if err != nil {
			t.Fatal(err)
		}
		found, err := s.Set.Rows.Get(t.Context(), clock.MarksTable, key)
		if err != nil || !bytes.Equal(found[0], want) {
			t.Fatalf("round %d: %q, %v", round, found, err)
		}
		for _, tier := range []store.Blobs{s.Set.Hot, s.Set.Cold} {
			if round == 0 {
				if _, err := tier.Put(t.Context(), "07/u/0-0", strings.NewReader("pixels")); err != nil {
					t.Fatal(err)
				}
			}
			r, _, err := tier.Open(t.Context(), "07/u/0-0", store.Span{})
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(r); err != nil || string(text) != "pixels" || r.Close() != nil {
				t.Fatalf("%q, %v", text, err)
			}
		}
		before := s.Meter.Read()
		if _, _, err := s.Set.Rows.Swap(t.Context(), clock.MarksTable, key, want, []byte("mark"), 0); err != nil {
			t.Fatal(err)
		}
		if got := s.Meter.Read().Since(before); got.WAL.Syncs != 1 {
			t.Fatalf("a swap cost %+v", got)
		}
		if _, err := s.Set.Limits.Take(t.Context(), "k", store.Rate{Count: 1, Per: 1e9}, 1, 1); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Set.Signals.Publish(t.Context(), store.Signal{}), s.Reclaim(t.Context(), 1)); err != nil {
			t.Fatal(err)
		}
		closed(t, s)
	}
}

func TestSecondUserOfAFolderGetsAConflict(t *testing.T) {
	cfg := small(t.TempDir())
	s, err := Embedded(cfg, tables.All())
	if err != nil {
		t.Fatal(err)
	}
	_, err = Embedded(cfg, tables.All())
	var said *mayfly.Error
	if !errors.Is(err, mayfly.Conflict) || !errors.As(err, &said) || !strings.Contains(said.Hint, "one process at a time") {
		t.Fatal(err)
	}
	closed(t, s)
	if s, err = Embedded(cfg, tables.All()); err != nil {
		t.Fatal(err)
	}
	closed(t, s)
}

func TestBadConfigurationOpensNothing(t *testing.T) {
	cfg := small(filepath.Join(t.TempDir(), "data"))
	cfg.Walk.Page = 0
	if _, err := Embedded(cfg, tables.All()); !errors.Is(err, mayfly.Invalid) {
		t.Fatal(err)
	}
	if _, err := os.Stat(cfg.Data); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

func TestTierThatIsALinkOutOfTheFolderIsRefused(t *testing.T) {
	cfg, elsewhere := small(t.TempDir()), t.TempDir()
	s, err := Embedded(cfg, tables.All())
	if err != nil {
		t.Fatal(err)
	}
	closed(t, s)
	cold := filepath.Join(cfg.Data, "cold")
	if err := errors.Join(os.RemoveAll(cold), os.Symlink(elsewhere, cold)); err != nil {
		t.Fatal(err)
	}
	if _, err := Embedded(cfg, tables.All()); !errors.Is(err, mayfly.Unavailable) {
		t.Fatal(err)
	}
	if names, err := os.ReadDir(elsewhere); err != nil || len(names) != 0 {
		t.Fatalf("written outside: %v, %v", names, err)
	}
	// What was opened before the tier was refused has been closed again.
	if err := os.Remove(cold); err != nil {
		t.Fatal(err)
	}
	if s, err = Embedded(cfg, tables.All()); err != nil {
		t.Fatal(err)
	}
	closed(t, s)
}

func TestFirstStartSurvivesACrashAtAnyWrite(t *testing.T) {
	const seed = 5
	rng := rand.New(rand.NewPCG(seed, 0))
	var mu sync.Mutex
	points := 0
	for k := 1; ; k += 1 + rng.IntN(20) {
		fs := memory(t)
		n, clone := 0, (*vfs.MemFS)(nil)
		s, err := EmbeddedOn(errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if n++; n == k {
				clone = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
			}
			return nil
		})), "data", small("data"), tables.All())
		if err != nil {
			t.Fatal(err)
		}
		closed(t, s)
		if clone == nil {
			break
		}
		points++
		s, err = EmbeddedOn(clone, "data", small("data"), tables.All())
		if err != nil {
			t.Fatalf("seed %d, crash at operation %d: %v", seed, k, err)
		}
		if _, _, err := s.Set.Rows.Swap(t.Context(), clock.MarksTable, store.Key{Partition: "n"}, nil, []byte("mark"), 0); err != nil {
			t.Fatal(err)
		}
		closed(t, s)
	}
	if points < 20 {
		t.Fatalf("only %d crash points", points)
	}
	t.Logf("seed %d: %d crash points", seed, points)
}

func TestReclaimTakesRowsBackWhoseTimeHasCome(t *testing.T) {
	s, err := EmbeddedOn(memory(t), "data", small("data"), tables.All())
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, s)
	key := store.Key{Partition: "0123456789abcdef"}
	if _, _, err := s.Set.Rows.Swap(t.Context(), intake.Idempotency, key, nil, []byte("id"), 1000); err != nil {
		t.Fatal(err)
	}
	if err := s.Reclaim(t.Context(), 999); err != nil {
		t.Fatal(err)
	}
	if found, err := s.Set.Rows.Get(t.Context(), intake.Idempotency, key); err != nil || string(found[0]) != "id" {
		t.Fatalf("before its time: %q, %v", found, err)
	}
	if err := s.Reclaim(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	if found, err := s.Set.Rows.Get(t.Context(), intake.Idempotency, key); err != nil || found[0] != nil {
		t.Fatalf("after its time: %q, %v", found, err)
	}
}
