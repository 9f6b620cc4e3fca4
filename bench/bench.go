package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly/app/config"
)

// benchForm is how large the trials are.
type benchForm uint8

const (
	quickForm benchForm = iota + 1 // within 40 seconds each
	fullForm
	longForm // full, and growth up to 50 million items
)

// benchTrial is one benchmark.
type benchTrial struct {
	name    string
	short   string
	run     func(ctx context.Context, b *bench, folder string) error
	servers bool // it needs those of a cluster: not among all
}

func benchTrials() []benchTrial {
	return []benchTrial{
		{name: "gate", short: "what a verdict costs: an expired id, a live cached item", run: func(ctx context.Context, b *bench, folder string) error {
			return gateTrialOf(b.form).run(ctx, b, folder)
		}},
		{name: "births", short: "durable births through intake: without media, with one, with an idempotency key", run: func(ctx context.Context, b *bench, folder string) error {
			return birthsTrialOf(b.form).run(ctx, b, folder)
		}},
		{name: "sweep", short: "hard expiry of one minute as fast as it goes: walk, transition, event, watermark", run: func(ctx context.Context, b *bench, folder string) error {
			return sweepTrialOf(b.form).run(ctx, b, folder)
		}},
		{name: "archive", short: "hot to cold of one minute as fast as it goes: copy, verify, erase hot; stories with one medium of 8 KiB", run: func(ctx context.Context, b *bench, folder string) error {
			return archiveTrialOf(b.form).run(ctx, b, folder)
		}},
		{name: "reads", short: "gated reads at a fixed rate, at rest and while 20,000 stories a second are swept", run: func(ctx context.Context, b *bench, folder string) error {
			return readsTrialOf(b.form).run(ctx, b, folder)
		}},
		{name: "growth", short: "the sweep with few and with many live items; restart, disk and memory with many", run: func(ctx context.Context, b *bench, folder string) error {
			return growthTrialOf(b.form).run(ctx, b, folder)
		}},
		{name: "http", short: "a whole server over HTTP, the load on the same cores: stories published, live stories read", run: func(ctx context.Context, b *bench, folder string) error {
			return httpTrialOf(b.form).run(ctx, b, folder)
		}},
		{name: "cluster", short: "two nodes on Cassandra, Redis, Kafka and S3: batches against single rows, births, archive, whole lives and an audit of them", run: func(ctx context.Context, b *bench, folder string) error {
			return clusterTrialOf(b.form).run(ctx, b, folder)
		}, servers: true},
	}
}

// bench is one run of the verb.
type bench struct {
	form     benchForm
	seed     uint64
	quiet    time.Duration // without writes, and what came before is over
	settings settings      // of the cluster
	report   *benchReport
	stages   *stages
}

func newBench() *cobra.Command {
	var names []string
	var list strings.Builder
	for _, t := range benchTrials() {
		names = append(names, t.name)
		fmt.Fprintf(&list, "  %-8s %s\n", t.name, t.short)
	}
	names = append(names, "all")
	var o struct {
		json, quick, long bool
		dir, cpu          string
		seed              uint64
		settings          settings
	}
	c := &cobra.Command{
		Use:   "bench NAME",
		Short: "Measure the engine on this machine's disk",
		Long: "Drives the engine in process, on a fresh data folder that is removed afterwards: the packages, the settings and\n" +
			"the durable writes of the product. NAME is one of:\n\n" + list.String() + "  all      one after the other, but for cluster\n\n" +
			"cluster needs servers: those of --config, else those that the environment of deploy/servers names\n" +
			"(eval \"$(go run ./deploy/servers up)\"). It has a keyspace, topics and prefixes of its own.\n\n" +
			"Figures stand beside what they are held to; a missed one is marked and is no failure.",
		Example:   "  mayfly bench sweep\n  mayfly bench all --quick --json\n  mayfly bench cluster --config /etc/mayfly.yaml",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: names,
		RunE: func(c *cobra.Command, args []string) error {
			if o.quick && o.long {
				return usage(errors.New("--quick and --long exclude each other"))
			}
			b := &bench{form: fullForm, seed: o.seed, quiet: 300 * time.Millisecond, settings: o.settings}
			b.report, b.stages = newBenchReport(c.OutOrStdout(), o.json), newStages(c.ErrOrStderr(), o.json)
			switch {
			case o.quick:
				b.form = quickForm
			case o.long:
				b.form = longForm
			}
			return profiled(o.cpu, func() error { return b.run(c.Context(), args[0], o.dir) })
		},
	}
	wrongArgs := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		if err := wrongArgs(c, args); err != nil {
			return usage(fmt.Errorf("%w\nNAME is one of %s", err, strings.Join(names, ", ")))
		}
		return nil
	}
	c.Flags().BoolVar(&o.json, "json", false, "one JSON object a line, and nothing else")
	c.Flags().BoolVar(&o.quick, "quick", false, "smaller sizes: each within 40 seconds")
	c.Flags().BoolVar(&o.long, "long", false, "growth up to 50 million live items: about an hour, 20 GiB of disk")
	c.Flags().StringVar(&o.dir, "dir", "", "where the data folder is made: choose the disk to measure (default the system's folder for temporary files)")
	c.Flags().Uint64Var(&o.seed, "seed", 1, "of ids, owners and arrivals")
	c.Flags().StringVar(&o.settings.file, "config", "", "cluster: configuration file (default ./"+config.DefaultFile+", if it is there)")
	c.Flags().StringVar(&o.settings.profile, "profile", "", "cluster: nothing else is possible")
	c.Flags().StringArrayVar(&o.settings.set, "set", nil, "cluster: set one key, such as --set cassandra.copies=1")
	c.Flags().StringVar(&o.cpu, "cpuprofile", "", "write a CPU profile to this file")
	if err := c.Flags().MarkHidden("cpuprofile"); err != nil {
		panic(err) // the flag stands one line above
	}
	return c
}

// run runs the trial called name, or all of them, each in a folder of its own.
func (b *bench) run(ctx context.Context, name, dir string) error {
	defer tune(config.Default())() // the trials run as a node does
	for _, t := range benchTrials() {
		if name != t.name && (name != "all" || t.servers) {
			continue
		}
		if err := b.runIn(ctx, t, dir); err != nil {
			return fmt.Errorf("bench %s: %w", t.name, err)
		}
		runtime.GC()
	}
	return b.report.end()
}

func (b *bench) runIn(ctx context.Context, t benchTrial, dir string) (err error) {
	folder, err := os.MkdirTemp(dir, "mayfly-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if inMemory(folder) {
		b.stages.note("%s is in memory, where durable writes cost nothing: choose a disk with --dir", filepath.Dir(folder))
	}
	b.stages.trial(t.name)
	return t.run(ctx, b, folder)
}

// profiled runs do under a CPU profile if a file is named for it.
func profiled(file string, do func() error) (err error) {
	if file == "" {
		return do()
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return do()
}
