package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// pause stops a walker before its k-th call to the store until it is let go on.
type pause struct {
	mu     sync.Mutex
	calls  int
	at     int
	last   string
	paused chan struct{}
	resume chan struct{}
}

func newPause() *pause { return &pause{paused: make(chan struct{}), resume: make(chan struct{})} }

// arm pauses the k-th call from now.
func (p *pause) arm(k int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls, p.at = 0, k
}

func (p *pause) before(what string) {
	p.mu.Lock()
	p.calls++
	here := p.calls == p.at
	if here {
		p.last = what
	}
	p.mu.Unlock()
	if here {
		close(p.paused)
		<-p.resume
	}
}

// over is set with the pause in front of what a walker calls.
func (p *pause) over(set store.Set) store.Set {
	set = fixture.Hook(set, &fixture.Hooks{
		Commit: func(_ context.Context, _ *store.Batch, do func() error) error {
			p.before("commit")
			return do()
		},
		Transition: fixture.BeforeTransition(func() { p.before("transition") }),
		Swap: func(_ context.Context, t store.Table, _ store.Key, do fixture.Swap) (bool, []byte, error) {
			p.before("swap " + t.String())
			return do()
		},
		Append: func(_ context.Context, _ []mayfly.Event, do func() error) error {
			p.before("append")
			return do()
		},
	})
	set.Ledger = pauseLedger{set.Ledger, p}
	return set
}

type pauseLedger struct {
	store.Ledger
	p *pause
}

func (l pauseLedger) Walk(ctx context.Context, s store.Stretch, limit int) ([]mayfly.Item, error) {
	l.p.before("walk")
	return l.Ledger.Walk(ctx, s, limit)
}

func TestZombieThatOutlivesItsLeaseChangesNothing(t *testing.T) {
	n, total, pauses := seed(t), newTally(), map[string]int{}
	for k := 1; ; k++ {
		where, found, err := haunt(t.Context(), n, k)
		if err != nil {
			t.Fatalf("paused before call %d, %s: %v", k, where, err)
		}
		if where == "" {
			break // the pass has no k-th call
		}
		pauses[where]++
		total.merge(found, fmt.Sprintf("paused before call %d, %s", k, where))
	}
	storetest.Proof(t, "zombies", "places to be paused at", fmt.Sprint(pauses))
	total.zero(t, "zombies")
	for _, call := range []string{"walk", "transition", "append", "swap watermarks"} {
		if pauses[call] == 0 {
			t.Errorf("no zombie was paused before %s", call)
		}
	}
}

// haunt pauses a pass before its k-th call for longer than its lease. Another
// walker takes over and finishes; then the first goes on. where is empty when
// there is no k-th call.
func haunt(ctx context.Context, n uint64, k int) (where string, found *tally, err error) {
	b := newRecord()
	b.shards = 1
	h, err := openEngine(ctx, plan{fs: vfs.NewMem(), random: fewShards{randomBits(n), 1}, wrap: b.witnessed, shards: 1}, genesis)
	if err != nil {
		return "", nil, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	s := newScenario(h, b, seeded(n), genesis)
	for range 12 {
		w := s.newWish()
		w.lifetime = 5_000
		if _, err := b.publish(ctx, h.uploads, h.intake, w, s.at()); err != nil {
			return "", nil, err
		}
		s.advance(100 * time.Millisecond)
	}
	p := newPause()
	zombie, err := newWalkers(ctx, p.over(h.set), "zombie", 1, s.at())
	if err != nil {
		return "", nil, err
	}
	s.advance(settle + 10*time.Second)
	done := make(chan error, 1)
	then := s.at()
	p.arm(k)
	go func() { done <- passAll(ctx, zombie, then) }()
	select {
	case <-p.paused:
	case err := <-done:
		return "", nil, err
	}
	s.advance(6 * time.Second) // its lease has run out
	if err := s.finish(ctx, b.known()); err != nil {
		return p.last, nil, err
	}
	before, err := h.raw.Rows.Get(ctx, walk.Watermarks, store.Key{Partition: "sweep", Clustering: "\x00"})
	if err != nil {
		return p.last, nil, err
	}
	close(p.resume)
	<-done // it may find out that it has lost the shard, or finish its pass: both are right
	after, err := h.raw.Rows.Get(ctx, walk.Watermarks, store.Key{Partition: "sweep", Clustering: "\x00"})
	if err != nil {
		return p.last, nil, err
	}
	if string(before[0]) != string(after[0]) {
		return p.last, nil, errors.New("the zombie has moved the watermark")
	}
	if err := passAll(ctx, zombie, s.at()); err != nil {
		return p.last, nil, err
	}
	found, _, err = inspect(ctx, h, b, s.at(), true)
	return p.last, found, err
}
