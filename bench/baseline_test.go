package bench

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/progress"
	"github.com/mayflyhq/mayfly/store/diskfs"
)

func TestABloomFilterHasItsIdsAndOneInAThousandOthers(t *testing.T) {
	const n = 100_000
	r := rand.New(rand.NewPCG(5, 5))
	id := func() mayfly.ID {
		id, err := mayfly.NewID(mayfly.Instant(r.Int64N(1<<40)), benchLifetime(24*60*60*1e9), 0, r.Uint64())
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	f := newBloomFilter(n, 0.001)
	ids := make([]mayfly.ID, n)
	for i := range ids {
		ids[i] = id()
		f.add(ids[i])
	}
	for _, id := range ids {
		if !f.has(id) {
			t.Fatalf("%s was added and is not found", id)
		}
	}
	wrong := 0
	for range n {
		if f.has(id()) {
			wrong++
		}
	}
	if wrong < n/3000 || wrong > n/500 {
		t.Errorf("%d of %d other ids are found; about %d should be", wrong, n, n/1000)
	}
	if f.probes != 10 || f.size < 14*n || f.size > 15*n {
		t.Errorf("%d probes, %d bits for %d ids", f.probes, f.size, n)
	}
}

func TestBareWritesSyncAsOftenAsTheyAreAskedTo(t *testing.T) {
	for _, c := range []struct{ syncs, least, most float64 }{ // of one write
		{syncs: 2.5, least: 2.45, most: 2.55},
		{syncs: 0.25, least: 0.24, most: 0.27},
		{syncs: 0.001, least: 0.12, most: 0.3}, // at least one for all eight writers
	} {
		w := bareWrites{writers: 8, bytes: 300, syncs: c.syncs}
		dir := t.TempDir()
		f, err := openSyncedFile(dir, w)
		if err != nil {
			t.Fatal(err)
		}
		meter := new(diskfs.Meter)
		if f.file, err = diskfs.Metered(f.root, meter).Create("metered", "mayfly-media"); err != nil {
			t.Fatal(err)
		}
		n, err := w.write(t.Context(), f, func(written int64) bool { return written < 1_000 })
		if err != nil {
			t.Fatal(err)
		}
		got := meter.Read().Media
		if each := float64(got.Syncs) / float64(n); each < c.least || each > c.most || got.Bytes != 300*n {
			t.Errorf("%v syncs were asked for each of %d writes: %d syncs and %d bytes", c.syncs, n, got.Syncs, got.Bytes)
		}
	}
}

func TestARedisThatDoesNotStartIsAMissingRow(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var out, diagnostics bytes.Buffer
	b := &bench{seed: 7, quiet: 1e6, report: newBenchReport(&out, true), progress: progress.New(&diagnostics, true)}
	if err := (sweepTrial{stories: 3_000}).run(t.Context(), b, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if found := readFigures(t, out.String()); found["sweep.ratio_bare"] != "1" || found["sweep.ratio_redis"] != "" || found["sweep.redis_per_s"] != "" {
		t.Errorf("figures without Redis: %v", found)
	}
	if !strings.Contains(diagnostics.String(), "sweep.ratio_redis is left out") {
		t.Errorf("the reason is not reported: %q", diagnostics.String())
	}
}
