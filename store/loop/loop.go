// Package loop is in charge of the shape of a background loop: one goroutine,
// one select, which runs a step when it is woken, when its time has come, or
// when a failed step is due again.
//
// A wake-up that arrives during a step is not lost: the step runs once more.
// Steps never overlap. A failing step backs off, boundedly, and is tried for
// ever. The package never swallows a panic: a step that panics ends the process.
package loop

import (
	"context"
	"math/rand/v2"
	"runtime/pprof"
	"time"
)

// Options say when a loop runs. The zero Options run on Wake only.
type Options struct {
	// Name is what the loop's goroutine is called in a profile.
	Name string
	// Every is the pause after a step that went well; 0 waits for Wake.
	Every time.Duration
	// First is the pause before the first step; 0 is none.
	First time.Duration
	// Jitter is the share of every pause that is left to chance, 0 to 1, so that
	// loops started together drift apart: 0.1 makes 10 s anything from 9 to 10.
	Jitter float64
	// Backoff is the pause after a first error; it doubles with each further one
	// up to BackoffMax. 100 ms and 30 s unless set.
	Backoff, BackoffMax time.Duration
	// Failed is called with each error and how many there were in a row. May be nil.
	Failed func(err error, inARow int)
	// Stepped tells a test that a step is over and the next pause has begun, with
	// the step's error.
	Stepped Signal[error]
}

// Loop is a running loop.
type Loop struct {
	options Options
	step    func(context.Context) error
	wake    chan struct{}
	cancel  context.CancelFunc
	done    chan struct{}
}

// Start runs step in a goroutine of its own, for the first time after First or
// when it is woken, until ctx ends or Stop is called.
func Start(ctx context.Context, options Options, step func(context.Context) error) *Loop {
	if options.Backoff <= 0 {
		options.Backoff = 100 * time.Millisecond
	}
	if options.BackoffMax <= 0 {
		options.BackoffMax = 30 * time.Second
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &Loop{options: options, step: step, wake: make(chan struct{}, 1), cancel: cancel, done: make(chan struct{})}
	go pprof.Do(ctx, pprof.Labels("loop", options.Name), l.run)
	return l
}

// Wake runs the step soon. It never blocks; wake-ups that come together are one.
// A wake-up cuts a back-off short.
func (l *Loop) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Stop ends the loop and waits for the step that is running, whose context is
// cancelled; if ctx ends before that, Stop returns its error. It may be called
// again, and by several.
func (l *Loop) Stop(ctx context.Context) error {
	l.cancel()
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Done is closed when the loop has ended.
func (l *Loop) Done() <-chan struct{} { return l.done }

func (l *Loop) run(ctx context.Context) {
	defer close(l.done)
	timer := time.NewTimer(l.options.First)
	defer timer.Stop()
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-timer.C:
		}
		if ctx.Err() != nil {
			return
		}
		err := l.step(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			failures = 0
		} else {
			failures++
			if l.options.Failed != nil {
				l.options.Failed(err, failures)
			}
		}
		timer.Stop()
		if pause := l.options.pause(failures); pause > 0 {
			timer.Reset(pause)
		}
		l.options.Stepped.Send(err)
	}
}

// pause is how long to wait after so many failures in a row.
func (o Options) pause(failures int) time.Duration {
	pause := o.Every
	if failures > 0 {
		pause = o.BackoffMax
		if doubled := o.Backoff << min(failures-1, 32); doubled > 0 && doubled>>min(failures-1, 32) == o.Backoff {
			pause = min(pause, doubled)
		}
	}
	return pause - time.Duration(rand.Float64()*o.Jitter*float64(pause))
}
