package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// errAway says that the last beat failed: the next one tries again, not callers.
var errAway = errors.New("the server does not answer beats")

// told is what the server answers to a publication.
type told struct {
	at    place
	nodes []nodeID
	beats map[nodeID]string // by which each may hold a lease
	by    time.Duration     // elapsed time at which it was told at the latest
}

// Publish implements store.Signals.
func (s *Signals) Publish(ctx context.Context, signal store.Signal) error {
	if s.away.Load() {
		return s.inVain(ctx, errAway)
	}
	t, err := s.tell(ctx, signal)
	if err != nil {
		return s.inVain(ctx, err)
	}
	met := s.meet(t.at.life)
	if err := s.awaitAcks(ctx, t); err != nil {
		return unavailable("publish: wait for acknowledgements", err)
	}
	// Leases from another life of the server's memory are over by then.
	if err := loop.Rest(ctx, met+s.o.Lease-s.now()); err != nil {
		return unavailable("publish: wait for leases that the server has forgotten", err)
	}
	return nil
}

// tell does not end with its caller: a request that is given up would otherwise
// be a debt, and cost every node its cache.
func (s *Signals) tell(ctx context.Context, signal store.Signal) (told, error) {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Lease)
	defer cancel()
	answer, err := s.door.run(within, s.scripts.publish, s.roll, rand.Text(), string(s.node), s.allChannel(), signalText(signal))
	if err != nil {
		s.away.Store(true)
		return told{}, err
	}
	words, err := answer.AsStrSlice()
	if err != nil {
		return told{}, err
	}
	return readTold(words, s.now())
}

func readTold(words []string, by time.Duration) (told, error) {
	if len(words) < 2 || len(words)%2 != 0 {
		return told{}, mayfly.Errorf(mayfly.Corrupt, "%d words are answered", len(words))
	}
	seq, err := strconv.ParseUint(words[1], 10, 64)
	if err != nil {
		return told{}, mayfly.Errorf(mayfly.Corrupt, "the number of a signal: %w", err)
	}
	t := told{at: place{life(words[0]), seq}, beats: map[nodeID]string{}, by: by}
	for i := 2; i < len(words); i += 2 {
		t.nodes = append(t.nodes, nodeID(words[i]))
		t.beats[nodeID(words[i])] = words[i+1]
	}
	return t, nil
}

// awaitAcks returns when every node of the roll has handled the signal, or the
// lease that it may have held has run out.
func (s *Signals) awaitAcks(ctx context.Context, t told) error {
	s.acks.keep(t.nodes)
	w := s.acks.await(t.at, t.nodes)
	timer := time.NewTimer(t.by + s.o.Lease - s.now())
	defer timer.Stop()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		s.acks.giveUp(w)
		return ctx.Err()
	case <-timer.C:
	}
	s.noteLapsed(ctx, t, s.acks.giveUp(w))
	return nil
}

// noteLapsed spares the next publishers the wait. That it fails costs them time.
func (s *Signals) noteLapsed(ctx context.Context, t told, missing map[nodeID]struct{}) {
	args := []string{rand.Text()}
	for node := range missing {
		args = append(args, string(node), t.beats[node])
	}
	s.o.Logger.Warn("redis: nodes have not acknowledged a signal within a lease", "nodes", len(missing))
	within, cancel := context.WithTimeout(ctx, s.o.Lease)
	defer cancel()
	if _, err := s.door.run(within, s.scripts.lapse, s.roll, args...); err != nil {
		s.o.Logger.Warn("redis: the lapse of a lease could not be noted", "error", err)
	}
}

// inVain fails a publication. Not before its debt is paid, or the others can have
// noticed that this node is silent and stopped renewing their leases: then the
// lease that the caller waits is enough.
func (s *Signals) inVain(ctx context.Context, cause error) error {
	debt := s.debts.Add(1)
	s.beater.Wake()
	for s.paid.Load() < debt {
		noticed := time.Duration(s.spoke.Load()) + s.o.Lease - s.now()
		if noticed <= 0 {
			break
		}
		if err := loop.Rest(ctx, min(noticed, s.o.Lease/20)); err != nil {
			return unavailable("publish", errors.Join(cause, err))
		}
	}
	return unavailable("publish", cause)
}

// close gives the leases up, and then the place on the roll.
func (s *Signals) close(ctx context.Context) error {
	err := s.stop(ctx)
	within, cancel := context.WithTimeout(ctx, s.o.Lease)
	defer cancel()
	if s.away.Load() || s.pay(within) != nil {
		return err // the others notice the silence, which lasts until the node is forgotten
	}
	if gone := s.leave(within); gone != nil {
		s.o.Logger.Warn("redis: the node could not be struck off the roll", "error", gone)
	}
	return err
}

// stop ends what the node does by itself, and its lease.
func (s *Signals) stop(ctx context.Context) error {
	err := errors.Join(s.ear.Stop(ctx), s.beater.Stop(ctx), s.acker.Stop(ctx))
	s.hearing.lose()
	return err
}

func (s *Signals) leave(ctx context.Context) error {
	_, err := s.door.run(ctx, s.scripts.leave, s.roll, rand.Text(), string(s.node))
	return err
}

// acks is what a publisher knows of who has handled what.
type acks struct {
	mu      sync.Mutex
	handled map[nodeID]place // the last of each node
	waiting map[*waiter]struct{}
}

// waiter waits until every node of a list has handled what is at a place.
type waiter struct {
	at      place
	missing map[nodeID]struct{}
	done    chan struct{}
}

func newAcks() *acks {
	return &acks{handled: map[nodeID]place{}, waiting: map[*waiter]struct{}{}}
}

// covers says whether an acknowledgement at a is one of what is at b: a node
// acknowledges in order, and what it missed has cost it its lease.
func (a place) covers(b place) bool { return a.life == b.life && a.seq >= b.seq }

// acknowledge notes that node has handled everything up to at.
func (a *acks) acknowledge(node nodeID, at place) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last := a.handled[node]; last.covers(at) {
		return
	}
	a.handled[node] = at
	for w := range a.waiting {
		if at.covers(w.at) {
			a.tick(w, node)
		}
	}
}

func (a *acks) tick(w *waiter, node nodeID) {
	delete(w.missing, node)
	if len(w.missing) == 0 {
		delete(a.waiting, w)
		close(w.done)
	}
}

// await is a waiter for nodes; its done is closed when none is missing.
func (a *acks) await(at place, nodes []nodeID) *waiter {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := &waiter{at: at, missing: map[nodeID]struct{}{}, done: make(chan struct{})}
	for _, node := range nodes {
		if !a.handled[node].covers(at) {
			w.missing[node] = struct{}{}
		}
	}
	if len(w.missing) == 0 {
		close(w.done)
		return w
	}
	a.waiting[w] = struct{}{}
	return w
}

// giveUp ends a wait and says who is missing.
func (a *acks) giveUp(w *waiter) map[nodeID]struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, w)
	return maps.Clone(w.missing)
}

// keep forgets the nodes that are off the roll, when they have become many (I17).
func (a *acks) keep(nodes []nodeID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.handled) <= 2*len(nodes)+16 {
		return
	}
	kept := make(map[nodeID]place, len(nodes))
	for _, node := range nodes {
		if at, ok := a.handled[node]; ok {
			kept[node] = at
		}
	}
	a.handled = kept
}
