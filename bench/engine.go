package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/store/loop"
)

// benchEngine is an open data folder, with the product's own settings.
type benchEngine struct {
	config config.Config
	store  *profile.Store
	node   *node.Node // nil until it is started
	clock  *benchClock
}

func openBenchEngine(folder string) (*benchEngine, error) {
	cfg := config.Default()
	cfg.Data = filepath.Join(folder, "data") // the deletion ledger is beside it
	s, err := profile.Embedded(cfg, node.Tables())
	if err != nil {
		return nil, err
	}
	return &benchEngine{config: cfg, store: s, clock: &benchClock{}}, nil
}

// start starts a node whose clock shows at now, with settings changed by set.
func (e *benchEngine) start(ctx context.Context, at mayfly.Instant, set func(o *node.Options)) (err error) {
	o := node.FromConfig(e.config)
	o.Reclaim = e.store.Reclaim
	o.OrphansEvery, o.ScrubBytes = 10_000*time.Hour, 0 // stories are loaded without their media
	e.clock.set(at)
	o.Source = e.clock.source()
	if set != nil {
		set(&o)
	}
	e.node, err = node.Start(ctx, e.store.Set, o)
	return err
}

func (e *benchEngine) now() mayfly.Instant { return e.node.Clock().Read().Now }

func (e *benchEngine) close(ctx context.Context) error {
	var err error
	if e.node != nil {
		err = e.node.Stop(context.WithoutCancel(ctx))
		e.node = nil
	}
	return errors.Join(err, e.store.Close())
}

// benchIO is what the file system has counted.
type benchIO struct{ fsyncs, bytes int64 }

func (e *benchEngine) io() benchIO {
	total := e.store.Meter.Read().Total()
	return benchIO{fsyncs: total.Syncs, bytes: total.Bytes}
}

func (a benchIO) since(b benchIO) benchIO { return benchIO{a.fsyncs - b.fsyncs, a.bytes - b.bytes} }
func (a benchIO) plus(b benchIO) benchIO  { return benchIO{a.fsyncs + b.fsyncs, a.bytes + b.bytes} }

func (b *bench) addIO(trial string, n benchIO) {
	b.report.add(trial+".fsyncs", float64(n.fsyncs))
	b.report.add(trial+".bytes_written", float64(n.bytes))
}

func (e *benchEngine) rest(ctx context.Context, b *bench) error { return restUntil(ctx, b, e.io) }

// restUntil waits until nothing has been written for a while, so that flushes and
// compactions of earlier work do not count in the next measurement.
func restUntil(ctx context.Context, b *bench, io func() benchIO) error {
	before, still := io(), time.Duration(0)
	for start := time.Now(); still < b.quiet && time.Since(start) < time.Minute; {
		if err := loop.Rest(ctx, b.quiet/5); err != nil {
			return err
		}
		still += b.quiet / 5
		if now := io(); now.since(before).bytes > 64<<10 { // marks of the clock go on
			before, still = now, 0
		}
	}
	return nil
}

// benchClock is a node's clock that runs as the system's does, shifted, so that a
// minute can be loaded now and fall due when the trial wants it to.
type benchClock struct{ shift atomic.Int64 }

// set makes the clock show at.
func (h *benchClock) set(at mayfly.Instant) {
	h.shift.Store(at.Time().UnixNano() - time.Now().UnixNano())
}

func (h *benchClock) source() clock.Source {
	s := clock.System()
	read := s.Read
	s.Read = func() clock.Moment {
		m := read()
		m.Wall += h.shift.Load()
		return m
	}
	return s
}

// problems keeps the first error that the loops of a node reported.
type problems struct{ first atomic.Pointer[error] }

func (p *problems) report(loop string, err error) {
	err = fmt.Errorf("%s: %w", loop, err)
	p.first.CompareAndSwap(nil, &err)
}

func (p *problems) err() error {
	if e := p.first.Load(); e != nil {
		return *e
	}
	return nil
}
