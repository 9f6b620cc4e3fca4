// Package bench measures the engine on this machine: each trial drives the
// packages of the product, with its settings and its durable writes, on a fresh
// data folder that is removed afterwards, and reports figures beside their bars.
// Baselines run in turns with the product, because machines differ from hour to
// hour: a bar on speed is a ratio of the same run.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/progress"
	"github.com/mayflyhq/mayfly/app/server"
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
	servers bool // needs the servers of a cluster; not part of all
}

func benchTrials() []benchTrial {
	return []benchTrial{
		{name: "graph", short: "follows of one author, pages of the followers, bytes of an edge and of the largest partition; on a disk that is not synced", run: func(ctx context.Context, b *bench, folder string) error {
			return graphTrialOf(b.form).run(ctx, b, folder)
		}},
		{name: "gate", short: "time of the gate for an expired id, in turns with a Bloom filter, and for a live cached item", run: func(ctx context.Context, b *bench, folder string) error {
			return gateTrialOf(b.form).run(ctx, b, folder)
		}},
		{name: "births", short: "durable births without media (in turns with bare writes), with one medium, with an idempotency key", run: func(ctx context.Context, b *bench, folder string) error {
			return birthsTrialOf(b.form).run(ctx, b, folder)
		}},
		{name: "sweep", short: "expiry of due minutes at full speed, in turns with bare Pebble and, if redis-server is installed, Redis", run: func(ctx context.Context, b *bench, folder string) error {
			return sweepTrialOf(b.form).run(ctx, b, folder)
		}},
		{name: "archive", short: "hot to cold of due minutes at full speed, one medium of 8 KiB each, in turns with bare writes", run: func(ctx context.Context, b *bench, folder string) error {
			return archiveTrialOf(b.form).run(ctx, b, folder)
		}},
		{name: "reads", short: "gated reads at a fixed rate, at rest and while 20,000 stories a second are swept", run: func(ctx context.Context, b *bench, folder string) error {
			return readsTrialOf(b.form).run(ctx, b, folder)
		}},
		{name: "growth", short: "the sweep with few and with many live items; restart, disk and memory with many", run: func(ctx context.Context, b *bench, folder string) error {
			return growthTrialOf(b.form).run(ctx, b, folder)
		}},
		{name: "http", short: "a whole server over HTTP, clients on the same cores: publish and read, in turns with bare net/http and, after make peers, PocketBase", run: func(ctx context.Context, b *bench, folder string) error {
			return httpTrialOf(b.form).run(ctx, b, folder)
		}},
		{name: "paste", short: "pastes over HTTP: create, read, pages, through Varnish; in turns with bare net/http, bare syncs and, after make peers, rustypaste", run: func(ctx context.Context, b *bench, folder string) error {
			return pasteTrialOf(b.form).run(ctx, b, folder)
		}},
		{name: "tray", short: "trays of 1,000 authors over HTTP", run: func(ctx context.Context, b *bench, folder string) error {
			return trayTrialOf(b.form).run(ctx, b, folder)
		}},
		{name: "kv", short: "keys with a time to live over the Redis protocol: set and get, in turns with redis-server, if it is installed, and, after make peers, Badger; beyond memory; while space comes back", run: func(ctx context.Context, b *bench, folder string) error {
			return kvTrialOf(b.form).run(ctx, b, folder)
		}},
		{name: "home", short: "homes over HTTP, merged from 200 authors when they are read; in turns with PostgreSQL 15, where it is installed and after make peers; posts published, in turns with stories", run: func(ctx context.Context, b *bench, folder string) error {
			return homeTrialOf(b.form).run(ctx, b, folder)
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
	quiet    time.Duration  // time without writes after which earlier work counts as finished
	sources  config.Sources // of the cluster
	report   *benchReport
	progress *progress.Progress
	peers    string // folder of the programs that make peers built; "": beside this one
	plot     string // file for the plot of kv; "": none
}

// Options configures Run.
type Options struct {
	Name       string // of a trial, or "all"
	Quick      bool   // small sizes
	Long       bool   // growth up to 50 million items
	JSON       bool
	Dir        string // where the data folder is created; default: the folder for temporary files
	Seed       uint64 // of ids, owners and arrivals
	CPUProfile string // file; default: none
	Peers      string // folder of the programs of bench/peers; default: peers, beside this program
	Plot       string // kv: file for a plot of the disk over time, in SVG; default: none

	Config      config.Sources // servers of the cluster trial
	Out         io.Writer
	Diagnostics io.Writer // progress and notes
}

// Trials returns the names of all trials with a line about each.
func Trials() (names, help []string) {
	for _, t := range benchTrials() {
		names, help = append(names, t.name), append(help, t.short)
	}
	return names, help
}

// Run runs one trial or all of them, and reports their figures.
func Run(ctx context.Context, o Options) error {
	if o.Quick && o.Long {
		return mayfly.Errorf(mayfly.Invalid, "--quick and --long exclude each other").WithHint("choose one of them")
	}
	b := &bench{form: fullForm, seed: o.Seed, quiet: 300 * time.Millisecond, sources: o.Config, peers: o.Peers, plot: o.Plot}
	b.report, b.progress = newBenchReport(o.Out, o.JSON), progress.New(o.Diagnostics, o.JSON)
	switch {
	case o.Quick:
		b.form = quickForm
	case o.Long:
		b.form = longForm
	}
	return profiled(o.CPUProfile, func() error { return b.run(ctx, o.Name, o.Dir) })
}

// run runs the trial called name, or all of them, each in a folder of its own.
func (b *bench) run(ctx context.Context, name, dir string) error {
	defer server.Tune(config.Default())() // the trials run as a node does
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
		b.progress.Note("%s is in memory, where durable writes cost nothing: choose a disk with --dir", filepath.Dir(folder))
	}
	b.progress.Name(t.name)
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
