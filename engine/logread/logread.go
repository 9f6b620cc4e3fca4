// Package logread runs handlers over the event log: one frame for every reader, so
// that each product brings only a group name and a handler.
//
// An event is committed after its effect: a crash repeats events and loses none,
// and for one item or user they come in order. A handler that fails is called again
// after a pause; once its retry budget is used up, the event becomes a dead letter
// and the reader goes on. An error of kind Unavailable uses up no budget, because a
// server that is down would turn every event into a dead letter. The package never
// decides what an event means and never appends one.
package logread

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Handler applies the effect of one event. It is called at least once for each
// event and must not repeat an effect: the event's Key tells a repeated event (I13).
type Handler func(ctx context.Context, e mayfly.Event) error

// Options are the settings of a Reader; zero values take the defaults.
type Options struct {
	Group   string          // whose position is kept; required
	Streams []mayfly.Stream // default both
	Handle  Handler         // required, unless Batch is set
	Now     func() mayfly.Instant

	// Batch applies the effects of several events at once, in their order, instead of
	// Handle. If that fails, and not because what it needs is unavailable, they are
	// handled one by one.
	Batch func(ctx context.Context, events []mayfly.Event) error

	Page    int           // how many events are read and committed together; default 500
	Budget  int           // how many attempts an event gets; default 10
	Backoff time.Duration // pause after a first failure, doubling; default 100 ms
	Longest time.Duration // of these pauses; default 30 s
	Kept    time.Duration // how long a dead letter is kept; default 30 days

	// Failed is called with each error and how many came in a row. May be nil.
	Failed func(stream mayfly.Stream, err error, inARow int)
	// Committed tells a test that the events read so far are committed.
	Committed loop.Signal[mayfly.Stream]
}

func (o Options) withDefaults() (Options, error) {
	if batch := o.Batch; batch != nil {
		o.Handle = func(ctx context.Context, e mayfly.Event) error { return batch(ctx, []mayfly.Event{e}) }
	}
	if o.Group == "" || o.Handle == nil || o.Now == nil {
		return o, mayfly.Errorf(mayfly.Invalid, "read the log: a group, a handler and a clock are required")
	}
	if len(o.Streams) == 0 {
		o.Streams = []mayfly.Stream{mayfly.Births, mayfly.Ends}
	}
	set := func(value *int, standard int) {
		if *value <= 0 {
			*value = standard
		}
	}
	set(&o.Page, 500)
	set(&o.Budget, 10)
	if o.Kept <= 0 {
		o.Kept = 30 * 24 * time.Hour
	}
	if o.Failed == nil {
		o.Failed = func(mayfly.Stream, error, int) {}
	}
	return o, nil
}

// Reader calls a handler for the events of its streams, until it is stopped.
type Reader struct {
	set     store.Set
	o       Options
	streams []*stream
	loops   []*loop.Loop
}

// New returns a reader that Start sets going. Errors: Invalid.
func New(set store.Set, o Options) (*Reader, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Reader{set: set, o: o}
	for _, name := range o.Streams {
		r.streams = append(r.streams, &stream{Reader: r, name: name})
	}
	return r, nil
}

// Start begins to read, one goroutine per stream. A log that is not reachable is
// tried again.
func (r *Reader) Start(ctx context.Context) {
	for _, s := range r.streams {
		r.loops = append(r.loops, loop.Start(ctx, loop.Options{
			Name: "read " + s.name.String() + " for " + r.o.Group, Jitter: 0.5, Backoff: r.o.Backoff, BackoffMax: r.o.Longest,
			Failed: func(err error, inARow int) { r.o.Failed(s.name, err, inARow) },
		}, s.run))
	}
}

