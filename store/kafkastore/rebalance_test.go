//go:build servers

package kafkastore

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// effects records the effects of readers: one per key, and their order per item.
type effects struct {
	mu     sync.Mutex
	last   map[mayfly.ID]mayfly.Generation
	done   map[mayfly.EventKey]bool
	again  int
	behind []mayfly.Event // read for the first time after a later event of the item
	all    chan struct{}  // closed when the wanted number is done
	want   int
}

func newEffects(want int) *effects {
	return &effects{last: map[mayfly.ID]mayfly.Generation{}, done: map[mayfly.EventKey]bool{}, all: make(chan struct{}), want: want}
}

func (f *effects) take(records []store.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range records {
		if f.done[r.Event.Key()] {
			f.again++
			continue
		}
		f.done[r.Event.Key()] = true
		if r.Event.Generation < f.last[r.Event.ID] {
			f.behind = append(f.behind, r.Event)
		}
		f.last[r.Event.ID] = r.Event.Generation
		if len(f.done) == f.want {
			close(f.all)
		}
	}
}

// consume reads, records the effects and commits, until ctx ends. A commit that fails
// because of a rebalance is no error: the records are read again.
func (f *effects) consume(ctx context.Context, t *testing.T, r *reader, limit int) {
	for ctx.Err() == nil {
		records, err := r.Next(ctx, limit)
		if err == nil {
			f.take(records)
			err = r.Commit(ctx)
		}
		if err != nil && ctx.Err() == nil {
			if !errors.Is(err, mayfly.Unavailable) && !errors.Is(err, mayfly.Unknown) {
				t.Error(err)
				return
			}
			t.Log("continues after", err)
		}
	}
}

func TestNoEffectIsLostOrOutOfOrderWhileReadersComeAndGo(t *testing.T) {
	t.Parallel()
	o := brokerOptions(t)
	o.Partitions = 8
	writer := open(t, o)
	const items, each = 200, 10
	f := newEffects(items * each)
	stop := make([]context.CancelFunc, 3)
	var wg sync.WaitGroup
	come := func(i int) {
		s := open(t, o) // stands for another process
		r := join(t, s, "coming-and-going")
		ctx, cancel := context.WithCancel(t.Context())
		stop[i] = cancel
		wg.Go(func() {
			defer r.Close()
			f.consume(ctx, t, r, 7)
		})
	}
	come(0)
	lives := make([][]mayfly.Event, items)
	for i := range lives {
		lives[i] = life(t, each)
	}
	for n := range each {
		for _, events := range lives {
			if err := writer.Append(t.Context(), events[n]); err != nil {
				t.Fatal(err)
			}
		}
		switch n {
		case 1:
			come(1)
		case 3:
			come(2)
		case 5:
			stop[0]()
		case 7:
			stop[1]()
		}
	}
	select {
	case <-f.all:
	case <-t.Context().Done():
	}
	stop[2]()
	wg.Wait()
	t.Logf("%d effects, %d records were read again", len(f.done), f.again)
	if len(f.behind) > 0 {
		t.Errorf("%d events took effect after a later one of their item, such as %v", len(f.behind), f.behind[0])
	}
}

func TestASeekIsRefusedWhileTheGroupHasOtherReaders(t *testing.T) {
	t.Parallel()
	o := brokerOptions(t)
	a, b := open(t, o), open(t, o)
	first := join(t, a, "together")
	if _, err := a.Reader(t.Context(), mayfly.Ends, "together"); !errors.Is(err, mayfly.Conflict) {
		t.Errorf("a second reader in one process: %v", err)
	}
	second := join(t, b, "together")
	if err := first.Seek(t.Context(), 0); !errors.Is(err, mayfly.Conflict) {
		t.Errorf("a seek beside another reader: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if err := first.Seek(t.Context(), 0); err != nil {
		t.Errorf("alone again: %v", err)
	}
}

func TestAClosedReaderAndAClosedStoreReturnErrors(t *testing.T) {
	t.Parallel()
	s := open(t, brokerOptions(t))
	r := join(t, s, "closing")
	waiting := join(t, s, "waiting")
	ended := make(chan error, 1)
	go func() {
		_, err := waiting.Next(t.Context(), 1)
		ended <- err
	}()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(t.Context(), 1); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("a closed reader: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, mayfly.Unavailable) && !errors.Is(err, mayfly.Invalid) {
		t.Errorf("a reader whose store is closed: %v", err)
	}
	if err := s.Append(t.Context(), life(t, 1)...); !errors.Is(err, mayfly.Unavailable) {
		t.Errorf("a closed store: %v", err)
	}
}
