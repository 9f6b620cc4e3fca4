package kvpebble

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly/store"
)

// A call with many keys reads a block of the database once, not for each key, in whatever
// order they come, and also if none of them is there.
func TestManyKeysAreReadBlockByBlock(t *testing.T) {
	const stored, asked = 100_000, 65_535
	s := openWith(t, Options{FS: vfs.NewMem(), CacheBytes: 64 << 10})
	value := []byte(strings.Repeat("v", 64))
	for from := 0; from < stored; from += 1000 {
		var g store.KVGroup
		for i := range 1000 {
			g.Ops = append(g.Ops, store.KVOp{Key: fmt.Sprintf("%08d", from+i), Action: store.KVSet, Value: value})
		}
		if _, err := s.Apply(t.Context(), testSpace, testNow, g); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false); err != nil {
		t.Fatal(err)
	}
	r := seeded(t)
	for name, key := range map[string]string{"present": "%08d", "absent": "%08d is not there"} {
		t.Run(name, func(t *testing.T) {
			keys := make([]string, asked)
			for i := range keys {
				keys[i] = fmt.Sprintf(key, r.IntN(stored))
			}
			before := s.db.Metrics().BlockCache
			entries, err := s.Get(t.Context(), testSpace, testNow, keys...)
			if err != nil {
				t.Fatal(err)
			}
			after := s.db.Metrics().BlockCache
			for i, e := range entries {
				if e.Key != keys[i] || e.Found != (name == "present") {
					t.Fatalf("key %q: found %t, of %q", keys[i], e.Found, e.Key)
				}
			}
			blocks := after.Hits + after.Misses - before.Hits - before.Misses
			t.Logf("%d keys, %d blocks", asked, blocks)
			if most := int64(stored / 10); blocks > most {
				t.Errorf("%d keys read %d blocks; the database has fewer than %d", asked, blocks, most)
			}
		})
	}
}
