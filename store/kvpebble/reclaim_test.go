package kvpebble

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/pace"
)

// fill writes n keys; those for which ends returns true expire in a minute.
func fill(t testing.TB, s *Store, n int, value func(i int) string, ends func(i int) bool) {
	t.Helper()
	for from := 0; from < n; from += 500 {
		var ops []store.KVOp
		for i := from; i < min(from+500, n); i++ {
			o := set(fmt.Sprintf("key:%08d", i*7919%n), value(i*7919%n), 0)
			if ends(i * 7919 % n) {
				o.Expiry = testNow + minute
			}
			ops = append(ops, o)
		}
		apply(t, s, testNow, ops...)
	}
}

// TestSpaceOfExpiredKeysComesBackWithoutTraffic is K3, with smaller buffers instead of
// 128 MiB.
func TestSpaceOfExpiredKeysComesBackWithoutTraffic(t *testing.T) {
	pace.Heavy(t, "writes and rewrites 50 MB")
	for name, ends := range map[string]func(i int) bool{
		"every other key":           func(i int) bool { return i%2 == 0 },
		"all but one key in twenty": func(i int) bool { return i%20 != 0 },
		"the first half":            func(i int) bool { return i < 10_000 },
		"all":                       func(int) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			const n, memtable, slack = 20_000, 256 << 10, mebibyte
			s := openWith(t, Options{FS: vfs.NewMem(), MemtableBytes: memtable, Sync: EverySec})
			s.reclaims.garbage = memtable
			value := func(i int) string { return fmt.Sprintf("%x", seededBytes(uint64(i))) } // 256 bytes of which half compress away
			fill(t, s, n, value, ends)
			now := testNow + 3*minute
			before := s.db.Metrics()
			r := reclaimAll(t, s, now)
			enough := func(u store.KVUsage) bool { return u.Expired == 0 && u.Disk <= u.Live*13/10+slack }
			usage, err := s.Usage(t.Context(), now)
			for tries := 0; !enough(usage) && tries < 200; tries++ { // statistics of new tables are read in the background
				time.Sleep(20 * time.Millisecond)
				reclaimAll(t, s, now)
				usage, err = s.Usage(t.Context(), now)
			}
			if err != nil {
				t.Fatal(err)
			}
			m := s.db.Metrics()
			flushes := m.Flush.Count - before.Flush.Count
			t.Logf("%d entries, %d MiB written again, %d flushes, disk %d MiB → %d MiB, live %d MiB, %d tombstones", r.Entries, r.Written>>20,
				flushes, int64(before.DiskSpaceUsage())>>20, usage.Disk>>20, usage.Live>>20, m.Keys.TombstoneCount)
			if !enough(usage) {
				t.Errorf("the disk has %d bytes for %+v", usage.Disk, usage)
			}
			if most := 2*r.Written/memtable + 8; flushes > most {
				t.Errorf("%d flushes, want at most %d", flushes, most)
			}
			if m.Keys.TombstoneCount > uint64(r.Entries)/50 {
				t.Errorf("%d tombstones for %d entries", m.Keys.TombstoneCount, r.Entries)
			}
			live := 0
			for i := range n {
				if !ends(i) {
					live++
					if e := get(t, s, now, fmt.Sprintf("key:%08d", i)); string(e.Value) != value(i) || e.Written != testNow {
						t.Fatalf("key %d is %q", i, e.Value)
					}
				}
			}
			if entries(t, s) != live {
				t.Errorf("%d entries are stored, want %d", entries(t, s), live)
			}
			checkCounts(t, s)
			storetest.Proof(t, "reclaim of "+name, "bytes of disk and live", fmt.Sprint(usage.Disk, " ", usage.Live))
		})
	}
}

func seededBytes(seed uint64) (b [128]byte) {
	for i := range b {
		seed = seed*6364136223846793005 + 1442695040888963407
		b[i] = byte(seed >> 56)
	}
	return b
}

// entries counts the stored entries, expired or not.
func entries(t testing.TB, s *Store) (n int) {
	t.Helper()
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{entryPrefix}, UpperBound: []byte{entryPrefix + 1}})
	if err != nil {
		t.Fatal(err)
	}
	for ok := iter.First(); ok; ok = iter.Next() {
		n++
	}
	if err := iter.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestLittleThatHasExpiredIsLeftAlone(t *testing.T) {
	s := openWith(t, Options{FS: vfs.NewMem()})
	const n = 2000
	fill(t, s, n, func(int) string { return "value" }, func(i int) bool { return i%20 == 0 })
	if r := reclaimAll(t, s, testNow+3*minute); r.Entries != 0 || entries(t, s) != n {
		t.Errorf("for one entry in twenty the namespace was rewritten: %+v", r)
	}
	live, expired, _ := s.spaces.find(testSpace.Name).at(testNow + 3*minute)
	if expired.keys != n/20 || live.keys != n-n/20 {
		t.Errorf("counts %+v and %+v", live, expired)
	}
	// What is left alone is not late, however long ago it expired; what is not, is.
	usage, err := s.Usage(t.Context(), testNow+1000*minute)
	if err != nil || usage.Oldest == 0 || usage.Due != 0 {
		t.Errorf("usage %+v, %v", usage, err)
	}
	for i := range n / 10 {
		apply(t, s, testNow, set(fmt.Sprint("later ", i), "value", testNow+500*minute))
	}
	usage, err = s.Usage(t.Context(), testNow+1000*minute)
	if err != nil || usage.Oldest > testNow+3*minute || usage.Due < testNow+500*minute || usage.Due > testNow+502*minute {
		t.Errorf("usage %+v, %v", usage, err)
	}
}

