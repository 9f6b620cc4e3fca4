//go:build servers

package cluster

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/store"
)

// The comparison proves something only if it finds a planted fault: a store of the
// cluster that is wrong in one small way.
func TestADifferenceThatIsPlantedInTheClusterIsFound(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(*store.Set){
		"every fifth row of the owner index is lost": func(s *store.Set) { s.Writer = &forgetfulWriter{Writer: s.Writer} },
		"a row is read one state behind, once":       func(s *store.Set) { s.Ledger = &lateLedger{Ledger: s.Ledger, was: map[mayfly.ID]store.Found{}} },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrama(newPair(t, plant), seeded(t).Uint64())
			different := d.play(800, 0)
			if different == "" {
				t.Fatalf("after %d requests no difference was found:%s", d.requests, d.count())
			}
			first, _, _ := strings.Cut(different, "\n")
			t.Logf("found after %d requests and %d stories: %s", d.requests, len(d.stories), first)
		})
	}
}

// forgetfulWriter drops every fifth row of the owner index, and says nothing.
type forgetfulWriter struct {
	store.Writer
	puts atomic.Uint64
}

func (w *forgetfulWriter) Commit(ctx context.Context, b *store.Batch) error {
	var kept store.Batch
	for _, s := range b.Stages() {
		kept.Then()
		kept.Insert(s.Inserts...)
		for _, p := range s.Puts {
			if p.Table == engine.Owners && w.puts.Add(1)%5 == 0 {
				continue
			}
			kept.Put(p.Table, p.Key, p.Value, p.ReclaimAt)
		}
		for _, d := range s.Deletes {
			kept.Delete(d.Table, d.Key)
		}
		for _, d := range s.Drops {
			kept.DeletePartition(d.Table, d.Partition)
		}
		kept.Append(s.Events...)
	}
	return w.Writer.Commit(ctx, &kept)
}

// lateLedger answers with the row of before, the first time that a row has changed
// since it was read last.
type lateLedger struct {
	store.Ledger
	mu  sync.Mutex
	was map[mayfly.ID]store.Found
}

func (l *lateLedger) Get(ctx context.Context, ids ...mayfly.ID) ([]store.Found, error) {
	all, err := l.Ledger.Get(ctx, ids...)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, id := range ids {
		was, known := l.was[id]
		l.was[id] = all[i]
		if known && was.Found && all[i].Found && was.Item.Generation < all[i].Item.Generation {
			all[i] = was
		}
	}
	return all, nil
}
