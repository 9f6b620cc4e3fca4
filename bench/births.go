package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/dustin/go-humanize"
	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/intake"
)

// birthsTrial lets writers publish as fast as they are answered, each kind of
// birth in a data folder of its own.
type birthsTrial struct {
	writers int
	warm    time.Duration
	lasts   time.Duration
}

func birthsTrialOf(f benchForm) birthsTrial {
	if f == quickForm {
		return birthsTrial{writers: 64, warm: time.Second, lasts: 7 * time.Second}
	}
	return birthsTrial{writers: 64, warm: 3 * time.Second, lasts: 30 * time.Second}
}

// birthKind is one kind of birth.
type birthKind struct {
	name         string
	media, keyed bool
	bare         bool // compared with bare writes
}

func (t birthsTrial) run(ctx context.Context, b *bench, folder string) error {
	var io benchIO
	for _, kind := range []birthKind{{name: "metadata", bare: true}, {name: "media", media: true}, {name: "keyed", keyed: true}} {
		result, err := t.measure(ctx, b, filepath.Join(folder, kind.name), kind)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
		b.report.add("births."+kind.name+"_per_s", float64(result.latency.TotalCount())/t.lasts.Seconds())
		b.report.add("births."+kind.name+"_p50_ms", float64(result.latency.ValueAtQuantile(50))/1e6)
		b.report.add("births."+kind.name+"_p99_ms", float64(result.latency.ValueAtQuantile(99))/1e6)
		if kind.bare {
			b.report.add("births.ratio_bare", result.ratio)
		}
		io = io.plus(result.io)
	}
	b.addIO("births", io)
	return nil
}

type birthResult struct {
	latency *hdrhistogram.Histogram // of births acknowledged in the measured time
	io      benchIO
	ratio   float64 // of the rate to that of bare writes, if they are compared
}

func (t birthsTrial) measure(ctx context.Context, b *bench, folder string, kind birthKind) (result birthResult, err error) {
	e, err := openBenchEngine(folder)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, e.close(ctx)) }()
	if err := e.start(ctx, mayfly.InstantOf(time.Now()), nil); err != nil {
		return result, err
	}
	if kind.bare {
		result.latency, result.ratio, err = t.compare(ctx, b, e, kind, folder+"-bare")
	} else {
		result.latency, err = t.publish(ctx, b, e, kind)
	}
	result.io = e.io()
	return result, err
}

// compare publishes in turns with a bare loop that writes as many bytes for each
// birth, synced as often, with as many writers.
func (t birthsTrial) compare(ctx context.Context, b *bench, e *benchEngine, kind birthKind, folder string) (*hdrhistogram.Histogram, float64, error) {
	turn := birthsTrial{writers: t.writers, warm: t.warm / baselineTurns, lasts: t.lasts / baselineTurns}
	all := newLatencies()
	var ours, bare []float64
	for range baselineTurns {
		before, start := syncedIO(e.store.Meter), time.Now()
		latency, err := turn.publish(ctx, b, e, kind)
		if err != nil {
			return nil, 0, err
		}
		all.Merge(latency)
		perSecond := float64(latency.TotalCount()) / turn.lasts.Seconds()
		births := int64(perSecond * time.Since(start).Seconds()) // those of the warm-up too
		writes := newBareWrites(t.writers, syncedIO(e.store.Meter).since(before), births)
		until := time.Now().Add(turn.lasts / 2)
		rate, err := writes.run(ctx, folder, func(int64) bool { return time.Now().Before(until) })
		if err != nil {
			return nil, 0, fmt.Errorf("bare writes: %w", err)
		}
		ours, bare = append(ours, perSecond), append(bare, rate)
	}
	return all, medianRatio(ours, bare), nil
}

// publish lets writers publish through a node that runs, and answers with the
// latencies of what was acknowledged in the measured time.
func (t birthsTrial) publish(ctx context.Context, b *bench, e *benchEngine, kind birthKind) (*hdrhistogram.Histogram, error) {
	latencies := make([]*hdrhistogram.Histogram, t.writers)
	err := b.progress.Timed(ctx, kind.name+", "+humanize.Comma(int64(t.writers))+" writers", t.warm+t.lasts, func(ctx context.Context) error {
		start := time.Now().Add(t.warm)
		g, ctx := errgroup.WithContext(ctx)
		for n := range t.writers {
			latencies[n] = newLatencies()
			w := newBirthWriter(e, kind, b.seed, n)
			g.Go(func() error { return w.run(ctx, latencies[n], start, start.Add(t.lasts)) })
		}
		return g.Wait()
	})
	all := newLatencies()
	for _, l := range latencies {
		if l != nil {
			all.Merge(l)
		}
	}
	return all, err
}

func newLatencies() *hdrhistogram.Histogram {
	return hdrhistogram.New(100, int64(time.Minute), 3)
}

// birthWriter publishes one story after the other.
type birthWriter struct {
	e      *benchEngine
	kind   birthKind
	random *rand.Rand
	owners []benchOwner
	medium []byte
	number int
	count  int
}

func newBirthWriter(e *benchEngine, kind birthKind, seed uint64, number int) *birthWriter {
	w := &birthWriter{e: e, kind: kind, random: rand.New(rand.NewPCG(seed, uint64(number))), number: number, medium: make([]byte, benchMedium)}
	for range 100 {
		w.owners = append(w.owners, newBenchOwner(w.random))
	}
	for i := 0; i < len(w.medium); i += 8 { // opaque: nothing in it compresses
		binary.BigEndian.PutUint64(w.medium[i:], w.random.Uint64())
	}
	return w
}

// run publishes until until, and notes the births that were both asked for and
// acknowledged since from.
func (w *birthWriter) run(ctx context.Context, latency *hdrhistogram.Histogram, from, until time.Time) error {
	for {
		begun := time.Now()
		if !begun.Before(until) {
			return nil
		}
		if err := w.publish(ctx); err != nil {
			return err
		}
		if ended := time.Now(); !begun.Before(from) && ended.Before(until) {
			if err := latency.RecordValue(ended.Sub(begun).Nanoseconds()); err != nil {
				return err
			}
		}
	}
}

func (w *birthWriter) publish(ctx context.Context) error {
	w.count++
	in, owner := w.e.node.Intake(), w.owners[w.random.IntN(len(w.owners))].user
	d := intake.Draft{
		Owner: owner, Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone,
		Lifetime: w.e.config.Stories.Lifetimes[0], Text: loadCaption,
	}
	if w.kind.keyed {
		d.Key = fmt.Sprintf("%d-%d", w.number, w.count)
	}
	if w.kind.media {
		upload, err := w.e.node.Uploads().Begin(owner, w.e.now())
		if err != nil {
			return err
		}
		binary.BigEndian.PutUint64(w.medium, w.random.Uint64()) // no two are the same
		if _, err := upload.Add(ctx, bytes.NewReader(w.medium)); err != nil {
			return err
		}
		d.Upload = upload
	}
	_, err := in.Publish(ctx, d, w.e.now())
	return err
}
