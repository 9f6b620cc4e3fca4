package bench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/store/loop"
)

// clusterLife takes stories through their whole life on two nodes: published with
// a medium and an idempotency key, expired, archived. Windows are short; pace and
// everything else is the product's.
type clusterLife struct {
	stories  int
	lifetime time.Duration
	settle   time.Duration // of the walks
	window   time.Duration // of the archive
}

func (t clusterLife) options(o *node.Options) {
	o.Intake.Timeout = t.settle * 2 / 3
	o.Walk.Settle, o.Remind.Settle, o.Settle = t.settle, t.settle, t.settle+o.Intake.Timeout
	o.Archive.Window, o.Sweep.Window, o.Reconcile.Window, o.Retire.Window, o.Restore.Window = t.window, t.window, t.window, t.window, t.window
	o.ArchiveLateness = t.window
	o.Intake.RemindAfter, o.Walk.RemindAfter, o.Remind.After = t.settle, t.settle, t.settle
}

func (t clusterLife) run(ctx context.Context, b *bench, place *clusterPlace, record *clusterRecord) (err error) {
	pair, err := place.pair(ctx, t.options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pair.close(ctx)) }()
	most, took, err := t.observed(ctx, b, pair, record)
	if err != nil {
		return err
	}
	// No story can be cold before its lifetime and the window are over: that wait is
	// the same for all of them, and no work.
	b.report.add("cluster.end_to_end_per_s", float64(t.stories)/(took-t.lifetime-t.window).Seconds())
	b.report.add("cluster.end_to_end_s", took.Seconds())
	b.report.add("cluster.stories", float64(t.stories))
	b.report.add("cluster.sweep_lag_p50_ms", float64(record.lag.ValueAtQuantile(50))/1e6)
	b.report.add("cluster.sweep_lag_p99_ms", float64(record.lag.ValueAtQuantile(99))/1e6)
	b.report.add("cluster.retries", float64(record.retries.Load()))
	if why := record.again.err(); why != nil {
		b.progress.Note("%d stories were sent again, the first because: %v", record.retries.Load(), why)
	}
	b.report.add("cluster.rss_mib", float64(most)/(1<<20))
	return record.audit(ctx, b, pair[0])
}

// observed runs the lives of the stories while a reader of the log records them.
func (t clusterLife) observed(ctx context.Context, b *bench, pair clusterPair, record *clusterRecord) (most int64, took time.Duration, err error) {
	record.from = pair[0].now() // before the reader starts
	ends, err := record.listen(ctx, pair[0].store.Set.Log)
	if err != nil {
		return 0, 0, err
	}
	most, err = mostMemory(ctx, func(ctx context.Context) (err error) {
		took, err = t.lives(ctx, b, pair, record)
		return err
	})
	if err != nil {
		return 0, 0, errors.Join(err, ends.abandon())
	}
	if err := ends.end(); err != nil {
		return 0, 0, fmt.Errorf("read the log: %w", err)
	}
	return most, took, nil
}

// lives publishes all stories, waits until the last of them is archived, and says
// how long that took.
func (t clusterLife) lives(ctx context.Context, b *bench, pair clusterPair, record *clusterRecord) (time.Duration, error) {
	start := time.Now()
	stage := b.progress.Begin("publish stories, two nodes", t.stories)
	var next atomic.Int64
	err := inParallel(ctx, clusterWriters, func(ctx context.Context, n int) error {
		p := &clusterPublisher{pair: pair, record: record, number: n, lifetime: benchLifetime(t.lifetime), random: rand.New(rand.NewPCG(b.seed, uint64(n)))}
		for next.Add(1) <= int64(t.stories) {
			if err := p.publish(ctx); err != nil {
				return err
			}
			stage.Add(1)
		}
		return nil
	})
	stage.End()
	if err != nil {
		return 0, err
	}
	stage = b.progress.Begin("expire and archive the last of stories", t.stories)
	defer stage.End()
	last, err := record.archived(ctx)
	stage.Add(t.stories)
	return last.Sub(start), err
}

// clusterPublisher is a client that publishes, and repeats what is not answered.
type clusterPublisher struct {
	pair     clusterPair
	record   *clusterRecord
	number   int
	count    int
	lifetime mayfly.Lifetime
	random   *rand.Rand
}

// publishTries bounds how often one story is sent.
const publishTries = 10

func (p *clusterPublisher) publish(ctx context.Context) (err error) {
	p.count++
	owner, content := newBenchOwner(p.random).user, make([]byte, benchMedium)
	for i := 0; i < len(content); i += 8 {
		binary.BigEndian.PutUint64(content[i:], p.random.Uint64())
	}
	for try := range publishTries { // the next try goes to the other node
		var item mayfly.Item
		if item, err = p.once(ctx, p.pair[(p.number+try)%len(p.pair)], owner, content); err == nil {
			p.record.acknowledge(item, sha256.Sum256(content))
			return nil
		}
		if !errors.Is(err, mayfly.Unavailable) || ctx.Err() != nil {
			break
		}
		p.record.retries.Add(1)
		p.record.again.report("publish", err)
		if err := loop.Rest(ctx, 100*time.Millisecond<<min(try, 4)); err != nil {
			return err
		}
	}
	return err
}

func (p *clusterPublisher) once(ctx context.Context, e *benchEngine, owner mayfly.UserID, content []byte) (mayfly.Item, error) {
	in := e.node.Intake()
	upload, err := e.node.Uploads().Begin(owner, e.now())
	if err != nil {
		return mayfly.Item{}, err
	}
	if _, err := upload.Add(ctx, bytes.NewReader(content)); err != nil {
		return mayfly.Item{}, err
	}
	published, err := in.Publish(ctx, intake.Draft{
		Owner: owner, Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone, Lifetime: p.lifetime,
		Text: loadCaption, Upload: upload, Key: fmt.Sprintf("%d-%d", p.number, p.count),
	}, e.now())
	return published.Item, err
}

// mostMemory returns the largest resident set while do runs.
func mostMemory(ctx context.Context, do func(ctx context.Context) error) (most int64, err error) {
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	for {
		now, failed := residentBytes()
		most = max(most, now)
		select {
		case err := <-done:
			return most, errors.Join(err, failed)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
