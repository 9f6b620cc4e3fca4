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
	hands  *benchHands
}

func openBenchEngine(folder string) (*benchEngine, error) {
	cfg := config.Default()
	cfg.Data = filepath.Join(folder, "data") // the deletion ledger is beside it
	s, err := profile.Embedded(cfg, node.Tables())
	if err != nil {
		return nil, err
	}
	return &benchEngine{config: cfg, store: s, hands: &benchHands{}}, nil
}

// start starts a node whose clock shows at now, with settings changed by set.
func (e *benchEngine) start(ctx context.Context, at mayfly.Instant, set func(o *node.Options)) (err error) {
	o := node.FromConfig(e.config)
	o.Reclaim = e.store.Reclaim
	o.OrphansEvery, o.ScrubBytes = 10_000*time.Hour, 0 // stories are loaded without their media
	e.hands.set(at)
	o.Source = e.hands.source()
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

// rest waits until nothing has been written for a while: flushes and compactions
// of what came before are no part of what comes next.
func (e *benchEngine) rest(ctx context.Context, b *bench) error {
	before, still := e.io(), time.Duration(0)
	for start := time.Now(); still < b.quiet && time.Since(start) < time.Minute; {
		if err := loop.Rest(ctx, b.quiet/5); err != nil {
			return err
		}
		still += b.quiet / 5
		if now := e.io(); now.since(before).bytes > 64<<10 { // marks of the clock go on
			before, still = now, 0
		}
	}
	return nil
}

// benchHands turn the hands of a node's clock: it runs as the system's does,
// shifted, so that a minute can be loaded now and fall due when it suits.
type benchHands struct{ shift atomic.Int64 }

// set makes the clock show at.
func (h *benchHands) set(at mayfly.Instant) {
	h.shift.Store(at.Time().UnixNano() - time.Now().UnixNano())
}

func (h *benchHands) source() clock.Source {
	s := clock.System()
	read := s.Read
	s.Read = func() clock.Moment {
		m := read()
		m.Wall += h.shift.Load()
		return m
	}
	return s
}

// problems collects what the loops of a node could not do.
type problems struct{ first atomic.Pointer[error] }

func (p *problems) tell(loop string, err error) {
	err = fmt.Errorf("%s: %w", loop, err)
	p.first.CompareAndSwap(nil, &err)
}

func (p *problems) err() error {
	if e := p.first.Load(); e != nil {
		return *e
	}
	return nil
}