// Stop ends the reading and waits for the handlers that are running, whose context
// is cancelled. What they had not committed is read again by the next reader.
func (r *Reader) Stop(ctx context.Context) error {
	var errs []error
	for _, l := range r.loops {
		errs = append(errs, l.Stop(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop reading for %s: %w", r.o.Group, err)
	}
	for _, s := range r.streams {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// Lag is how many events of a stream wait for their effect, by the last look.
type Lag struct {
	Group  string
	Stream mayfly.Stream
	Events int64
}

// Lags returns the lag of each stream that was looked at.
func (r *Reader) Lags() []Lag {
	var all []Lag
	for _, s := range r.streams {
		s.mu.Lock()
		if s.measured {
			all = append(all, Lag{Group: r.o.Group, Stream: s.name, Events: s.behind + int64(s.handling)})
		}
		s.mu.Unlock()
	}
	return all
}

// stream reads one stream. Only its loop touches what is not behind mu.
type stream struct {
	*Reader
	name     mayfly.Stream
	reader   store.Reader
	page     []store.Record // read, and not handled yet
	attempts int            // of the first event of page

	mu       sync.Mutex
	measured bool
	behind   int64 // in the log, behind what was read
	handling int   // read, and not committed
}

// run handles events until something fails or ctx ends. The loop calls it again
// after a pause, and it goes on with the event that failed.
func (s *stream) run(ctx context.Context) error {
	for {
		if err := s.round(ctx); err != nil {
			return fmt.Errorf("read %s for %s: %w", s.name, s.o.Group, err)
		}
	}
}

func (s *stream) round(ctx context.Context) error {
	if s.reader == nil {
		r, err := s.set.Log.Reader(ctx, s.name, s.o.Group)
		if err != nil {
			return err
		}
		s.reader = r
	}
	if len(s.page) == 0 {
		if err := s.measure(ctx); err != nil {
			return err
		}
		page, err := s.reader.Next(ctx, s.o.Page)
		if err != nil {
			return s.again(err)
		}
		s.page = slices.Clone(page)
	}
	if err := s.measure(ctx); err != nil {
		return err
	}
	if err := s.handle(ctx); err != nil {
		return err
	}
	if err := s.reader.Commit(ctx); err != nil {
		return s.again(err)
	}
	s.o.Committed.Send(s.name)
	return nil
}

// handle works off the page. It returns the error of the first event that fails
// and has attempts left.
func (s *stream) handle(ctx context.Context) error {
	if s.o.Batch != nil && len(s.page) > 1 && s.attempts == 0 {
		events := make([]mayfly.Event, len(s.page))
		for i, record := range s.page {
			events[i] = record.Event
		}
		switch err := s.o.Batch(ctx, events); {
		case err == nil:
			s.page = nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, mayfly.Unavailable):
			return fmt.Errorf("handle %d events: %w", len(events), err)
		}
	}
	for len(s.page) > 0 {
		e := s.page[0].Event
		if err := s.o.Handle(ctx, e); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if !errors.Is(err, mayfly.Unavailable) {
				s.attempts++
			}
			if s.attempts < s.o.Budget {
				return fmt.Errorf("handle %s of %x: %w", e.Type(), e.Subject(), err)
			}
			letter := Letter{Group: s.o.Group, Event: e, Since: s.o.Now(), Attempts: s.attempts, Reason: err.Error()}
			if err := s.bury(ctx, letter); err != nil {
				return err
			}
			s.o.Failed(s.name, fmt.Errorf("handle %s of %x: given up, kept as a dead letter: %w", e.Type(), e.Subject(), err), s.attempts)
		}
		s.page, s.attempts = s.page[1:], 0
	}
	return nil
}

// measure notes how much is waiting.
func (s *stream) measure(ctx context.Context) error {
	behind, err := s.reader.Lag(ctx)
	if err != nil {
		return s.again(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.measured, s.behind, s.handling = true, behind, len(s.page)
	return nil
}

// again gives up the place in the log after an error: the next round opens the
// stream anew, from the last commit on.
func (s *stream) again(err error) error {
	s.page, s.attempts = nil, 0
	return errors.Join(err, s.close())
}

func (s *stream) close() error {
	if s.reader == nil {
		return nil
	}
	r := s.reader
	s.reader = nil
	return r.Close()
}

// Replay moves a group to the first event of a stream at or after the instant (0
// is the oldest that is kept), and returns how many events wait for it then. The
// group's readers must have stopped. They get what they have handled before once
// more. Errors: Conflict (another reader is open for the group), Invalid, Unavailable.
func Replay(ctx context.Context, log store.Log, stream mayfly.Stream, group string, from mayfly.Instant) (waiting int64, err error) {
	r, err := log.Reader(ctx, stream, group)
	if err != nil {
		return 0, fmt.Errorf("replay %s: %w", stream, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := r.Seek(ctx, from); err != nil {
		return 0, fmt.Errorf("replay %s: %w", stream, err)
	}
	if err := r.Commit(ctx); err != nil {
		return 0, fmt.Errorf("replay %s: %w", stream, err)
	}
	if waiting, err = r.Lag(ctx); err != nil {
		return 0, fmt.Errorf("replay %s: the position was moved, but the lag is not known: %w", stream, err)
	}
	return waiting, nil
}
