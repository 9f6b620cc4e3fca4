package pebblestore

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskfs"
	"github.com/mayflyhq/mayfly/test/residue"
)

const (
	secretMark = "Secret#"
	secretLen  = len(secretMark) + 8
)

// secret returns a text that no other n has.
func secret(n int) string { return fmt.Sprintf("%s%08d", secretMark, n) }

// search searches the files of a store for secrets.
func search(t *testing.T, s *Store, fs vfs.FS) (found map[string]bool, all residue.Search) {
	t.Helper()
	all, err := residue.In(fs, s.opts.Dir, secretMark, secretLen)
	if err != nil {
		t.Fatal(err)
	}
	found = map[string]bool{}
	for _, f := range all.Found {
		found[f.Pattern] = true
	}
	return found, all
}

func TestDeletedAndOverwrittenBytesAreInNoFileAfterEraseDeleted(t *testing.T) {
	root, err := diskfs.Root(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, fs := range map[string]vfs.FS{"memory": vfs.NewMem(), "disk": root} {
		t.Run(name, func(t *testing.T) {
			const seed, items = 5, 3000
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, seed))
			s := openWith(t, Options{FS: fs, Dir: "db", MemtableBytes: 4 << 20})
			kept, gone := map[string]bool{}, map[string]bool{}
			rowKey := func(n int) store.Key {
				return store.Key{Partition: fmt.Sprint("p", n%50), Clustering: fmt.Sprint(n)}
			}
			padding := func() string { // so that tables and logs are many
				b := make([]byte, 200)
				for i := range b {
					b[i] = byte(rng.Uint32())
				}
				return string(b)
			}
			var ended []mayfly.Change
			var ids []mayfly.ID
			for first := 0; first < items; first += 100 {
				commit(t, s, func(b *store.Batch) {
					for n := range 100 {
						n += first
						body := birth(t, rng, testBirth+mayfly.Instant(n), "24h")
						body.Body.Text = secret(2*n) + padding()
						b.Insert(body)
						b.Put(remind.Reminders, rowKey(n), []byte(secret(2*n+1)+padding()), 0)
						if n%3 != 0 {
							kept[secret(2*n)], kept[secret(2*n+1)] = true, true
							continue
						}
						gone[secret(2*n)], gone[secret(2*n+1)] = true, true
						deletion := expire(body.Item, 9)
						deletion.To, deletion.Cause = mayfly.Deleted, mayfly.ByUser
						ended, ids = append(ended, deletion), append(ids, body.Item.ID)
					}
				})
			}
			if err := s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false); err != nil { // they are in the last level, as old ones are
				t.Fatal(err)
			}
			if _, err := s.Ledger().Transition(t.Context(), ended); err != nil {
				t.Fatal(err)
			}
			if err := s.Ledger().EraseBody(t.Context(), ids...); err != nil {
				t.Fatal(err)
			}
			commit(t, s, func(b *store.Batch) {
				for n := 0; n < items; n += 3 {
					if n%2 == 0 {
						b.Delete(remind.Reminders, rowKey(n))
					} else {
						b.Put(remind.Reminders, rowKey(n), []byte("overwritten"), 0)
					}
				}
			})
			found, _ := search(t, s, fs)
			left := 0
			for text := range gone {
				if found[text] {
					left++
				}
			}
			if left < len(gone) {
				t.Fatalf("only %d of %d deleted texts are in files before: this shows little", left, len(gone))
			}
			if err := s.EraseDeleted(t.Context(), 777); err != nil {
				t.Fatal(err)
			}
			if at, err := s.LastErased(t.Context()); err != nil || at != 777 {
				t.Errorf("the last erasure was at %d, %v", at, err)
			}
			if err := s.Close(); err != nil { // tables are removed in the background
				t.Fatal(err)
			}
			found, all := search(t, s, fs)
			for text := range gone {
				if found[text] {
					t.Errorf("%s is still in a file", text)
				}
			}
			for text := range kept {
				if !found[text] {
					t.Fatalf("%s is gone, or the search does not see it", text)
				}
			}
			t.Logf("%d deleted texts were in files before and 0 after; %d tables with %d keys and %d logs were searched", left, all.Tables, all.Keys, all.Logs)
		})
	}
}

// Pebble keeps logs to write over them: what is behind the new records stays.
func TestEraseDeletedLeavesNothingInRecycledLogs(t *testing.T) {
	fs := vfs.NewMem()
	s := openMem(t, fs)
	for n := range 6 { // six logs, the first ones recycled
		commit(t, s, func(b *store.Batch) {
			for i := range 20 {
				b.Put(remind.Reminders, store.Key{Partition: "p", Clustering: fmt.Sprint(i)}, []byte(secret(100*n+i)), 0)
			}
		})
		if err := s.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	commit(t, s, func(b *store.Batch) { b.DeletePartition(remind.Reminders, "p") })
	if err := s.EraseDeleted(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	commit(t, s, func(b *store.Batch) { b.Put(remind.Reminders, store.Key{Partition: "q"}, []byte("after"), 0) })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if found, _ := search(t, s, fs); len(found) > 0 {
		t.Errorf("left: %v", found)
	}
	s = openMem(t, fs)
	values, err := s.Rows().Get(t.Context(), remind.Reminders, store.Key{Partition: "q"})
	if err != nil || string(values[0]) != "after" {
		t.Errorf("%q, %v", values, err)
	}
}

func TestAStoreIsWrittenWhileDeletedBytesAreErased(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	done := make(chan error)
	go func() {
		var err error
		for n := 0; n < 20 && err == nil; n++ {
			err = s.EraseDeleted(t.Context(), mayfly.Instant(n))
		}
		done <- err
	}()
	n := 0
	for erasing := true; erasing; n++ {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			erasing = false
		default:
		}
		commit(t, s, func(b *store.Batch) {
			b.Put(remind.Reminders, store.Key{Partition: fmt.Sprint(n)}, make([]byte, 2000), 0)
		})
	}
	for i := range n {
		values, err := s.Rows().Get(t.Context(), remind.Reminders, store.Key{Partition: fmt.Sprint(i)})
		if err != nil || len(values[0]) != 2000 {
			t.Fatalf("row %d of %d: %d bytes, %v", i, n, len(values[0]), err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
