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

// Roll divides the shards among all nodes that walk (L4, O6). Each node has a place on
// it, which runs out unless it is renewed. The sorted names on the roll decide which
// node each shard belongs to, so that all nodes that read the same roll agree.
//
// When two nodes see different rolls the lease of the shard decides: its holder keeps
// it until it gives it up, the lease runs out, or the holder is not on the roll any
// more. So each node renews one row often, and the rows of the shards rarely.
type Roll struct {
	rows   store.Rows
	name   string
	holder string
	lasts  time.Duration
	place  *Lease

	shards []*Shard
	asking chan struct{} // one renewal or leave at a time
	left   bool
	other  mayfly.Instant // until when another process has the place; 0 if none has

	mu   sync.Mutex
	free [mayfly.Shards]mayfly.Instant // since when no process holds a shard; 0 if one does
}

// shardLasts is how many times longer the lease of a shard lasts than a place.
const shardLasts = 6

// Turn describes a process that wants to walk.
type Turn struct {
	Name   string        // of the node
	Holder string        // of this process in this life
	Lease  time.Duration // how long a place lasts
	Origin mayfly.Instant
}

// NewRoll returns the roll as a process sees it that is not on it yet.
func NewRoll(rows store.Rows, t Turn) *Roll {
	r := &Roll{
		rows: rows, name: t.Name, holder: t.Holder, lasts: t.Lease,
		place: NewPlace(rows, t.Name, t.Holder, t.Lease), asking: make(chan struct{}, 1),
	}
	for number := range mayfly.Shard(mayfly.Shards) {
		s := NewShard(rows, number, t.Holder, shardLasts*t.Lease, t.Origin)
		s.granted = true
		r.shards = append(r.shards, s)
	}
	return r
}

// Shards returns all shards, held or not.
func (r *Roll) Shards() []*Shard { return r.shards }

// Renew keeps the place on the roll, takes the shards that belong to this node and
// gives up the others, each as soon as no pass is going on in it. It has to be called
// at least three times per lease. Errors: those of Rows, and Conflict if another
// process keeps the place. Then no shard is held, nor while the place of a process
// that died runs out.
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
		return fmt.Errorf("place on the roll: %w", err) // grants run out by themselves
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
	return mayfly.Errorf(mayfly.Conflict, "another process uses the node name %s", r.name).
		WithHint("every node needs a name of its own: set node, and see that the old process has ended")
}

// share takes and gives up shards according to the roll.
func (r *Roll) share(ctx context.Context, now mayfly.Instant) error {
	walkers, err := Members(ctx, r.rows, now)
	if err != nil {
		return err
	}
	rows, err := ShardLeases(ctx, r.rows)
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
		holder, until, err := HolderOf(rows[i])
		if err != nil {
			errs = append(errs, fmt.Errorf("shard %d: %w", i, err))
		}
		held := false
		if mine[i] && err == nil {
			if holder != r.holder {
				s.grant(false, 0) // another process held it meanwhile: a new tenure begins
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

// sharesOf returns the shards of the walker called name.
func sharesOf(name string, walkers []Member) (mine [mayfly.Shards]bool) {
	for i := range mine {
		mine[i] = len(walkers) > 0 && walkers[i%len(walkers)].Name == name
	}
	return mine
}

// giveUp gives up the shards that are not mine. In a shard with a pass going on the
// walk stops after its batch, and the next call gives the shard up.
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

// Leave takes this process off the roll and gives up the shards without a pass; when
// it is called again, the others too. From then on Renew does nothing.
func (r *Roll) Leave(ctx context.Context) error {
	if err := r.enter(ctx); err != nil {
		return err
	}
	defer func() { <-r.asking }()
	r.left = true
	return errors.Join(r.place.Release(ctx), r.giveUp(ctx, [mayfly.Shards]bool{}))
}

// Busy reports whether a pass is going on in any shard.
func (r *Roll) Busy() bool {
	for _, s := range r.shards {
		if s.Busy() {
			return true
		}
	}
	return false
}

// Holds reports whether this process holds a shard at now.
func (r *Roll) Holds(shard mayfly.Shard, now mayfly.Instant) bool {
	s := r.shards[shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held && now < s.until
}

func (r *Roll) seen(shard int, held bool, now mayfly.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch since := &r.free[shard]; {
	case held:
		*since = 0
	case *since == 0:
		*since = now
	}
}

// forsaken is the number of leases after which a shard without a holder is reported.
const forsaken = 3

// Forsaken returns the shards that no process has held for three leases, as far as
// this process has seen.
func (r *Roll) Forsaken(now mayfly.Instant) (all []mayfly.Shard) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, since := range r.free {
		if since != 0 && now.Sub(since) > forsaken*r.lasts {
			all = append(all, mayfly.Shard(i))
		}
	}
	return all
}
