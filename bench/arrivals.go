package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"
)

// arrivals is an open loop: requests come at random instants of a schedule that is
// fixed in advance, even if earlier ones are not answered yet. Latency counts from
// the scheduled instant, so that the wait behind a slow request is included (no
// coordinated omission).
type arrivals struct {
	perSecond float64
	askers    int    // each with its own share of the schedule, as connections have
	seed      uint64 // of the schedule
}

// arrivalsAsk sends the n-th request of a client.
type arrivalsAsk func(asker, n int) error

// run sends requests for warm and then lasts, and returns the latencies of those
// that were due after warm, in nanoseconds.
func (a arrivals) run(ctx context.Context, warm, lasts time.Duration, ask arrivalsAsk) (*hdrhistogram.Histogram, error) {
	all := make([]*hdrhistogram.Histogram, a.askers)
	start := time.Now().Add(10 * time.Millisecond) // for all of them to be there
	g, ctx := errgroup.WithContext(ctx)
	for n := range all {
		all[n] = newLatencies()
		g.Go(func() error { return a.asker(ctx, n, start, warm, lasts, ask, all[n]) })
	}
	err := g.Wait()
	sum := newLatencies()
	for _, h := range all {
		sum.Merge(h)
	}
	return sum, err
}

func (a arrivals) asker(ctx context.Context, number int, start time.Time, warm, lasts time.Duration, ask arrivalsAsk, h *hdrhistogram.Histogram) (err error) {
	alarm, err := newAlarm()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, alarm.close()) }()
	r := rand.New(rand.NewPCG(a.seed, uint64(number)))
	gap := float64(a.askers) / a.perSecond * float64(time.Second)
	due := time.Duration(0)
	for n := 0; ; n++ {
		if due += time.Duration(r.ExpFloat64() * gap); due >= warm+lasts {
			return nil
		}
		if err := alarm.until(start.Add(due)); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := ask(number, n); err != nil {
			return err
		}
		if due < warm {
			continue
		}
		if err := h.RecordValue(max(0, (time.Since(start) - due).Nanoseconds())); err != nil {
			return err
		}
	}
}
