package kvpebble

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/pace"
)

// The head of an entry is not counted as live: it must stay small in the tables (K3).
func TestTinyEntriesTakeLittleMoreThanWhatTheyHold(t *testing.T) {
	pace.Heavy(t, "writes and compacts 400,000 entries")
	const stored = 200_000
	r := seeded(t)
	for _, size := range []int{1, 8} {
		s := openWith(t, Options{FS: vfs.NewMem()})
		for from := 0; from < stored; from += 100 {
			now := testNow + mayfly.Instant(from)*10
			var g store.KVGroup
			for range 100 {
				value := make([]byte, size)
				for i := range value {
					value[i] = byte(r.Uint32())
				}
				g.Ops = append(g.Ops, store.KVOp{Key: fmt.Sprintf("key:%012d", r.IntN(stored*4)), Action: store.KVSet, Value: value, Expiry: now + 60*minute})
			}
			if _, err := s.Apply(t.Context(), store.KVSpace{Name: "test"}, now, g); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false); err != nil {
			t.Fatal(err)
		}
		usage, err := s.Usage(t.Context(), testNow)
		if err != nil {
			t.Fatal(err)
		}
		ratio := float64(s.db.Metrics().Total().TablesSize) / float64(usage.Live)
		t.Logf("values of %d bytes: tables over live %.2f", size, ratio)
		if ratio > 1.4 {
			t.Errorf("the tables of values of %d bytes have %.2f times what is live", size, ratio)
		}
	}
}
