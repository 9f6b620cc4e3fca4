package kafkastore

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// The client library reports that a record was never sent only after one more
// attempt to find a broker, which lasts up to sendRetryTimeout. A call therefore
// waits grace longer than its timeout before it returns Unknown.
const (
	sendRetryTimeout = time.Second
	grace            = 1500 * time.Millisecond
)

// Append implements store.Log. Errors: Invalid (nothing was appended), Unavailable
// (nothing was appended, and nothing will be), Unknown (some events may be in the
// log, or arrive there later). Safe for concurrent use.
func (s *Store) Append(ctx context.Context, events ...mayfly.Event) error {
	var b store.Batch
	b.Append(events...)
	if err := b.Validate(); err != nil {
		return err
	}
	if err := s.checkOpen(ctx); err != nil || len(events) == 0 {
		return err
	}
	waited := s.elapsed()
	if !s.breaker.Allow(waited) {
		return mayfly.Errorf(mayfly.Unavailable, "kafka: the brokers did not answer the last call; try again in %s", breakerPause)
	}
	var err error
	defer func() {
		switch early := s.elapsed()-waited < breakerPause; {
		case ctx.Err() != nil && early, errors.Is(err, context.Canceled): // the caller gave up before the brokers had time to answer
			s.breaker.Abandoned()
		case err == nil || errors.Is(err, mayfly.Invalid):
			s.breaker.Answered()
		default:
			s.breaker.Failed(s.elapsed() + breakerPause)
		}
	}()
	within, cancel := context.WithTimeout(ctx, s.opts.Timeout+grace)
	defer cancel()
	if err = s.prepare(within); err == nil {
		err = s.deliver(within, events)
	}
	return err
}

// deliver sends the events and waits until the outcome of each is known.
func (s *Store) deliver(ctx context.Context, events []mayfly.Event) error {
	d := s.newDelivery(len(events))
	if err := s.send(ctx, d, events); err != nil {
		return err
	}
	select {
	case <-d.done:
		return d.result()
	case <-ctx.Done():
		return mayfly.Wrap(mayfly.Unknown, wrapped("append: no answer yet", ctx.Err()), "")
	}
}

// send passes the events to the client in order, in pieces that fit into the limit of
// events in flight. After an error the caller must not wait for the delivery.
func (s *Store) send(ctx context.Context, d *delivery, events []mayfly.Event) error {
	piece := s.opts.MaxInFlight / 2
	for first := 0; first < len(events); first += piece {
		part := events[first:min(first+piece, len(events))]
		if err := s.inFlight.Acquire(ctx, int64(len(part))); err != nil {
			d.skip(len(events) - first)
			return appendError(fatesOf(first), wrapped("wait for room: too many events are in flight", err))
		}
		for _, e := range part {
			// Not the caller's context: when that is cancelled, the client would also fail
			// records of other callers that are queued behind this one.
			s.appender.Produce(d.ctx, s.record(e), func(_ *kgo.Record, err error) {
				s.inFlight.Release(1)
				d.report(err)
			})
		}
	}
	return nil
}

// fatesOf returns the fates of a call that stopped after n events were passed to the
// client.
func fatesOf(n int) []fate {
	if n == 0 {
		return []fate{unsent}
	}
	return []fate{doubtful, unsent}
}

// record encodes an event. The record's timestamp is not before the event, so that a
// seek by timestamp starts at or before the event, and not before now, so that an
// event that is appended late is retained as long as any other.
func (s *Store) record(e mayfly.Event) *kgo.Record {
	subject := e.Subject()
	return &kgo.Record{
		Topic:     s.opts.topic(e.Stream()),
		Key:       subject[:],
		Value:     store.AppendEvent(nil, e),
		Timestamp: time.UnixMilli(min(lastStamp, int64(max(e.At, s.opts.Now())))),
	}
}

// lastStamp is the last instant that the client can express in nanoseconds: year 2262.
const lastStamp = math.MaxInt64 / int64(time.Millisecond)

// delivery tracks the events of one Append call until the outcome of each is known.
type delivery struct {
	ctx  context.Context // limits how long the client keeps trying
	stop context.CancelFunc
	done chan struct{} // closed when the outcome of the last event is known

	mu      sync.Mutex
	waiting int
	fates   []fate
	err     error // the first error; one of a doubtful record replaces one of an unsent record
}

func (s *Store) newDelivery(events int) *delivery {
	d := &delivery{waiting: events, done: make(chan struct{})}
	d.ctx, d.stop = context.WithTimeout(context.Background(), s.opts.Timeout)
	return d
}

// report records the outcome of one event.
func (d *delivery) report(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fates = append(d.fates, fateOf(err))
	if d.err == nil || fateOf(d.err) == unsent && fateOf(err) == doubtful {
		d.err = err
	}
	d.leave(1)
}

// skip removes n events that were never passed to the client.
func (d *delivery) skip(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leave(n)
}

func (d *delivery) leave(n int) {
	if d.waiting -= n; d.waiting == 0 {
		d.stop()
		close(d.done)
	}
}

// result returns the error of the whole call. Call it after done is closed.
func (d *delivery) result() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		return nil
	}
	err := d.err
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.Join(errors.New("no broker accepted it in time"), err)
	}
	return appendError(d.fates, err)
}