// A key that is written again every minute empties a period each time.
func TestRowsOfEmptyPeriodsAreDeletedWithoutAWalk(t *testing.T) {
	s := openWith(t, Options{FS: vfs.NewMem()})
	apply(t, s, testNow, set("stays", "value", 0))
	const minutes = 3 * 1440
	most, now := 0, testNow
	for i := range minutes {
		now = testNow + mayfly.Instant(i)*minute
		apply(t, s, now, set("session", "value", now+30*minute))
		if i%60 != 0 {
			continue
		}
		reclaimAll(t, s, now)
		iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{countPrefix}, UpperBound: []byte{countPrefix + 1}})
		if err != nil {
			t.Fatal(err)
		}
		rows := 0
		for ok := iter.First(); ok; ok = iter.Next() {
			rows++
		}
		if err := iter.Close(); err != nil {
			t.Fatal(err)
		}
		most = max(most, rows)
	}
	if most > emptyPeriods+200 {
		t.Errorf("%d rows of counts after %d minutes", most, minutes)
	}
	checkCounts(t, s)
	t.Logf("%d rows of counts at most", most)
}

// Large live values end a range tombstone instead of being written again.
func TestLargeValuesAreNotWrittenAgain(t *testing.T) {
	s := openWith(t, Options{FS: vfs.NewMem()})
	large := strings.Repeat("v", 100<<10)
	for i := range 40 {
		apply(t, s, testNow, set(fmt.Sprintf("%02d large", i), large, 0), set(fmt.Sprintf("%02d small", i), large[:30<<10], testNow+minute))
	}
	r := reclaimAll(t, s, testNow+3*minute)
	if r.Entries != 40 || r.Written != 0 {
		t.Errorf("reclaimed %+v", r)
	}
	for i := range 40 {
		if string(get(t, s, testNow, fmt.Sprintf("%02d large", i)).Value) != large || get(t, s, testNow, fmt.Sprintf("%02d small", i)).Found {
			t.Errorf("entry %d", i)
		}
	}
	checkCounts(t, s)
}

func TestErasedEntriesAreInNoFile(t *testing.T) {
	disk := vfs.NewMem()
	s := openWith(t, Options{FS: disk})
	apply(t, s, testNow, set("dropped key", "dropped value", 0), set("expired key", "expired value", testNow+minute))
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	reclaimAll(t, s, testNow+3*minute)
	if err := s.Drop(t.Context(), testSpace); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.EraseDeleted(t.Context(), testNow), s.Close()); err != nil { // Pebble removes files in the background
		t.Fatal(err)
	}
	names, err := disk.List("kv")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		f, err := disk.Open("kv/" + name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		text := make([]byte, info.Size())
		if _, err := f.ReadAt(text, 0); err != nil && info.Size() > 0 {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "dropped value") || strings.Contains(string(text), "expired value") {
			t.Errorf("%s holds an erased value", name)
		}
	}
}

// Entries that live for long are counted in longer periods.
func TestPeriodsEndSoonAfterTheExpiry(t *testing.T) {
	for life, most := range map[time.Duration]time.Duration{
		time.Millisecond: 66 * time.Second, time.Hour: 66 * time.Second, 3 * 24 * time.Hour: 66 * time.Second,
		30 * 24 * time.Hour: 18 * time.Minute, 365 * 24 * time.Hour: 3 * time.Hour, 100 * 365 * 24 * time.Hour: 300 * time.Hour,
	} {
		expiry := testNow.Add(life)
		end := periodEnd(testNow, expiry)
		if end < expiry || end.Sub(expiry) > most {
			t.Errorf("a period of a life of %s ends %s after its expiry, want at most %s", life, end.Sub(expiry), most)
		}
	}
	if periodEnd(testNow, 0) != 0 || periodEnd(testNow, mayfly.Instant(1<<63-1)) != 1<<63-1 {
		t.Error("the ends of never and of the last instant")
	}
}

// An older version that would live for longer lies in a table below the expired one.
func TestAnOlderVersionDoesNotReappear(t *testing.T) {
	s := openWith(t, Options{FS: vfs.NewMem()})
	for _, expiry := range []mayfly.Instant{0, testNow + 1000*minute, testNow + minute} {
		for i := range 10 {
			apply(t, s, testNow, set(fmt.Sprint(i), "value", expiry))
		}
		if err := s.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	now := testNow + 3*minute
	if r := reclaimAll(t, s, now); r.Entries != 10 || entries(t, s) != 0 {
		t.Errorf("reclaimed %+v, %d entries are left", r, entries(t, s))
	}
	for i := range 10 {
		if e := get(t, s, now, fmt.Sprint(i)); e.Found {
			t.Errorf("RESURRECTED %+v", e)
		}
	}
	checkCounts(t, s)
}
