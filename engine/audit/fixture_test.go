package audit

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/pebblestore"
)

const start mayfly.Instant = 1_800_000_017_345

func openOn(t testing.TB, fs vfs.FS) *pebblestore.Store {
	t.Helper()
	db, err := pebblestore.Open(pebblestore.Options{Tables: Tables(), FS: fs, Dir: "db", MemtableBytes: 1 << 20, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// mem opens the embedded store in memory.
func mem(t testing.TB) store.Rows {
	t.Helper()
	return openOn(t, vfs.NewMem()).Rows()
}

// onMem calls f with a store in memory and closes it, for tests that need many.
func onMem(t testing.TB, f func(rows store.Rows)) {
	t.Helper()
	db, err := pebblestore.Open(pebblestore.Options{Tables: Tables(), FS: vfs.NewMem(), Dir: "db", MemtableBytes: 256 << 10, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	f(db.Rows())
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// seeded returns a random source and logs its seed; MAYFLY_SEED sets the seed.
func seeded(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("MAYFLY_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func itemID(t testing.TB, n uint64) mayfly.ID {
	t.Helper()
	day, err := mayfly.ParseLifetime("24h")
	if err != nil {
		t.Fatal(err)
	}
	id, err := mayfly.NewID(start, day, 7, n)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// restore returns an intent to restore item n.
func restore(t testing.TB, n int) Entry {
	t.Helper()
	return Entry{
		Actor: Actor{Issuer: "home", Subject: "ana@support"}, Verb: Restore, Subject: Subject{Item: itemID(t, uint64(n)), User: mayfly.UserOf("home", "ben")},
		Reason: fmt.Sprintf("ticket %d: expired by mistake", n),
	}
}

func begin(t testing.TB, rows store.Rows, writer string) *Log {
	t.Helper()
	l, err := Open(t.Context(), rows, writer, start)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func record(t testing.TB, l *Log, e Entry, now mayfly.Instant) Ref {
	t.Helper()
	ref, err := l.Record(t.Context(), e, now)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// write writes n records and returns their log.
func write(t testing.TB, rows store.Rows, writer string, n int) *Log {
	t.Helper()
	l := begin(t, rows, writer)
	for i := range n {
		record(t, l, restore(t, i), start+mayfly.Instant(i))
	}
	return l
}

func verified(t testing.TB, rows store.Rows) (Report, []Record) {
	t.Helper()
	var all []Record
	report, err := Verify(t.Context(), rows, func(r Record) error {
		all = append(all, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return report, all
}

// sound verifies that there are no findings and returns the records by Ref.
func sound(t testing.TB, rows store.Rows) (Report, map[Ref]Record) {
	t.Helper()
	report, all := verified(t, rows)
	for _, f := range report.Findings {
		t.Errorf("found %s", f)
	}
	by := map[Ref]Record{}
	for _, r := range all {
		by[r.Ref] = r
	}
	if len(by) != len(all) || len(all) != report.Records {
		t.Errorf("%d records, %d of them different, %d reported", len(all), len(by), report.Records)
	}
	return report, by
}

// put changes a row without the log; nil removes it.
func put(t testing.TB, rows store.Rows, key store.Key, value []byte) {
	t.Helper()
	old := get(t, rows, key)
	if bytes.Equal(old, value) && (old == nil) == (value == nil) {
		t.Fatalf("%q: the new value equals the old one", key)
	}
	if swapped, _, err := rows.Swap(t.Context(), Table, key, old, value, 0); err != nil || !swapped {
		t.Fatal(swapped, err)
	}
}

func get(t testing.TB, rows store.Rows, key store.Key) []byte {
	t.Helper()
	found, err := rows.Get(t.Context(), Table, key)
	if err != nil {
		t.Fatal(err)
	}
	return found[0]
}

// found reports whether a report has a finding with the fault at the record.
func found(report Report, at Ref, fault Fault) bool {
	for _, f := range report.Findings {
		if f.Ref == at && f.Fault == fault {
			return true
		}
	}
	return false
}
