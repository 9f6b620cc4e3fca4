package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// clusterTrial measures the cluster profile on real servers: the drivers, the
// nodes and the settings of the product. Nodes and load are in this process, so
// that they share its cores with each other, and with the servers where those are
// on the same machine.
type clusterTrial struct {
	sweep   clusterSweep
	births  birthsTrial
	archive int // stories
	life    clusterLife
}

func clusterTrialOf(f benchForm) clusterTrial {
	if f == quickForm {
		return clusterTrial{
			sweep:   clusterSweep{pairs: 3, batched: 1_500, single: 40},
			births:  birthsTrial{writers: clusterWriters, warm: 500 * time.Millisecond, lasts: 2 * time.Second},
			archive: 500,
			life:    clusterLife{stories: 500, lifetime: 4 * time.Second, settle: 3 * time.Second, window: 3 * time.Second},
		}
	}
	return clusterTrial{
		sweep:   clusterSweep{pairs: 5, batched: 2_500, single: 200},
		births:  birthsTrial{writers: clusterWriters, warm: 5 * time.Second, lasts: 30 * time.Second},
		archive: 10_000,
		life:    clusterLife{stories: 100_000, lifetime: 20 * time.Second, settle: 15 * time.Second, window: 20 * time.Second},
	}
}

// clusterWriters is how many clients publish at once.
const clusterWriters = 32

// run measures in places that it has to itself: in one what is compared and births,
// which leave rows in any state; in another the archive and whole lives, after which
// all of that place is verified.
func (t clusterTrial) run(ctx context.Context, b *bench, folder string) error {
	defer slog.SetLogLoggerLevel(slog.SetLogLoggerLevel(slog.LevelWarn)) // of the drivers
	for _, part := range []func(context.Context, *bench, *clusterPlace) error{t.compared, t.lived} {
		place, err := newClusterPlace(b.sources, folder)
		if err != nil {
			return err
		}
		err = part(ctx, b, place)
		if err := errors.Join(err, place.leave(context.WithoutCancel(ctx), b)); err != nil {
			return err
		}
	}
	return nil
}

func (t clusterTrial) compared(ctx context.Context, b *bench, place *clusterPlace) error {
	if err := t.sweep.run(ctx, b, place); err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	if err := t.born(ctx, b, place); err != nil {
		return fmt.Errorf("births: %w", err)
	}
	return nil
}

func (t clusterTrial) lived(ctx context.Context, b *bench, place *clusterPlace) error {
	record := newClusterRecord()
	if err := t.archived(ctx, b, place, record); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	if err := t.life.run(ctx, b, place, record); err != nil {
		return fmt.Errorf("end to end: %w", err)
	}
	return nil
}

// born measures births through the intake of a node that walks beside it.
func (t clusterTrial) born(ctx context.Context, b *bench, place *clusterPlace) (err error) {
	e, err := place.start(ctx, "a", nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close(ctx)) }()
	for _, kind := range []birthKind{{name: "births"}, {name: "births_keyed", keyed: true}} {
		latency, err := t.births.publish(ctx, b, e, kind)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
		b.report.add("cluster."+kind.name+"_per_s", float64(latency.TotalCount())/t.births.lasts.Seconds())
		b.report.add("cluster."+kind.name+"_p50_ms", float64(latency.ValueAtQuantile(50))/1e6)
		b.report.add("cluster."+kind.name+"_p99_ms", float64(latency.ValueAtQuantile(99))/1e6)
	}
	return nil
}
