package storetest

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"sync"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Op is the name of a call that a Plan can fail.
type Op string

// The calls that write.
const (
	Commit     Op = "commit"
	Transition Op = "transition"
	Swap       Op = "swap"
	Append     Op = "append"
)

// Call is a writing call as a plan sees it.
type Call struct {
	N      int // counted from 1, over all ops
	Op     Op
	Stages []int // how many writes each stage has; calls other than Commit have one stage
}

// Fault says how a call fails; the zero Fault lets it succeed.
type Fault struct {
	Fails   bool
	Stage   int         // stages before it are complete; len(Stages): all is written, but the call returns an error
	Written uint64      // which writes of that stage are done: bit i (mod 64) for write i
	Silent  bool        // the error names no stage; a Transition returns an error instead of outcomes in doubt
	Kind    mayfly.Kind // of the error: Unknown if zero, or Unavailable
	Halts   bool        // all later calls fail, until LateWrites.Resume
}

// Plan decides how each writing call fails. It is called for one call at a time.
type Plan func(Call) Fault

// Pass fails nothing: a first run with it shows which calls there are.
func Pass(Call) Fault { return Fault{} }

// FailNth fails the n-th call with f.
func FailNth(n int, f Fault) Plan {
	f.Fails = true
	return func(c Call) Fault {
		if c.N == n {
			return f
		}
		return Fault{}
	}
}

// Seeded fails one call in oneIn with a random one of its Faults.
func Seeded(seed uint64, oneIn int) Plan {
	r := rand.New(rand.NewPCG(seed, 1))
	return func(c Call) Fault {
		if r.IntN(oneIn) != 0 {
			return Fault{}
		}
		all := Faults(c)
		return all[r.IntN(len(all))]
	}
}

// subsetsUpTo is the largest number of writes in a stage of which every subset is
// tried; for more, only subsets with none, one and all but one.
const subsetsUpTo = 5

// Faults lists the ways in which a call can fail: at every stage, with every subset of
// its writes done, with and without the stage in the error. A test that runs all of
// them has stopped the call everywhere.
func Faults(c Call) []Fault {
	var all []Fault
	for stage, writes := range c.Stages {
		for _, written := range subsets(writes) {
			for _, silent := range []bool{false, true} {
				all = append(all, Fault{Fails: true, Stage: stage, Written: written, Silent: silent, Kind: mayfly.Unknown})
			}
		}
		all = append(all, Fault{Fails: true, Stage: stage, Kind: mayfly.Unavailable})
	}
	return append(all, Fault{Fails: true, Stage: len(c.Stages), Silent: true, Kind: mayfly.Unknown})
}

func subsets(writes int) []uint64 {
	whole := uint64(1)<<min(writes, 63) - 1
	if writes >= 64 {
		whole = ^uint64(0)
	}
	var some []uint64
	if writes <= subsetsUpTo {
		for mask := range whole { // not the complete stage: that is the next stage with no write
			some = append(some, mask)
		}
		return some
	}
	some = append(some, 0)
	for i := range bits.Len64(whole) {
		some = append(some, 1<<i, whole&^(1<<i))
	}
	return some
}

func (f Fault) writes(i int) bool { return f.Written>>(i%64)&1 == 1 }

func (f Fault) err(op Op) error {
	kind := f.Kind
	if kind == 0 {
		kind = mayfly.Unknown
	}
	return mayfly.Errorf(kind, "%s: stopped by the plan", op)
}

// LateWrites holds the writes of failed calls that were not done. Each may still be
// done at any later time, as a delayed request to a server can be.
type LateWrites struct {
	real store.Set
	plan Plan

	mu     sync.Mutex
	calls  []Call
	failed int
	late   []late
	halted bool
}

// late is one such write. Done later it has the same effect as in time: an insert
// keeps an existing row, a put overwrites, a transition or swap applies only if the
// row is still the one that it expects.
type late struct {
	what string
	land func(context.Context) error
}

// Calls returns the writing calls so far, for a plan that fails each of them.
func (l *LateWrites) Calls() []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Call(nil), l.calls...)
}

// Failed returns how many calls the plan has failed.
func (l *LateWrites) Failed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// Pending describes the writes that have not been done.
func (l *LateWrites) Pending() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var pending []string
	for _, w := range l.late {
		pending = append(pending, w.what)
	}
	return pending
}

// Land does a random subset of the pending writes, in random order; the others stay
// pending. It returns how many it did.
func (l *LateWrites) Land(ctx context.Context, r *rand.Rand) (int, error) {
	return l.land(ctx, r, func() bool { return r.IntN(2) == 0 })
}

// LandAll does all pending writes, in random order.
func (l *LateWrites) LandAll(ctx context.Context, r *rand.Rand) (int, error) {
	return l.land(ctx, r, func() bool { return true })
}

// Forget drops the pending writes: they are never done.
func (l *LateWrites) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = nil
}

func (l *LateWrites) land(ctx context.Context, r *rand.Rand, chosen func() bool) (int, error) {
	l.mu.Lock()
	var now, later []late
	for _, w := range l.late {
		if chosen() {
			now = append(now, w)
		} else {
			later = append(later, w)
		}
	}
	l.late = later
	l.mu.Unlock()
	r.Shuffle(len(now), func(i, j int) { now[i], now[j] = now[j], now[i] })
	for n, w := range now {
		if err := w.land(ctx); err != nil {
			return n, fmt.Errorf("late %s: %w", w.what, err)
		}
	}
	return len(now), nil
}

// Resume ends a halt, as a new process on the same store does.
func (l *LateWrites) Resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.halted = false
}

// count counts a call and asks the plan about it.
func (l *LateWrites) count(op Op, stages ...int) (Fault, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.dead(); err != nil {
		return Fault{}, err
	}
	c := Call{N: len(l.calls) + 1, Op: op, Stages: stages}
	l.calls = append(l.calls, c)
	f := l.plan(c)
	if f.Fails {
		l.failed++
		l.halted = f.Halts
	}
	return f, nil
}

func (l *LateWrites) dead() error {
	if l.halted {
		return mayfly.Errorf(mayfly.Unavailable, "the process was stopped by the plan")
	}
	return nil
}

// alive returns an error while the process is halted.
func (l *LateWrites) alive() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead()
}

func (l *LateWrites) keep(what string, land func(context.Context) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = append(l.late, late{what, land})
}
