package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
)

const (
	streamType = "text/event-stream"
	// heartbeatInterval is how often a stream sends a comment, so that a connection
	// that is gone is noticed and no proxy takes it for idle.
	heartbeatInterval = 15 * time.Second
	// reconnectAfter is when a client may open the stream again after it has ended.
	reconnectAfter = time.Second
	// DefaultStreamBuffer is how many events wait for a client that reads slowly.
	DefaultStreamBuffer = 64
)

// Event is a server-sent event.
type Event struct {
	ID   string // sent back by the client in Last-Event-ID; may be empty
	Name string // may be empty
	Data string
	// End is when what the event contains ends for the caller; from then on it is
	// not sent. 0: it does not end.
	End mayfly.Instant
}

// EventStream returns the answer of a route that calls Stream.
func EventStream(about string) []Answer {
	return []Answer{{Status: http.StatusOK, About: about, Content: Content{{Type: streamType, Schema: Schema{"type": "string"}}}}}
}

// The reasons for which the server ends a stream. The client gets the reason in a
// last event named end, unless it reads too slowly for that.
const (
	endSource  = "complete"
	endToken   = "token"
	endDrain   = "drain"
	endSlow    = "slow"
	endClient  = "client"
	endFailure = "failure"
)

// Stream answers with server-sent events until the source returns, the client
// goes, its token ends, the node drains, or the client reads too slowly: when
// more than buffer events wait for it, or when it takes longer than the body
// timeout to read one.
//
// It calls source in a goroutine, with a context that ends with the stream. The
// source calls send for each event; send never blocks, and returns false once the
// stream has ended. Stream returns after source has.
func (c *Call) Stream(buffer int, source func(ctx context.Context, send func(Event) bool) error) error {
	if buffer < 1 {
		return mayfly.Errorf(mayfly.Invalid, "httpapi: stream with a buffer of %d events", buffer)
	}
	ctx, cancel := context.WithCancel(c.Context())
	s := &stream{c: c, ctx: ctx, cancel: cancel, events: make(chan Event, buffer), ended: make(chan error, 1)}
	if c.route.Method == http.MethodHead {
		cancel()
		return mayfly.Errorf(mayfly.Invalid, "httpapi: a stream has no HEAD")
	}
	c.api.metrics.streams.WithLabelValues(c.route.Product).Inc()
	defer c.api.metrics.streams.WithLabelValues(c.route.Product).Dec()
	var running sync.WaitGroup
	running.Go(func() { s.ended <- source(ctx, s.send) })
	reason, err := s.run()
	cancel()
	running.Wait()
	c.api.metrics.streamsEnded.WithLabelValues(c.route.Product, reason).Inc()
	return err
}

// Drain ends all streams, now and from now on, so that their clients connect to
// another node. Other requests are answered as before.
func (a *API) Drain() { a.drainOnce.Do(func() { close(a.draining) }) }

// stream is an answer of server-sent events.
type stream struct {
	c      *Call
	ctx    context.Context
	cancel context.CancelFunc
	events chan Event // those that wait for the client
	ended  chan error // what the source returned

	mu   sync.Mutex
	slow bool
}

// send queues an event. A client for which the queue is full is given up.
func (s *stream) send(e Event) bool {
	if s.ctx.Err() != nil {
		return false
	}
	select {
	case s.events <- e:
		return true
	default:
	}
	s.mu.Lock()
	s.slow = true
	s.mu.Unlock()
	_ = s.c.w.control.SetWriteDeadline(time.Now()) // a write that waits for the client ends too
	s.cancel()
	return false
}

func (s *stream) isSlow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slow
}

