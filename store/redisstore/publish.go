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

// errUnreachable reports that the last heartbeat failed. Publish does not try the
// server itself until a heartbeat succeeds.
var errUnreachable = errors.New("the server does not answer heartbeats")

// publication is the server's reply to a published signal.
type publication struct {
	at    position
	nodes []nodeID
	beats map[nodeID]string // the last heartbeat of each node
	by    time.Duration     // elapsed time before which it was sent
}

// Publish implements store.Signals.
func (s *Signals) Publish(ctx context.Context, signal store.Signal) error {
	if s.unreachable.Load() {
		return s.failPublish(ctx, errUnreachable)
	}
	p, err := s.send(ctx, signal)
	if err != nil {
		return s.failPublish(ctx, err)
	}
	since := s.noteGeneration(p.at.generation)
	if err := s.awaitAcks(ctx, p); err != nil {
		return unavailable("publish: wait for acknowledgements", err)
	}
	// After this wait the leases of an older generation have ended.
	if err := loop.Rest(ctx, since+s.o.Lease-s.now()); err != nil {
		return unavailable("publish: wait for leases of an older generation", err)
	}
	return nil
}

// send publishes a signal. It goes on when its caller gives up: otherwise each
// cancelled request would count as a failed publication and end every lease.
func (s *Signals) send(ctx context.Context, signal store.Signal) (publication, error) {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Lease)
	defer cancel()
	answer, err := s.connection.run(within, s.scripts.publish, s.members, rand.Text(), string(s.node), s.allChannel(), signalText(signal))
	if err != nil {
		s.unreachable.Store(true)
		return publication{}, err
	}
	words, err := answer.AsStrSlice()
	if err != nil {
		return publication{}, err
	}
	return readPublication(words, s.now())
}

func readPublication(words []string, by time.Duration) (publication, error) {
	if len(words) < 2 || len(words)%2 != 0 {
		return publication{}, mayfly.Errorf(mayfly.Corrupt, "the publish script returned %d words", len(words))
	}
	seq, err := strconv.ParseUint(words[1], 10, 64)
	if err != nil {
		return publication{}, mayfly.Errorf(mayfly.Corrupt, "sequence number of a signal: %w", err)
	}
	p := publication{at: position{generation(words[0]), seq}, beats: map[nodeID]string{}, by: by}
	for i := 2; i < len(words); i += 2 {
		p.nodes = append(p.nodes, nodeID(words[i]))
		p.beats[nodeID(words[i])] = words[i+1]
	}
	return p, nil
}

// awaitAcks waits until every member has handled the signal or its lease must
// have ended.
func (s *Signals) awaitAcks(ctx context.Context, p publication) error {
	s.acks.keep(p.nodes)
	w := s.acks.await(p.at, p.nodes)
	timer := time.NewTimer(p.by + s.o.Lease - s.now())
	defer timer.Stop()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		s.acks.giveUp(w)
		return ctx.Err()
	case <-timer.C:
	}
	s.noteLapsed(ctx, p, s.acks.giveUp(w))
	return nil
}

// noteLapsed marks members as lapsed, so that the next publishers do not wait for
// them. If it fails, they only wait longer.
func (s *Signals) noteLapsed(ctx context.Context, p publication, missing map[nodeID]struct{}) {
	args := []string{rand.Text()}
	for node := range missing {
		args = append(args, string(node), p.beats[node])
	}
	s.o.Logger.Warn("redis signal not acknowledged within a lease", "nodes", len(missing))
	within, cancel := context.WithTimeout(ctx, s.o.Lease)
	defer cancel()
	if _, err := s.connection.run(within, s.scripts.lapse, s.members, args...); err != nil {
		s.o.Logger.Warn("redis lapsed lease not recorded", "error", err)
	}
}

// failPublish returns the error of a publication. Before that it waits until a new
// generation has started, or until the other nodes can have noticed that this node
// is silent and stopped renewing leases: then the caller has to wait only one lease.
func (s *Signals) failPublish(ctx context.Context, cause error) error {
	failed := s.failedPublishes.Add(1)
	s.beater.Wake()
	for s.resetUpTo.Load() < failed {
		noticed := time.Duration(s.silentFrom.Load()) + s.o.Lease - s.now()
		if noticed <= 0 {
			break
		}
		if err := loop.Rest(ctx, min(noticed, s.o.Lease/20)); err != nil {
			return unavailable("publish", errors.Join(cause, err))
		}
	}
	return unavailable("publish", cause)
}

// close gives up the lease and then leaves the member list.
func (s *Signals) close(ctx context.Context) error {
	err := s.stop(ctx)
	within, cancel := context.WithTimeout(ctx, s.o.Lease)
	defer cancel()
	if s.unreachable.Load() || s.resetGeneration(within) != nil {
		return err // the other nodes notice the silence until they remove this node
	}
	if leaveErr := s.leave(within); leaveErr != nil {
		s.o.Logger.Warn("redis member not removed", "error", leaveErr)
	}
	return err
}

// stop ends the background loops and the lease.
func (s *Signals) stop(ctx context.Context) error {
	err := errors.Join(s.listener.Stop(ctx), s.beater.Stop(ctx), s.acker.Stop(ctx))
	s.tracker.lose()
	return err
}

func (s *Signals) leave(ctx context.Context) error {
	_, err := s.connection.run(ctx, s.scripts.leave, s.members, rand.Text(), string(s.node))
	return err
}

// acks records which node has handled which signals.
type acks struct {
	mu      sync.Mutex
	handled map[nodeID]position // the last signal that each node handled
	waiting map[*waiter]struct{}
}

// waiter waits until every node of a list has handled the signal at a position.
type waiter struct {
	at      position
	missing map[nodeID]struct{}
	done    chan struct{}
}

func newAcks() *acks {
	return &acks{handled: map[nodeID]position{}, waiting: map[*waiter]struct{}{}}
}

// covers reports whether an acknowledgement of a includes b: a node acknowledges in
// order, and has lost its lease if it missed a signal.
func (a position) covers(b position) bool { return a.generation == b.generation && a.seq >= b.seq }

// acknowledge records that node has handled every signal up to at.
func (a *acks) acknowledge(node nodeID, at position) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last := a.handled[node]; last.covers(at) {
		return
	}
	a.handled[node] = at
	for w := range a.waiting {
		if at.covers(w.at) {
			a.remove(w, node)
		}
	}
}

func (a *acks) remove(w *waiter, node nodeID) {
	delete(w.missing, node)
	if len(w.missing) == 0 {
		delete(a.waiting, w)
		close(w.done)
	}
}

// await returns a waiter for nodes. Its done channel is closed when none is missing.
func (a *acks) await(at position, nodes []nodeID) *waiter {
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

// giveUp ends a wait and returns the missing nodes.
func (a *acks) giveUp(w *waiter) map[nodeID]struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, w)
	return maps.Clone(w.missing)
}

// keep drops the entries of nodes that are not members, once there are many (I17).
func (a *acks) keep(nodes []nodeID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.handled) <= 2*len(nodes)+16 {
		return
	}
	kept := make(map[nodeID]position, len(nodes))
	for _, node := range nodes {
		if at, ok := a.handled[node]; ok {
			kept[node] = at
		}
	}
	a.handled = kept
}
