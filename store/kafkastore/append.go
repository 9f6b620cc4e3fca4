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

// A call waits for longer than its patience until the client says that its records
// were never sent, before it calls the outcome unknown. The client sees that when it
// has tried once more to find a broker.
const (
	lookAround = time.Second
	grace      = 1500 * time.Millisecond
)

// Append implements store.Log. Errors: Invalid (nothing was appended), Unavailable
// (nothing was appended, nor will be), Unknown (some of it may be in the log, or
// land later). Safe for concurrent use.
func (s *Store) Append(ctx context.Context, events ...mayfly.Event) error {
	var b store.Batch
	b.Append(events...)
	if err := b.Validate(); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil || len(events) == 0 {
		return err
	}
	waited := s.elapsed()
	if !s.breaker.Allow(waited) {
		return mayfly.Errorf(mayfly.Unavailable, "kafka: the brokers did not answer a moment ago")
	}
	var err error
	defer func() {
		switch early := s.elapsed()-waited < restFor; {
		case ctx.Err() != nil && early, errors.Is(err, context.Canceled): // its time was over before the brokers had any
			s.breaker.Abandoned()
		case err == nil || errors.Is(err, mayfly.Invalid):
			s.breaker.Answered()
		default:
			s.breaker.Failed(s.elapsed() + restFor)
		}
	}()
	within, cancel := context.WithTimeout(ctx, s.opts.Patience+grace)
	defer cancel()
	if err = s.prepare(within); err == nil {
		err = s.deliver(within, events)
	}
	return err
}

// deliver sends the events and waits for their fate.
func (s *Store) deliver(ctx context.Context, events []mayfly.Event) error {
	d := s.newDelivery(len(events))
	if err := s.send(ctx, d, events); err != nil {
		return err
	}
	select {
	case <-d.done:
		return d.verdict()
	case <-ctx.Done():
		return mayfly.Wrap(mayfly.Unknown, wrapped("append: no answer yet", ctx.Err()), "")
	}
}

// send hands the events to the client in their order, as many at a time as there is
// room for. An error says that the call ends here.
func (s *Store) send(ctx context.Context, d *delivery, events []mayfly.Event) error {
	piece := s.opts.UnderWay / 2
	for first := 0; first < len(events); first += piece {
		part := events[first:min(first+piece, len(events))]
		if err := s.underWay.Acquire(ctx, int64(len(part))); err != nil {
			d.giveUp(len(events) - first)
			return appendError(fatesOf(first), wrapped("too many events are on their way", err))
		}
		for _, e := range part {
			// The wait for the answer is the caller's, the wait in the client is not: the
			// end of one caller's context would fail the records of others behind it.
			s.appender.Produce(d.ctx, s.record(e), func(_ *kgo.Record, err error) {
				s.underWay.Release(1)
				d.tell(err)
			})
		}
	}
	return nil
}

// fatesOf are the fates of a call that was given up behind n events.
func fatesOf(n int) []fate {
	if n == 0 {
		return []fate{unsent}
	}
	return []fate{doubtful, unsent}
}

// record is an event as a broker keeps it. Its stamp is not before the event, so
// that a seek by the stamp begins at or before the event, and not before now, so that
// an event that is told late is kept as long as any other.
func (s *Store) record(e mayfly.Event) *kgo.Record {
	subject := e.Subject()
	return &kgo.Record{
		Topic:     s.opts.topic(e.Stream()),
		Key:       subject[:],
		Value:     store.AppendEvent(nil, e),
		Timestamp: time.UnixMilli(min(lastStamp, int64(max(e.At, s.opts.Now())))),
	}
}

// lastStamp is what the client can count in nanoseconds: the year 2262.
const lastStamp = math.MaxInt64 / int64(time.Millisecond)

// delivery is one call's events on their way.
type delivery struct {
	ctx  context.Context // of the wait in the client
	stop context.CancelFunc
	done chan struct{} // closed when the last one's fate is known

	mu      sync.Mutex
	waiting int
	fates   []fate
	err     error // the first one that says most
}

func (s *Store) newDelivery(events int) *delivery {
	d := &delivery{waiting: events, done: make(chan struct{})}
	d.ctx, d.stop = context.WithTimeout(context.Background(), s.opts.Patience)
	return d
}

func (d *delivery) tell(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fates = append(d.fates, fateOf(err))
	if d.err == nil || fateOf(d.err) == unsent && fateOf(err) == doubtful {
		d.err = err
	}
	d.leave(1)
}

// giveUp takes n events out that were never handed to the client.
func (d *delivery) giveUp(n int) {
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

func (d *delivery) verdict() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		return nil
	}
	err := d.err
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.Join(errors.New("no broker took it in time"), err)
	}
	return appendError(d.fates, err)
}
