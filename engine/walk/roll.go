package walk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Roll shares the shards out among all nodes that walk (L4, O6). Each has a place
// on it, which runs out unless it is renewed; the walkers by name say whose each
// shard should be, and everybody who reads the same roll decides the same.
//
// Where two see different rolls the shard's own lease decides: who has it keeps
// it until it is given up, has run out, or its holder is off the roll. So one row a
// node is renewed often, and the rows of the shards seldom.
type Roll struct {
	rows   store.Rows
	name   string
	holder string
	lasts  time.Duration
	place  *store.Lease

	shards []*Shard
	asking chan struct{} // one renewal or leave at a time
	left   bool
	other  mayfly.Instant // until when another process has the place; 0: none

	mu     sync.Mutex
	nobody [mayfly.Shards]mayfly.Instant // since when nobody holds a shard; 0: somebody does
}

// shardLasts is how many times as long as a place a shard's lease lasts.
const shardLasts = 6

// Turn is what a process brings to a roll.
type Turn struct {
	Name   string        // of the node
	Holder string        // of this process in this life
	Lease  time.Duration // how long a place lasts
	Origin mayfly.Instant
}

// NewRoll is a process that is not on the roll yet.
func NewRoll(rows store.Rows, t Turn) *Roll {
	r := &Roll{
		rows: rows, name: t.Name, holder: t.Holder, lasts: t.Lease,
		place: store.NewPlace(rows, t.Name, t.Holder, t.Lease), asking: make(chan struct{}, 1),
	}
	for number := range mayfly.Shard(mayfly.Shards) {
		s := NewShard(rows, number, t.Holder, shardLasts*t.Lease, t.Origin)
		s.granted = true
		r.shards = append(r.shards, s)
	}
	return r
}

// Shards are all shards, held or not.
func (r *Roll) Shards() []*Shard { return r.shards }

// Renew keeps the place on the roll, takes the shards that are this node's by it
// and gives up those that are not, each as soon as nothing passes over it. It has
// to be called at least three times in a lease. Conflict: another process keeps the
// place; nothing is held then, nor while the place of one that died runs out.
func (r *Roll) Renew(ctx context.Context, now mayfly.Instant) error {
	if err := r.enter(ctx); err != nil {
		return err
	}
	defer func() { <-r.asking }()
	if r.left {
		return nil
	}
	held, err := r.place.Hold(ctx, now)
	if err != nil {
		return fmt.Errorf("place on the roll: %w", err) // what is granted runs out by itself
	}
	if !held {
		return errors.Join(r.giveUp(ctx, [mayfly.Shards]bool{}), r.refused())
	}
	r.other = 0
	return r.share(ctx, now)
}

func (r *Roll) enter(ctx context.Context) error {
	select {
	case r.asking <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refused tells who went before under this name, and died, from a twin: the place
// of the dead runs out within a lease, a twin renews it.
func (r *Roll) refused() error {
	before, other := r.other, r.place.Other()
	r.other = other
	if before == 0 || other <= before {
		return nil
	}
	return mayfly.Errorf(mayfly.Conflict, "another process walks under the name %s", r.name).
		WithHint("every node needs a name of its own: set node, and see that the old process has ended")
}

// share takes and gives up shards by the roll as it is.
func (r *Roll) share(ctx context.Context, now mayfly.Instant) error {
	walkers, err := store.Walkers(ctx, r.rows, now)
	if err != nil {
		return err
	}
	rows, err := store.ShardLeases(ctx, r.rows)
	if err != nil {
		return err
	}
	alive := map[string]bool{}
	for _, w := range walkers {
		alive[w.Holder] = true
	}
	gone := func(holder string) bool { return !alive[holder] }
	mine := sharesOf(r.name, walkers)
	errs := []error{r.giveUp(ctx, mine)}
	for i, s := range r.shards {
		holder, until, err := store.HolderOf(rows[i])
		if err != nil {
			errs = append(errs, fmt.Errorf("shard %d: %w", i, err))
		}
		held := false
		if mine[i] && err == nil {
			if holder != r.holder {
				s.grant(false, 0) // it was somebody's meanwhile: what comes is another tenure
			}
			held, err = s.lease.HoldOver(ctx, now, rows[i], gone)
			errs = append(errs, err)
		}
		if mine[i] {
			s.grant(held, r.place.Until())
		}
		r.seen(i, held || err == nil && now < until && !gone(holder), now)
	}
	return errors.Join(errs...)
}

// sharesOf are the shards of the walker called name.
func sharesOf(name string, walkers []store.Walker) (mine [mayfly.Shards]bool) {
	for i := range mine {
		mine[i] = len(walkers) > 0 && walkers[i%len(walkers)].Name == name
	}
	return mine
}

// giveUp gives up what is not mine. A shard that something passes over is walked no
// further, and given up by the next call: after the batch under way.
func (r *Roll) giveUp(ctx context.Context, mine [mayfly.Shards]bool) error {
	var errs []error
	for i, s := range r.shards {
		if mine[i] {
			continue
		}
		s.grant(false, 0)
		if !s.Busy() {
			errs = append(errs, s.lease.Release(ctx))
		}
	}
	return errors.Join(errs...)
}

// Leave takes this process off the roll and gives up the shards that nothing
// passes over; called again, the others. Renew does nothing from then on.
func (r *Roll) Leave(ctx context.Context) error {
	if err := r.enter(ctx); err != nil {
		return err
	}
	defer func() { <-r.asking }()
	r.left = true
	return errors.Join(r.place.Release(ctx), r.giveUp(ctx, [mayfly.Shards]bool{}))
}

// Busy says whether something passes over a shard.
func (r *Roll) Busy() bool {
	for _, s := range r.shards {
		if s.Busy() {
			return true
		}
	}
	return false
}

// Holds says whether this process holds a shard at now.
func (r *Roll) Holds(shard mayfly.Shard, now mayfly.Instant) bool {
	s := r.shards[shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held && now < s.until
}

func (r *Roll) seen(shard int, held bool, now mayfly.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch since := &r.nobody[shard]; {
	case held:
		*since = 0
	case *since == 0:
		*since = now
	}
}

// forsaken is after how many leases a shard that nobody holds is something to look at.
const forsaken = 3

// Forsaken are the shards that nobody has held for three leases, as far as this
// process has seen.
func (r *Roll) Forsaken(now mayfly.Instant) (all []mayfly.Shard) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, since := range r.nobody {
		if since != 0 && now.Sub(since) > forsaken*r.lasts {
			all = append(all, mayfly.Shard(i))
		}
	}
	return all
}
