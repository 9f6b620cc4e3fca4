//go:build servers

package kafkastore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
)

func TestABrokerKilledUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	o := b.options()
	o.Partitions = 8
	writer := open(t, o)
	const appenders, each = 16, 400
	f := newEffects(appenders * each)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r := join(t, open(t, o), "survivors")
	var reading, writing sync.WaitGroup
	reading.Go(func() { f.consume(ctx, t, r, 50) })

	var acknowledged, again atomic.Int64
	third := make(chan struct{})
	for range appenders {
		events := life(t, each)
		writing.Go(func() {
			for _, e := range events {
				for err := writer.Append(t.Context(), e); err != nil; err = writer.Append(t.Context(), e) {
					if again.Add(1); !errors.Is(err, mayfly.Unavailable) && !errors.Is(err, mayfly.Unknown) || t.Context().Err() != nil {
						t.Error(err)
						return
					}
				}
				if acknowledged.Add(1) == appenders*each/3 {
					close(third)
				}
			}
		})
	}
	<-third
	b.kill()
	at := acknowledged.Load()
	b.start()
	writing.Wait()
	select {
	case <-f.all:
	case <-t.Context().Done():
	}
	stop()
	reading.Wait()
	t.Logf("killed at %d of %d acknowledged; %d appends failed and were repeated; %d records were read again", at, acknowledged.Load(), again.Load(), f.again)
	if lost := appenders*each - len(f.done); lost != 0 {
		t.Errorf("%d LOST", lost)
	}
	if len(f.behind) > 0 {
		t.Errorf("%d events took effect after a later one of their item, such as %v", len(f.behind), f.behind[0])
	}
}

func TestAppendReportsWhetherEventsMayBeInTheLog(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	o := b.options()
	patient := open(t, o)
	o.Timeout, o.MaxInFlight = time.Second, minMaxInFlight
	s, idle := open(t, o), open(t, o)
	r := join(t, patient, "witness")
	join(t, idle, "left alone")
	before, whileDead, crowd, after := life(t, 1), life(t, 3), life(t, minMaxInFlight), life(t, 1)
	connect := func() {
		t.Helper()
		for err := s.Append(t.Context(), before...); err != nil; err = s.Append(t.Context(), before...) {
			if t.Context().Err() != nil {
				t.Fatal(err)
			}
			t.Log("not connected:", err) // without a connection the next events would never be sent
			time.Sleep(pollInterval)
		}
	}
	connect()

	b.kill()
	var neverSent []mayfly.Event
	for try := 1; len(neverSent) == 0; try++ {
		events := life(t, 3)
		switch err := idle.Append(t.Context(), events...); {
		case errors.Is(err, mayfly.Unavailable):
			neverSent = events
		case errors.Is(err, mayfly.Unknown) && try < 10:
			t.Log("the client did not say in time that nothing was sent:", err) // the machine is busy
			time.Sleep(2 * breakerPause)                                        // the next call asks the client again
		default:
			t.Fatalf("while the broker is dead and there is no connection: %v", err)
		}
	}
	// This store still has a connection, and may have written into it.
	inDoubt := s.Append(t.Context(), whileDead...)
	if !errors.Is(inDoubt, mayfly.Unavailable) && !errors.Is(inDoubt, mayfly.Unknown) {
		t.Errorf("while the broker is dead: %v", inDoubt)
	}
	t.Logf("into a dead connection: %v", inDoubt)
	b.start()

	var whileFrozen []mayfly.Event
	for try := 1; len(whileFrozen) == 0; try++ {
		connect()
		b.freeze()
		events := life(t, 3)
		switch err := s.Append(t.Context(), events...); {
		case errors.Is(err, mayfly.Unknown):
			whileFrozen = events
		case errors.Is(err, mayfly.Unavailable) && try < 10:
			t.Log("the client did not send in time:", err) // the machine is busy
			neverSent = append(neverSent, events...)
			b.thaw()
		default:
			t.Fatalf("while the broker is frozen: %v", err)
		}
	}
	// Doubtful events count as in flight until the broker answers: the queue is bounded (I17).
	if err := s.Append(t.Context(), crowd...); !errors.Is(err, mayfly.Unavailable) && !errors.Is(err, mayfly.Unknown) {
		t.Errorf("many events after the doubtful ones: %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	refused := life(t, 1)
	neverSent = append(neverSent, refused...)
	if err := s.Append(cancelled, refused...); !errors.Is(err, mayfly.Unavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call: %v", err)
	}
	b.thaw()
	for err := patient.Append(t.Context(), after...); err != nil; err = patient.Append(t.Context(), after...) {
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
		t.Log("not acknowledged:", err)
		after = life(t, 1) // those before may be in the log
		time.Sleep(pollInterval)
	}

	// Frozen for longer than its session, the broker may lead no partition for a moment when
	// it is back. It then refuses the doubtful events, and they are not sent again.
	type place struct {
		partition uint32
		offset    uint64
	}
	seen, positions := map[mayfly.EventKey]int{}, map[place]bool{}
	restart := time.Now().Add(time.Minute)
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end) && seen[whileFrozen[2].Key()]*seen[after[0].Key()] == 0; {
		ctx, cancel := context.WithDeadline(t.Context(), end)
		records, err := r.Next(ctx, 100)
		cancel()
		if err != nil {
			t.Log("continues after", err)
		}
		if err != nil && time.Now().After(restart) { // a coordinator that could not load its groups stays away until its broker starts again
			b.kill()
			b.start()
			restart = end
		}
		for _, rec := range records {
			at := place{rec.Partition, rec.Offset}
			if positions[at] {
				continue // a reader that had to join again reads again
			}
			positions[at] = true
			if seen[rec.Event.Key()]++; rec.Event.Key() == after[0].Key() {
				end = time.Now().Add(3 * time.Second)
			}
		}
	}
	if seen[after[0].Key()] != 1 {
		t.Errorf("the event that was acknowledged at last was read %d times", seen[after[0].Key()])
	}
	if errors.Is(inDoubt, mayfly.Unavailable) {
		neverSent = append(neverSent, whileDead...)
	}
	for _, e := range neverSent {
		if seen[e.Key()] != 0 {
			t.Errorf("generation %d was called unavailable and is in the log", e.Generation)
		}
	}
	landed := 0
	for _, e := range whileFrozen {
		landed += seen[e.Key()]
		if seen[e.Key()] > 1 {
			t.Errorf("generation %d was in doubt and is in the log %d times", e.Generation, seen[e.Key()])
		}
	}
	t.Logf("%d of %d that were in doubt are in the log", landed, len(whileFrozen))

	b.kill()
	closed := make(chan error, 1)
	go func() { closed <- idle.Close() }()
	select {
	case err := <-closed:
		t.Logf("closed without a broker: %v", err)
	case <-time.After(time.Minute):
		t.Error("a store and its reader cannot be closed without a broker")
	}
	b.start() // for the clean-up of the other stores
}
