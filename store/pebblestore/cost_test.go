package pebblestore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/store"
)

func TestReclaimPassesEveryEntryOnce(t *testing.T) {
	const rows = 20_000
	s := openWith(t, Options{FS: vfs.NewMem(), Dir: "db"})
	for n := 0; n < rows; n += 1000 {
		commit(t, s, func(b *store.Batch) {
			for i := n; i < n+1000; i++ {
				b.Put(remind.Reminders, store.Key{Partition: fmt.Sprint(i)}, []byte("v"), mayfly.Instant(1000+i))
			}
		})
	}
	reclaim(t, s, 1000+rows, 5000, 5000)
	if lag := s.Figures().ReclaimLag.Milliseconds(); lag != rows-5000 {
		t.Errorf("the oldest row is said to have been due for %d ms, want %d", lag, rows-5000)
	}
	reclaim(t, s, 1000+rows, rows, rows-5000)
	f := s.Figures()
	if f.Reclaimed != rows || f.ReclaimLooked > 2*rows || f.ReclaimLag != 0 {
		t.Errorf("%d entries were passed to reclaim %d of %d, lag %s", f.ReclaimLooked, f.Reclaimed, rows, f.ReclaimLag)
	}
}

func TestARowThatIsDueBeforeWhatWasReclaimedIsReclaimedToo(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	put := func(key string, at mayfly.Instant) {
		commit(t, s, func(b *store.Batch) { b.Put(remind.Reminders, store.Key{Partition: key}, []byte("v"), at) })
	}
	put("a", 1000)
	reclaim(t, s, 5000, 10, 1)
	put("late", 2000)
	put("now", 5001)
	reclaim(t, s, 5000, 10, 1)
	if ok, _, err := s.Rows().Swap(t.Context(), upload.Reservations, store.Key{Partition: "u"}, nil, []byte("v"), 3000); !ok || err != nil {
		t.Fatal(err)
	}
	reclaim(t, s, 5001, 10, 2)
	reclaim(t, s, 4000, 10, 0) // a clock that went back
	if n := keysUnder(t, s, reclaimPrefix); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}

// A row that is written while a Reclaim searches is behind what the search has seen.
func TestARowThatIsWrittenDuringAReclaimIsNotPassedOver(t *testing.T) {
	var r reclaims
	_, moved := r.start(5000)
	r.written(4000)
	r.passed(appendInstant([]byte{reclaimPrefix}, 5001), moved)
	if from, _ := r.start(6000); instantAt(append(from, make([]byte, 6)...)[1:]) > 4000 {
		t.Errorf("the next search begins at %x, behind the row", from)
	}
}

func TestManyPartitionsAreDroppedByOneDurableWrite(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	commit(t, s, func(b *store.Batch) {
		for n := range 500 {
			for i := range 3 {
				b.Put(upload.Renditions, store.Key{Partition: fmt.Sprintf("%016d", n), Clustering: fmt.Sprint(i)}, []byte("v"), 0)
			}
		}
		b.Put(upload.Renditions, store.Key{Partition: "kept"}, []byte("v"), 0)
	})
	before := s.Figures().Commits
	commit(t, s, func(b *store.Batch) {
		for n := range 500 {
			b.DeletePartition(upload.Renditions, fmt.Sprintf("%016d", n))
		}
	})
	if n := s.Figures().Commits - before; n != 1 {
		t.Errorf("%d durable writes, want 1", n)
	}
	if n := keysUnder(t, s, tablePrefix); n != 1 {
		t.Errorf("%d rows are left, want 1", n)
	}
	commit(t, s, func(b *store.Batch) { // more than one batch holds, in two partitions
		for n := range 2 * dropChunk {
			b.Put(upload.Renditions, store.Key{Partition: fmt.Sprint("p", n%2), Clustering: fmt.Sprint(n)}, nil, 0)
		}
	})
	before = s.Figures().Commits
	commit(t, s, func(b *store.Batch) {
		b.DeletePartition(upload.Renditions, "p0")
		b.DeletePartition(upload.Renditions, "none")
		b.DeletePartition(upload.Renditions, "p1")
	})
	if n, rows := s.Figures().Commits-before, keysUnder(t, s, tablePrefix); n > 3 || rows != 1 {
		t.Errorf("%d durable writes, %d rows are left", n, rows)
	}
}

// nearlyFull is a file system with little space left.
type nearlyFull struct {
	vfs.FS
	free uint64
}

func (f *nearlyFull) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: f.free, TotalBytes: 1 << 40}, nil
}

func TestBelowHalfOfTheFloorUsersAddNoRowsAndTheEngineGoesOn(t *testing.T) {
	fs := &nearlyFull{FS: vfs.NewMem(), free: 1 << 30}
	s := openWith(t, Options{FS: fs, Dir: "db", Floor: 1000})
	key := store.Key{Partition: "0123456789abcdef", Clustering: "0123456789abcdef"}
	put := func(table store.Table) func() error {
		return func() error {
			var b store.Batch
			b.Put(table, key, []byte("v"), 0)
			return s.Writer().Commit(t.Context(), &b)
		}
	}
	n := 0
	swap := func(table store.Table) func() error {
		return func() error {
			n++
			_, _, err := s.Rows().Swap(t.Context(), table, store.Key{Partition: key.Partition, Clustering: fmt.Sprint(n)}, nil, []byte("v"), 0)
			return err
		}
	}
	born := func() error {
		var b store.Batch
		b.Insert(birth(t, seeded(t), testBirth, "24h"))
		return s.Writer().Commit(t.Context(), &b)
	}
	ok, _, err := s.Rows().Swap(t.Context(), account.Families, key, nil, []byte("old"), 0)
	if !ok || err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		write func() error
		floor uint64 // below it the write is refused
	}{
		"birth":       {born, 1000},
		"view":        {put(story.Views), 500},
		"seen":        {put(story.Seen), 500},
		"relation":    {swap(account.Relations), 500},
		"related":     {swap(account.Related), 500},
		"token":       {swap(account.Families), 500},
		"reservation": {swap(upload.Reservations), 500},
		"reminder":    {put(remind.Reminders), 0},
		"restored":    {swap(engine.Restored), 0},
		"tombstone":   {swap(engine.Erased), 0},
		"revocation": {func() error {
			_, _, err := s.Rows().Swap(t.Context(), account.Families, key, []byte("old"), []byte("old"), 0)
			return err
		}, 0},
		"removal": {func() error {
			var b store.Batch
			b.Delete(story.Views, key)
			return s.Writer().Commit(t.Context(), &b)
		}, 0},
	} {
		fs.free = c.floor
		if err := c.write(); err != nil {
			t.Errorf("%s with %d bytes free: %v", what, fs.free, err)
		}
		if c.floor == 0 {
			continue
		}
		fs.free--
		err := c.write()
		var known *mayfly.Error
		if !errors.Is(err, mayfly.Full) || !errors.As(err, &known) || known.Hint == "" {
			t.Errorf("%s with %d bytes free: %v, want Full with a hint", what, fs.free, err)
		}
	}
}
