package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/app/progress"
	"github.com/mayflyhq/mayfly/test/pace"
)

// promised returns the names and units that scripts rely on.
func promised() map[string]string {
	return map[string]string{
		"gate.expired_ns":         "ns",
		"gate.expired_allocs":     "1",
		"gate.live_ns":            "ns",
		"gate.ratio_bloom":        "1",
		"births.ratio_bare":       "1",
		"sweep.ratio_bare":        "1",
		"sweep.ratio_redis":       "1",
		"archive.ratio_bare":      "1",
		"http.creates_ratio_bare": "1",
		"http.reads_ratio_bare":   "1",

		"http.creates_ratio_pocketbase": "1",
		"http.reads_ratio_pocketbase":   "1",
		"http.bytes_ratio_pocketbase":   "1",

		"paste.create_ratio":               "1",
		"paste.raw_ratio":                  "1",
		"paste.raw_bare_ratio":             "1",
		"paste.create_bare_ratio":          "1",
		"paste.create_bare_parallel_ratio": "1",
		"paste.create_growth_ratio":        "1",
		"paste.edge_hit_p99_ms":            "ms",
		"paste.edge_hit_share":             "1",
		"paste.raw_per_s":                  "1/s",
		"paste.raw_p99_ms":                 "ms",
		"paste.page_warm_per_s":            "1/s",
		"paste.page_cold_per_s":            "1/s",
		"paste.create_10m_mib_s":           "MiB/s",
		"paste.record_bytes":               "B",

		"kv.set_ratio_redis":          "1",
		"kv.set_ratio_redis_p16":      "1",
		"kv.get_ratio_redis":          "1",
		"kv.get_ratio_redis_p16":      "1",
		"kv.set_everysec_ratio_redis": "1",
		"kv.set_ratio_badger":         "1",
		"kv.get_ratio_badger":         "1",
		"kv.disk_over_live":           "1",
		"kv.disk_over_live_badger":    "1",
		"kv.beyond_memory_ratio":      "1",
		"kv.reclaim_p99_ratio":        "1",

		"home.pull_per_s":          "1/s",
		"home.pull_p99_ms":         "ms",
		"home.pull_ratio_postgres": "1",
		"posts.creates_per_s":      "1/s",

		"births.metadata_per_s":   "1/s",
		"births.media_per_s":      "1/s",
		"sweep.stories_per_s":     "1/s",
		"archive.stories_per_s":   "1/s",
		"reads.p99_ratio":         "1",
		"reads.archive_p99_ratio": "1",
		"growth.sweep_ratio":      "1",
		"growth.restart_s":        "s",
		"growth.bytes_per_item":   "B",
		"http.creates_per_s":      "1/s",
		"http.reads_per_s":        "1/s",

		"cluster.sweep_batch_per_s":  "1/s",
		"cluster.sweep_single_per_s": "1/s",
		"cluster.sweep_ratio":        "1",
		"cluster.births_per_s":       "1/s",
		"cluster.births_keyed_per_s": "1/s",
		"cluster.archive_per_s":      "1/s",
		"cluster.end_to_end_per_s":   "1/s",
		"cluster.sweep_lag_p99_ms":   "ms",
		"cluster.rss_mib":            "MiB",
	}
}

func TestBenchFiguresKeepTheirNamesAndUnits(t *testing.T) {
	units := make(map[string]string)
	for _, f := range benchFigures() {
		if units[f.name] != "" {
			t.Errorf("%s is in the table twice", f.name)
		}
		if units[f.name] = f.unit; f.unit == "" || f.what == "" {
			t.Errorf("%s has no unit or no description", f.name)
		}
	}
	for name, unit := range promised() {
		if units[name] != unit {
			t.Errorf("%s is in %q, promised in %q", name, units[name], unit)
		}
	}
	for _, trial := range benchTrials() {
		if trial.servers { // what they write is theirs
			continue
		}
		if units[trial.name+".fsyncs"] == "" || units[trial.name+".bytes_written"] == "" {
			t.Errorf("%s does not report how much it wrote", trial.name)
		}
	}
}

