package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// play is a fixed little life on a store that is stopped somewhere.
type play struct {
	*scenario
	landing *storetest.LateWrites
	armed   bool
	tally   *tally
	digests map[[32]byte]bool
}

func newPlay(ctx context.Context, n uint64, plan0 storetest.Plan) (*play, error) {
	p := &play{tally: newTally(), digests: map[[32]byte]bool{}}
	b, first := newRecord(), 0
	b.shards = 1
	wrap := func(set store.Set) store.Set {
		set, p.landing = storetest.Prefix(set, func(c storetest.Call) storetest.Fault {
			if !p.armed {
				first = c.N
				return storetest.Fault{}
			}
			c.N -= first
			return plan0(c)
		})
		return b.witnessed(set)
	}
	h, err := openEngine(ctx, plan{fs: vfs.NewMem(), random: fewShards{randomBits(n), 1}, wrap: wrap, shards: 1}, genesis)
	if err != nil {
		return nil, err
	}
	p.scenario = newScenario(h, b, seeded(n), genesis)
	p.armed = true
	return p, nil
}

// wishes are one of each sort: key or none, media or none, both fates, anonymous.
func (p *play) wishes() []*wish {
	owner, media := p.owners[0], [][]byte{[]byte("a picture"), []byte("and another")}
	base := wish{owner: owner, lifetime: 5_000, fate: mayfly.Archive, audience: mayfly.Everyone}
	with := func(change func(*wish)) *wish {
		w := base
		change(&w)
		return p.record.wishFor(w, 0)
	}
	return []*wish{
		with(func(w *wish) { w.key, w.media = "one", media }),
		with(func(w *wish) { w.key, w.fate = "two", mayfly.Purge }),
		with(func(w *wish) { w.media = media[:1] }),
		with(func(w *wish) { w.owner, w.fate = mayfly.UserID{}, mayfly.Purge }),
	}
}

// run plays: births, retry, sweep, restart, sweep, retry.
func (p *play) run(ctx context.Context, s stop) error {
	land := func(when landing) error {
		if s.lands != when {
			return nil
		}
		_, err := p.landing.LandAll(ctx, p.rng)
		return err
	}
	wishes := p.wishes()
	for _, w := range wishes {
		p.try(ctx, w)
	}
	retried := wishes
	if s.patient {
		retried = nil
	}
	return errors.Join(
		p.restart(ctx), p.look(ctx, "after the births", false), land(beforeRetry),
		p.again(ctx, retried, time.Second), p.look(ctx, "after the retries", false), land(afterRetry),
		p.sweep(ctx), p.look(ctx, "after the sweep", true), land(afterSweep),
		p.look(ctx, "after landing behind the sweep", true), p.again(ctx, wishes, time.Second),
		p.restart(ctx), land(afterRestart), p.sweep(ctx), p.again(ctx, wishes, time.Second), p.sweep(ctx),
		p.look(ctx, "at the end", true),
	)
}

// try publishes and takes every error that a caller can act on.
func (p *play) try(ctx context.Context, w *wish) {
	if _, err := p.record.publish(ctx, p.engine.uploads, p.engine.intake, w, p.at()); errors.Is(err, errWrong) {
		p.tally.Add(verify.Double, "%v", err)
	} else if err != nil && !errors.Is(err, mayfly.Unavailable) && !errors.Is(err, mayfly.Gone) {
		p.tally.Add(verify.Lost, "wish %d: an error that no caller can act on: %v", w.number, err)
	} else if errors.Is(err, mayfly.Gone) && p.goneWrongly(w) != nil {
		p.tally.Add(verify.Lost, "%v", p.goneWrongly(w))
	}
}

func (p *play) again(ctx context.Context, wishes []*wish, later time.Duration) error {
	p.advance(later)
	p.landing.Resume()
	for _, w := range wishes {
		if w.key != "" {
			p.try(ctx, w)
		}
	}
	return nil
}

// restart begins a new process, also where the plan has stopped the old one.
func (p *play) restart(ctx context.Context) error {
	p.engine.plan.holder += "+"
	err := errors.New("not tried")
	for tries := 0; err != nil && tries < 3; tries++ {
		p.landing.Resume()
		err = errors.Join(p.engine.gate.Close(), p.engine.assemble(ctx, p.at()))
	}
	return err
}

// sweep passes until the watermarks are behind all deadlines so far. Passes may
// fail; a process that was stopped is begun again.
func (p *play) sweep(ctx context.Context) error {
	p.landing.Resume()
	var err error
	for tries := 0; tries < 4 || err != nil && tries < 9; tries++ {
		p.advance(8 * time.Second)
		if err = p.engine.pass(ctx, p.at()); err != nil {
			p.landing.Resume()
		}
	}
	return err
}

func (p *play) look(ctx context.Context, when string, settled bool) error {
	p.landing.Resume()
	found, inv, err := inspect(ctx, p.engine, p.record, p.at(), settled)
	if err != nil {
		return fmt.Errorf("%s: %w", when, err)
	}
	p.tally.merge(found, when)
	p.digests[inv.digest()] = true
	return nil
}
