package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// clusterRecord holds the stories that were acknowledged, and when their ends were
// read from the log.
type clusterRecord struct {
	retries atomic.Int64
	again   problems // why stories were sent again

	mu      sync.Mutex
	stories map[mayfly.ID]*clusterStory
	from    mayfly.Instant          // lag counts for deadlines from here on
	lag     *hdrhistogram.Histogram // from a deadline until a reader of the log has the event, in nanoseconds
	ended   int                     // stories whose archive event was read
	last    time.Time               // when the last of these was read
}

type clusterStory struct {
	hash [32]byte                 // of its medium
	seen [mayfly.WasHeld + 1]bool // verbs of the events that were read
}

func newClusterRecord() *clusterRecord {
	return &clusterRecord{stories: make(map[mayfly.ID]*clusterStory), lag: newLatencies()}
}

func (b *clusterRecord) acknowledge(item mayfly.Item, hash [32]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stories[item.ID] = &clusterStory{hash: hash}
}

// observe measures by an event that was read at now. An event that comes again counts
// once (I13).
func (b *clusterRecord) observe(e mayfly.Event, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stories[e.ID]
	if s == nil || s.seen[e.Verb] {
		return
	}
	s.seen[e.Verb] = true
	if e.Verb == mayfly.WasArchived {
		b.ended, b.last = b.ended+1, now
	}
	if deadline := e.ID.Deadline(); e.Verb == mayfly.WasExpired && deadline >= b.from {
		_ = b.lag.RecordValue(min(max(0, now.Sub(deadline.Time()).Nanoseconds()), b.lag.HighestTrackableValue()))
	}
}

// archived waits until the archive event of every story was read, and returns when
// the last was. After a limited time it leaves the missing ones to the audit.
func (b *clusterRecord) archived(ctx context.Context) (time.Time, error) {
	for start := time.Now(); time.Since(start) < patience; {
		b.mu.Lock()
		left, last := len(b.stories)-b.ended, b.last
		b.mu.Unlock()
		if left == 0 {
			return last, nil
		}
		if err := loop.Rest(ctx, 50*time.Millisecond); err != nil {
			return time.Time{}, err
		}
	}
	return time.Now(), nil
}

// clusterListener reads the ends of stories into the record while they happen.
type clusterListener struct {
	record  *clusterRecord
	reader  store.Reader
	leaving atomic.Bool // set when it shall stop at the end of the stream
	done    chan error
	stop    context.CancelFunc
}

func (b *clusterRecord) listen(ctx context.Context, log store.Log) (*clusterListener, error) {
	reader, err := log.Reader(ctx, mayfly.Ends, "bench")
	if err != nil {
		return nil, err
	}
	l := &clusterListener{record: b, reader: reader, done: make(chan error, 1)}
	ctx, l.stop = context.WithCancel(ctx)
	go func() { l.done <- l.listen(ctx) }()
	return l, nil
}

func (l *clusterListener) listen(ctx context.Context) error {
	for {
		wait, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		records, err := l.reader.Next(wait, 1_000)
		quiet := wait.Err() != nil
		cancel()
		now := time.Now()
		for _, r := range records {
			l.record.observe(r.Event, now)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !quiet:
			return err
		case err != nil && l.leaving.Load():
			if lag, err := l.reader.Lag(ctx); err != nil || lag == 0 {
				return err
			}
		}
	}
}

// end reads what is left, and closes the reader.
func (l *clusterListener) end() error {
	l.leaving.Store(true)
	return errors.Join(<-l.done, l.reader.Close())
}

// abandon closes the reader at once.
func (l *clusterListener) abandon() error {
	l.stop()
	<-l.done
	return l.reader.Close()
}
