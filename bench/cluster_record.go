package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// clusterBook holds what was acknowledged, and what the log tells of it.
type clusterBook struct {
	count   verify.Tally
	retries atomic.Int64
	again   problems // why stories were sent again

	mu      sync.Mutex
	stories map[mayfly.ID]*clusterStory
	strange []mayfly.Event          // ends of stories that nobody was told of yet
	from    mayfly.Instant          // lag counts for deadlines from here on
	lag     *hdrhistogram.Histogram // from a deadline until a reader of the log knew, in nanoseconds
	ended   int                     // stories that the log tells to be archived
	last    time.Time               // when it told so of the last of them
}

type clusterStory struct {
	owner mayfly.UserID
	hash  [32]byte                              // of its medium
	told  [mayfly.WasHeld + 1]mayfly.Generation // by verb; 0 is not at all
}

func newClusterBook() *clusterBook {
	return &clusterBook{stories: make(map[mayfly.ID]*clusterStory), lag: newLatencies()}
}

func (b *clusterBook) acknowledge(item mayfly.Item, hash [32]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stories[item.ID] = &clusterStory{owner: item.Owner, hash: hash}
}

// tell writes down an event that a reader has at now. However often it comes, by
// its key it is one (I13).
func (b *clusterBook) tell(e mayfly.Event, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stories[e.ID]
	switch {
	case s == nil && e.Verb == mayfly.WasCreated: // of the trial of births
		return
	case s == nil:
		b.strange = append(b.strange, e)
		return
	case s.told[e.Verb] == e.Generation:
		return
	case s.told[e.Verb] != 0:
		b.count.Add(verify.Double, "%s was %s as generation %d and as %d", e.ID, e.Verb, s.told[e.Verb], e.Generation)
		return
	}
	s.told[e.Verb] = e.Generation
	deadline := e.ID.Deadline()
	if e.Verb != mayfly.WasCreated && e.At < deadline {
		b.count.Add(verify.Early, "%s was %s at %s, before its deadline", e.ID, e.Verb, e.At)
	}
	if e.Verb == mayfly.WasArchived {
		b.ended, b.last = b.ended+1, now
	}
	if e.Verb == mayfly.WasExpired && deadline >= b.from {
		_ = b.lag.RecordValue(min(max(0, now.Sub(deadline.Time()).Nanoseconds()), b.lag.HighestTrackableValue()))
	}
}

// archived waits until the log has told that every story is archived, and says
// when it did so of the last. After its patience it leaves the others to the audit.
func (b *clusterBook) archived(ctx context.Context) (time.Time, error) {
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

// clusterListener reads a stream into the book while it grows.
type clusterListener struct {
	book    *clusterBook
	reader  store.Reader
	leaving atomic.Bool // when there is nothing more to read
	done    chan error
	stop    context.CancelFunc
}

func (b *clusterBook) listen(ctx context.Context, log store.Log, stream mayfly.Stream) (*clusterListener, error) {
	reader, err := log.Reader(ctx, stream, "bench")
	if err != nil {
		return nil, err
	}
	l := &clusterListener{book: b, reader: reader, done: make(chan error, 1)}
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
			l.book.tell(r.Event, now)
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
