package walk_test

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

const (
	start               = fixture.Start
	shard  mayfly.Shard = 5
	settle              = 15 * time.Second
	name                = "test"
)

// open returns an empty store.
func open(t testing.TB) store.Set {
	t.Helper()
	return fixture.Open(t).Real
}

// due puts items with these deadlines into the shard and answers their ids, in
// the order of a walk.
func due(t testing.TB, set store.Set, deadlines ...mayfly.Instant) []mayfly.ID {
	t.Helper()
	hour := fixture.Lifetime(t, time.Hour)
	var b store.Batch
	var ids []mayfly.ID
	for _, deadline := range deadlines {
		id, err := mayfly.NewID(deadline.Add(-time.Hour), hour, mayfly.Trace(rand.Uint32N(1024)), rand.Uint64()&^0xf|uint64(shard))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
		b.Insert(store.Birth{Item: mayfly.Item{
			ID: id, Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone,
			State: mayfly.Active, Generation: mayfly.Born, Nonce: 1, Changed: id.Birth(),
		}})
	}
	if err := set.Writer.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(ids, func(a, b mayfly.ID) int { return a.Compare(b) }) // one lifetime: by birth is by deadline
	return ids
}

// spread is n deadlines, one every step from from on.
func spread(from mayfly.Instant, step time.Duration, n int) []mayfly.Instant {
	all := make([]mayfly.Instant, n)
	for i := range all {
		all[i] = from.Add(time.Duration(i) * step)
	}
	return all
}

// recorder is an Act that records what it was handed. then decides what becomes of
// a batch; nil is success.
type recorder struct {
	mu      sync.Mutex
	batches []walk.Batch
	done    []mayfly.ID // of the batches that went well
	then    func(ctx context.Context, b walk.Batch) ([]walk.Failure, error)
}

func (k *recorder) act(ctx context.Context, b walk.Batch) (failures []walk.Failure, err error) {
	b.Items = slices.Clone(b.Items)
	k.mu.Lock()
	k.batches = append(k.batches, b)
	k.mu.Unlock()
	if k.then != nil {
		failures, err = k.then(ctx, b)
	}
	if err == nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, item := range b.Items {
			k.done = append(k.done, item.ID)
		}
	}
	return failures, err
}

// sizes are the sizes of the batches since the last time it was asked.
func (k *recorder) sizes() (all []int) {
	for _, b := range k.batches {
		all = append(all, len(b.Items))
	}
	k.batches = nil
	return all
}

func (k *recorder) walk() walk.Walk { return walk.Walk{Name: name, Act: k.act, Park: park} }

func park(b *store.Batch, f walk.Failure, due mayfly.Instant) {
	remind.Write(b, remind.Reminder{Due: due, ID: f.Item.ID, Step: remind.Expire, Tries: 1, Reason: f.Err.Error()})
}

// walker walks the shard for holder from origin, a minute before start.
func walker(t testing.TB, set store.Set, w walk.Walk, o walk.Options) *walk.Walker {
	t.Helper()
	if o.Holder == "" {
		o.Holder = "one"
	}
	if o.Settle == 0 {
		o.Settle = settle
	}
	origin, err := walk.Origin(t.Context(), set.Rows, start)
	if err != nil {
		t.Fatal(err)
	}
	made, err := walk.New(set, w, walk.NewShard(set.Rows, shard, o.Holder, 5*time.Second, origin), o)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// pass passes at now until there is no more to do.
func pass(t testing.TB, w *walk.Walker, now mayfly.Instant) {
	t.Helper()
	for more := true; more; {
		var err error
		if more, err = w.Pass(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
}

// stored is the watermark as it is stored; 0 when there is none.
func stored(t testing.TB, set store.Set) mayfly.Instant {
	t.Helper()
	found, err := set.Rows.Get(t.Context(), walk.Watermarks, store.Key{Partition: name, Clustering: string([]byte{byte(shard)})})
	if err != nil {
		t.Fatal(err)
	}
	if found[0] == nil {
		return 0
	}
	return mayfly.Instant(binary.BigEndian.Uint64(found[0]))
}

// parked are the ids that a reminder was written for, due at an instant.
func parked(t testing.TB, set store.Set, at mayfly.Instant) (ids []mayfly.ID) {
	t.Helper()
	rows, err := set.Rows.Range(t.Context(), remind.Reminders, store.Range{Partition: remind.Partition(at.Minute(), shard), Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		r, err := remind.Read(row)
		if err != nil {
			t.Fatal(err)
		}
		if r.Due == at {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

func same(t testing.TB, what string, got, want []mayfly.ID) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %d items, want %d\n got %v\nwant %v", what, len(got), len(want), got, want)
	}
}

// distinct are the ids in the order in which each came first.
func distinct(ids []mayfly.ID) (once []mayfly.ID) {
	seen := map[mayfly.ID]bool{}
	for _, id := range ids {
		if !seen[id] {
			once = append(once, id)
		}
		seen[id] = true
	}
	return once
}
