package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Landing holds the writes of failed calls that were not written: each may
// still land at any later time.
type Landing struct {
	real store.Set
	plan Plan

	mu     sync.Mutex
	calls  []Call
	failed int
	late   []late
	halted bool
}

// late is a write in flight. What it does when it lands is what it would have
// done in time: an insert leaves a row that is there, a put overwrites, a
// transition or swap applies only if the row still is what it expects.
type late struct {
	what string
	land func(context.Context) error
}

// Calls are the writing calls so far, for a plan that fails each of them.
func (l *Landing) Calls() []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Call(nil), l.calls...)
}

// Failed is how many calls the plan has failed.
func (l *Landing) Failed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// Pending describes the writes that have not landed.
func (l *Landing) Pending() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var pending []string
	for _, w := range l.late {
		pending = append(pending, w.what)
	}
	return pending
}

// Land lets any subset of the pending writes land, in random order; the others
// stay pending. It says how many landed.
func (l *Landing) Land(ctx context.Context, r *rand.Rand) (int, error) {
	return l.land(ctx, r, func() bool { return r.IntN(2) == 0 })
}

// LandAll lets every pending write land, in random order.
func (l *Landing) LandAll(ctx context.Context, r *rand.Rand) (int, error) {
	return l.land(ctx, r, func() bool { return true })
}

// Forget drops the pending writes: they never land.
func (l *Landing) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = nil
}

func (l *Landing) land(ctx context.Context, r *rand.Rand, chosen func() bool) (int, error) {
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

// Resume ends a halt: a new process begins on the same store.
func (l *Landing) Resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.halted = false
}

// asked counts a call and asks the plan about it.
func (l *Landing) asked(op Op, stages ...int) (Fault, error) {
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

func (l *Landing) dead() error {
	if l.halted {
		return mayfly.Errorf(mayfly.Unavailable, "the process was stopped by plan")
	}
	return nil
}

// alive is asked by the calls that only read.
func (l *Landing) alive() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead()
}

func (l *Landing) keep(what string, land func(context.Context) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = append(l.late, late{what, land})
}
