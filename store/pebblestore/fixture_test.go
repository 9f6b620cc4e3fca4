package pebblestore

import (
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/tables"
)

const testBirth = mayfly.Instant(1_800_000_000_000)

// openMem opens a store on fs with small memtables, so that it flushes and compacts.
func openMem(t testing.TB, fs vfs.FS) *Store {
	t.Helper()
	return openWith(t, Options{FS: fs, Dir: "db", MemtableBytes: 256 << 10, CacheBytes: 1 << 20})
}

func openWith(t testing.TB, opts Options) *Store {
	t.Helper()
	opts.Tables = tables.All()
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && s.Fuse().Err() == nil {
			t.Error(err)
		}
	})
	return s
}

// seeded returns a random source and logs its seed.
func seeded(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func newID(t testing.TB, birth mayfly.Instant, lifetime mayfly.Lifetime, owner mayfly.UserID, random uint64) mayfly.ID {
	t.Helper()
	id, err := mayfly.NewID(birth, lifetime, owner.Trace(), random)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func lifetime(t testing.TB, text string) mayfly.Lifetime {
	t.Helper()
	l, err := mayfly.ParseLifetime(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// birth returns the birth of a story without media.
func birth(t testing.TB, r *rand.Rand, at mayfly.Instant, length string) store.Birth {
	t.Helper()
	var owner mayfly.UserID
	for i := range owner {
		owner[i] = byte(r.Uint32())
	}
	id := newID(t, at, lifetime(t, length), owner, r.Uint64())
	return store.Birth{
		Item: mayfly.Item{
			ID: id, Owner: owner, Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone,
			State: mayfly.Active, Generation: mayfly.Born, Nonce: mayfly.Nonce(r.Uint64() | 1), Changed: at,
		},
		Body: mayfly.Body{Text: "a story of " + id.Short()},
	}
}

// expire returns the change that expires item.
func expire(item mayfly.Item, nonce mayfly.Nonce) mayfly.Change {
	return mayfly.Change{
		ID: item.ID, From: item.State, Generation: item.Generation, To: mayfly.ExpiredHot,
		Nonce: nonce, Run: 7, Cause: mayfly.ByExpiry, At: item.ID.Deadline(),
	}
}

// commit commits the batch that fill fills.
func commit(t testing.TB, s *Store, fill func(b *store.Batch)) {
	t.Helper()
	var b store.Batch
	fill(&b)
	if err := s.Writer().Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
}

func found(t testing.TB, s *Store, id mayfly.ID) (mayfly.Item, bool) {
	t.Helper()
	got, err := s.Ledger().Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return got[0].Item, got[0].Found
}

func transition(t testing.TB, s *Store, changes ...mayfly.Change) []store.Outcome {
	t.Helper()
	outcomes, err := s.Ledger().Transition(t.Context(), changes)
	if err != nil {
		t.Fatal(err)
	}
	return outcomes
}