// run sends events and heartbeats until the stream ends, and returns why.
func (s *stream) run() (reason string, err error) {
	h := s.c.w.Header()
	h.Set("Content-Type", streamType)
	h.Set("X-Accel-Buffering", "no") // proxies must not collect events
	_ = s.c.w.control.SetReadDeadline(time.Time{})
	if err := s.write(fmt.Sprintf("retry: %d\n\n", reconnectAfter.Milliseconds())); err != nil {
		return s.failed(err)
	}
	heartbeat := time.NewTicker(heartbeatInterval)
	defer heartbeat.Stop()
	var token <-chan time.Time
	if until := s.c.Caller.Until; until != 0 {
		timer := time.NewTimer(until.Sub(s.c.api.clock.Read().Now))
		defer timer.Stop()
		token = timer.C
	}
	for {
		if s.tokenEnded() {
			return endToken, s.end(endToken)
		}
		select { // first what ends the stream, then events
		case <-s.c.api.draining:
			return endDrain, s.end(endDrain)
		case <-s.ctx.Done():
			return s.failed(s.ctx.Err())
		default:
		}
		select {
		case <-s.c.api.draining:
		case <-s.ctx.Done():
		case <-token:
			token = nil // tokenEnded decides, by the node's clock
		case e := <-s.events:
			err = s.sendEvent(e)
		case err := <-s.ended:
			return s.complete(err)
		case <-heartbeat.C:
			err = s.write(": heartbeat\n\n")
		}
		if err != nil {
			return s.failed(err)
		}
	}
}

// tokenEnded reports whether the token with which the stream was opened has
// ended or was denied. A stream that was opened without one has none that could.
func (s *stream) tokenEnded() bool {
	until := s.c.Caller.Until
	if until == 0 {
		return false
	}
	return s.c.api.clock.Read().Now >= until || errors.Is(s.c.api.accounts.CheckDenied(s.ctx, s.c.Caller), mayfly.Unauthenticated)
}

// complete sends the events that still wait after the source has returned.
func (s *stream) complete(err error) (string, error) {
	for {
		select {
		case e := <-s.events:
			if err := s.sendEvent(e); err != nil {
				return s.failed(err)
			}
			continue
		default:
		}
		if err != nil {
			s.c.Warn("stream failed", err)
			return endFailure, s.end(endFailure)
		}
		return endSource, s.end(endSource)
	}
}

// failed returns why a stream ended whose client cannot be reached any more. None
// of it is an error of ours.
func (s *stream) failed(err error) (string, error) {
	var timeout interface{ Timeout() bool }
	switch {
	case s.isSlow(), errors.As(err, &timeout) && timeout.Timeout():
		return endSlow, nil
	default:
		return endClient, nil
	}
}

// end sends the last event. That the client is gone by then is no error.
func (s *stream) end(reason string) error {
	_ = s.write("event: end\ndata: " + reason + "\n\n")
	return nil
}

// sendEvent sends an event, unless what it contains has ended meanwhile (I4).
func (s *stream) sendEvent(e Event) error {
	if e.End != 0 && s.c.api.clock.Read().Now >= e.End {
		return nil
	}
	var b strings.Builder
	for _, field := range []struct{ name, value string }{{"id", e.ID}, {"event", e.Name}} {
		if field.value != "" {
			fmt.Fprintf(&b, "%s: %s\n", field.name, strings.Map(oneLine, field.value))
		}
	}
	for line := range strings.SplitSeq(strings.ReplaceAll(e.Data, "\r", ""), "\n") {
		fmt.Fprintf(&b, "data: %s\n", line)
	}
	b.WriteByte('\n')
	return s.write(b.String())
}

// oneLine removes what would begin another field.
func oneLine(r rune) rune {
	if r == '\n' || r == '\r' || r == 0 {
		return -1
	}
	return r
}

// write sends a text at once. The deadline of the write does not outlive it: on
// HTTP/2 it would end a stream that is idle.
func (s *stream) write(text string) error {
	if _, err := s.c.w.Write([]byte(text)); err != nil {
		return err
	}
	if err := s.c.w.control.Flush(); err != nil {
		return err
	}
	if !s.isSlow() {
		return s.c.w.control.SetWriteDeadline(time.Time{})
	}
	return nil
}
