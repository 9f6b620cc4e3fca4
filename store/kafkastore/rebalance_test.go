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

// effects are what readers did, once for each key, and in which order for each item.
type effects struct {
	mu     sync.Mutex
	last   map[mayfly.ID]mayfly.Generation
	done   map[mayfly.EventKey]bool
	again  int
	behind []mayfly.Event // came for the first time behind a later one
	all    chan struct{}  // closed when want are done
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

// consume reads, takes effect, commits, until ctx ends. A commit that is refused
// because the group was shared out anew is no failure: the records come again.
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
			t.Log("goes on after", err)
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
		s := open(t, o) // a process of its own
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
	t.Logf("%d effects, %d records came again", len(f.done), f.again)
	if len(f.behind) > 0 {
		t.Errorf("%d events took effect behind a later one of their item, such as %v", len(f.behind), f.behind[0])
	}
}

func TestASeekIsRefusedWhileOthersReadForTheGroup(t *testing.T) {
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

func TestAClosedReaderAndAClosedStoreSaySo(t *testing.T) {
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
