//go:build servers

package cassandrastore

import (
	"slices"
	"sync"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

func TestARefusedBatchWritesNothingAndReturnsEveryRow(t *testing.T) {
	s := openTestStore(t)
	for _, lifetime := range []string{"24h", "never"} {
		fresh := births(t, 30, lifetime)
		insert(t, s, fresh...)
		items := itemsOf(fresh)
		h := placeOf(items[0].ID).hole
		var writes []write
		for _, item := range items {
			c := expire(item)
			c.To, c.Cause, c.At = mayfly.Deleted, mayfly.ByUser, item.Changed
			writes = append(writes, advanced(t, item, c))
		}
		applied, _, err := s.condition(t.Context(), h, writes[17:18])
		if err != nil || !applied {
			t.Fatalf("one row: applied %t, %v", applied, err)
		}
		if applied, _, err = s.condition(t.Context(), h, []write{{before: items[3], removes: true}}); err != nil || !applied {
			t.Fatalf("remove one row: applied %t, %v", applied, err)
		}
		applied, now, err := s.condition(t.Context(), h, writes)
		if err != nil || applied {
			t.Fatalf("a batch with a row that moved and one that is gone: applied %t, %v", applied, err)
		}
		want := map[mayfly.ID]mayfly.Item{}
		for i, item := range items {
			switch i {
			case 3:
			case 17:
				want[item.ID] = writes[17].after
			default:
				want[item.ID] = item
			}
		}
		if len(now) != len(want) {
			t.Errorf("%s: the refusal tells %d rows, want %d", lifetime, len(now), len(want))
		}
		for id, item := range want {
			if now[id] != item {
				t.Errorf("%s: %s\n reported %+v\n want %+v", lifetime, id, now[id], item)
			}
		}
	}
}

// Two nodes have lanes of their own, so that their batches meet in the server.
func TestConcurrentBatchesOfTwoNodesApplyEachRowOnce(t *testing.T) {
	nodes := []*Store{openTestStore(t), openTestStore(t), openTestStore(t)}
	const rounds, n = 8, 40
	refused := 0
	for range rounds {
		fresh := births(t, n, "24h")
		insert(t, nodes[0], fresh...)
		items := itemsOf(fresh)
		outcomes := make([][]store.Outcome, len(nodes))
		var wg sync.WaitGroup
		for w, s := range nodes {
			wg.Go(func() {
				var changes []mayfly.Change
				for i := range items {
					if i%len(nodes) != w { // each leaves out some that the others name
						changes = append(changes, expire(items[i]))
					}
				}
				var err error
				if outcomes[w], err = s.Ledger().Transition(t.Context(), changes); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		applied := map[mayfly.ID]int{}
		for _, of := range outcomes {
			for _, o := range of {
				switch o.Result {
				case store.Applied:
					applied[o.Current.ID]++
				case store.Stale:
					refused++
				default:
					t.Errorf("a change is %s: %v", o.Result, o.Err)
				}
			}
		}
		for _, item := range items {
			if applied[item.ID] != 1 {
				t.Errorf("%s was applied %d times", item.ID, applied[item.ID])
			}
		}
	}
	storetest.Proof(t, "batches of three nodes on one pigeonhole", "changes that came second", refused)
	if refused == 0 {
		t.Error("no batches met")
	}
}

func TestMoreRowsThanAPageAndABatchAreReadAndChanged(t *testing.T) {
	s := openTestStore(t)
	fresh := births(t, 2*pageSize+100, "24h")
	insert(t, s, fresh...)
	items := itemsOf(fresh)
	slices.SortFunc(items, func(a, b mayfly.Item) int {
		if d := a.ID.Deadline() - b.ID.Deadline(); d != 0 {
			return int(d)
		}
		return a.ID.Compare(b.ID)
	})
	h := placeOf(items[0].ID).hole
	stretch := store.Stretch{Minute: mayfly.Minute(h.minute), Shard: h.shard, To: items[len(items)-1].ID.Deadline()}
	got, err := s.Ledger().Walk(t.Context(), stretch, len(items)+1)
	if err != nil || !slices.Equal(got, items) {
		t.Fatalf("a walk of %d rows hands out %d: %v", len(items), len(got), err)
	}
	changes := make([]mayfly.Change, len(items))
	for i, item := range items {
		changes[i] = expire(item)
	}
	outcomes, err := s.Ledger().Transition(t.Context(), changes)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range outcomes {
		if o.Result != store.Applied || o.Current.Nonce != changes[i].Nonce {
			t.Fatalf("change %d is %s: %v", i, o.Result, o.Err)
		}
	}
}
