package profile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/tables"
)

// A folder of format 1 gets the database of keys; what is in it survives a restart, and
// the space of expired keys is taken back.
func TestAnOlderFolderGetsTheDatabaseOfKeys(t *testing.T) {
	fs := memory(t)
	old, err := openFolder(fs, "data", steps()[:1])
	if err != nil {
		t.Fatal(err)
	}
	if err := old.lock.Close(); err != nil {
		t.Fatal(err)
	}
	const now = mayfly.Instant(1_800_000_000_000)
	later := now.Add(time.Hour)
	space := store.KVSpace{Name: "ana"}
	for round := range 2 {
		s, err := EmbeddedOn(fs, "data", small("data"), tables.All())
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			var g store.KVGroup
			for i := range 100 {
				g.Ops = append(g.Ops, store.KVOp{Key: fmt.Sprint(i), Action: store.KVSet, Value: []byte(strings.Repeat("v", 100)), Expiry: now.Add(time.Minute) * mayfly.Instant(i%2)})
			}
			if _, err := s.Set.KV.Apply(t.Context(), space, now, g); err != nil {
				t.Fatal(err)
			}
			if err := s.Reclaim(t.Context(), later); err != nil {
				t.Fatal(err)
			}
		}
		usage, err := s.Set.KV.Usage(t.Context(), later)
		if err != nil || usage.Expired != 0 || usage.Sync != "always" {
			t.Errorf("round %d: %+v, %v", round, usage, err)
		}
		found, err := s.Set.KV.Get(t.Context(), space, now, "0", "1")
		if err != nil || !found[0].Found || found[1].Found {
			t.Errorf("round %d: %+v, %v", round, found, err)
		}
		closed(t, s)
	}
}