// Every trial runs here at a small size on a real folder. The values mean nothing;
// the test shows that each figure is reported and is not zero.
func TestEveryBenchReportsItsFigures(t *testing.T) {
	pace.Slow(t, "runs every trial")
	const ms = time.Millisecond
	for name, run := range map[string]func(context.Context, *bench, string) error{
		"gate":    gateTrial{live: 3_000, cached: 100, ended: 100, lasts: 20 * ms, bloom: 20_000}.run,
		"births":  birthsTrial{writers: 8, warm: 20 * ms, lasts: 900 * ms}.run,
		"sweep":   sweepTrial{stories: 12_000}.run,
		"archive": archiveTrial{stories: 2_000}.run,
		"reads":   readsTrial{pairs: 2, archived: 1, moveEach: 500, round: 300 * ms, warm: 100 * ms, dueEach: 2_000, live: 2_000, ended: 200, perSecond: 500, settle: 200 * ms, cadence: 10 * ms}.run,
		"growth":  growthTrial{few: 500, many: 3_000, minutes: 2, due: 1_000, restarts: 1, load: 300 * ms}.run,
		"http":    httpTrial{writers: 4, readers: 4, warm: 50 * ms, lasts: 900 * ms, authors: 20, viewers: 40, stories: 200, peerLive: 2}.run,
		"graph":   graphTrial{followers: 2_000, recount: 1_000}.run,
		"tray":    trayTrial{authors: 40, stories: 2, readers: 2, rounds: 2}.run,
		"paste":   smallPasteTrial().run,
		"kv":      smallKVTrial().run,
		"home":    smallHomeTrial().run,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, diagnostics bytes.Buffer
			b := &bench{seed: 7, quiet: 10 * ms, report: newBenchReport(&out, true), progress: progress.New(&diagnostics, true), peers: standInPeers(t)}
			if err := run(t.Context(), b, t.TempDir()); err != nil {
				t.Fatal(err)
			}
			if err := b.report.end(); err != nil {
				t.Fatal(err)
			}
			var missing []string
			for program, word := range map[string]string{"redis-server": "redis", "varnishd": "edge"} {
				if _, err := exec.LookPath(program); err != nil {
					missing = append(missing, word)
				}
			}
			if missing == nil && diagnostics.Len() > 0 {
				t.Errorf("beside JSON there is %q", diagnostics.String())
			}
			found := readFigures(t, out.String())
			for _, f := range benchFigures() {
				if slices.ContainsFunc(missing, func(word string) bool { return strings.Contains(f.name, word) }) {
					continue
				}
				if (strings.HasPrefix(f.name, name+".") || name == "home" && strings.HasPrefix(f.name, "posts.")) && found[f.name] != f.unit {
					t.Errorf("%s is in %q, not in %q", f.name, found[f.name], f.unit)
				}
			}
		})
	}
}

// readFigures reads lines of JSON: three fields each and nothing else.
func readFigures(t *testing.T, text string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	for line := range strings.Lines(text) {
		var f struct {
			Name  *string  `json:"name"`
			Value *float64 `json:"value"`
			Unit  *string  `json:"unit"`
		}
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&f); err != nil || f.Name == nil || f.Value == nil || f.Unit == nil {
			t.Fatalf("%s: %v", line, err)
		}
		if math.IsNaN(*f.Value) || math.IsInf(*f.Value, 0) || *f.Value < 0 {
			t.Errorf("%s is %v", *f.Name, *f.Value)
		}
		if *f.Value == 0 && !slices.Contains([]string{"gate.expired_allocs", "gate.live_allocs", "reads.lag_s", "kv.disk_over_live", "kv.disk_over_live_badger", "kv.reclaim_flushes"}, *f.Name) {
			t.Errorf("%s is 0", *f.Name)
		}
		found[*f.Name] = *f.Unit
	}
	return found
}

func TestBenchLeavesNoFolderBehind(t *testing.T) {
	dir := t.TempDir()
	b := &bench{report: newBenchReport(&bytes.Buffer{}, false), progress: progress.New(&bytes.Buffer{}, true)}
	failing := benchTrial{name: "failing", run: func(_ context.Context, _ *bench, folder string) error {
		return os.WriteFile(folder+"/x", nil, 0o600)
	}}
	if err := b.runIn(t.Context(), failing, dir); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Fatal(left, err)
	}
}

func TestBenchTableMarksWhatIsMissed(t *testing.T) {
	var out bytes.Buffer
	r := newBenchReport(&out, false)
	r.add("sweep.stories_per_s", 1234567.8)
	r.add("sweep.ratio_redis", 3.456)
	r.add("paste.create_growth_ratio", 1.31)
	r.add("gate.expired_allocs", 0)
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1,234,568", "3.46", "✓ ≥ 2", "1.31", "✗ ≤ 1.25", "✓ ≤ 0"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestBenchPrintsItsStagesAsLinesWithoutATerminal(t *testing.T) {
	var out bytes.Buffer
	s := progress.New(&out, false)
	s.Name("sweep")
	stage := s.Begin("load stories", 1_200_000)
	stage.Add(1_200_000)
	stage.End()
	if got := out.String(); !strings.HasPrefix(got, "sweep: load stories: 1,200,000 in ") || strings.Count(got, "\n") != 1 {
		t.Fatalf("%q", got)
	}
}
