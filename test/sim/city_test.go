package sim

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// city is everything at once, from one seed: births, retries, two sets of
// walkers that take the shards from each other, stores that fail and let writes
// land late, power losses, and a clock that is set.
type city struct {
	*scenario
	*clock.Manual
	clock   *clock.Clock
	disk    *vfs.MemFS
	landing *storetest.LateWrites
	rivals  []*walk.Walker
	engines int
	done    map[string]int
	found   *tally
}

const cityShards = 4

func newCity(t *testing.T, n uint64) *city {
	t.Helper()
	c := &city{Manual: clock.NewManual(genesis), disk: vfs.NewCrashableMem(), done: map[string]int{}, found: newTally()}
	c.scenario = newScenario(nil, newRecord(), seeded(n), genesis)
	c.record.shards = cityShards
	if err := c.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// build starts a process on the disk: engine, rival walkers, clock.
func (c *city) build(ctx context.Context) error {
	c.engines++
	wrap := func(set store.Set) store.Set {
		set, c.landing = storetest.Prefix(set, storetest.Seeded(c.rng.Uint64(), 40))
		return c.record.witnessed(set)
	}
	p := plan{
		fs: c.disk, random: fewShards{randomBits(c.rng.Uint64()), cityShards}, shards: cityShards, wrap: wrap,
		holder:  fmt.Sprintf("engine %d", c.engines),
		mayMint: func() error { return c.clock.Read().Err },
		now:     func() mayfly.Instant { return c.clock.Read().Now },
	}
	err := errors.New("not tried")
	for tries := 0; err != nil && tries < 5; tries++ { // the start may meet a fault too
		c.clock = clock.New(c.Source(), clock.Options{}, clock.Mark{})
		if c.engine, err = openEngine(ctx, p, c.clock.Read().Steady); err != nil {
			continue
		}
		if err = c.startClock(ctx); err == nil {
			c.rivals, err = newWalkers(ctx, c.engine.set, fmt.Sprintf("rival %d", c.engines), cityShards, c.clock.Read().Steady)
		}
		if err != nil {
			err = errors.Join(err, c.engine.close())
		}
	}
	return err
}

// startClock goes on from the mark that the last process left.
func (c *city) startClock(ctx context.Context) error {
	mark, err := clock.Load(ctx, c.engine.raw.Rows, "city")
	if err != nil {
		return err
	}
	c.clock = clock.New(c.Source(), clock.Options{}, mark)
	return c.saveMark(ctx)
}

func (c *city) saveMark(ctx context.Context) error {
	mark, ok := c.clock.Mark()
	if !ok {
		return nil
	}
	return clock.Save(ctx, c.engine.raw.Rows, "city", mark)
}

// tick does one thing at random.
func (c *city) tick(ctx context.Context) error {
	if err := c.saveMark(ctx); err != nil {
		return err
	}
	c.now.Store(int64(c.clock.Read().Steady))
	step := c.choose()
	c.done[step]++
	switch step {
	case "birth":
		c.bear(ctx, c.newWish())
	case "burst":
		c.burst(ctx, c.judge)
	case "retry":
		c.bear(ctx, c.record.wishes[c.rng.IntN(len(c.record.wishes))])
	case "pass":
		c.walk(ctx, c.engine.walkers)
	case "rival's pass":
		c.walk(ctx, c.rivals)
	case "late landing":
		_, err := c.landing.Land(ctx, c.rng)
		return err
	case "cut", "reconnect":
		c.engine.signals.SetCut(step == "cut")
	case "clock step":
		c.Step(time.Duration(c.rng.IntN(21)-10) * time.Minute)
	case "confirmation":
		c.clock.Confirm()
	case "time":
		c.Advance(time.Duration(c.rng.IntN(60)) * time.Second)
	case "power loss":
		return c.losePower(ctx)
	case "audit":
		return c.audit(ctx, false)
	}
	c.Advance(time.Duration(c.rng.IntN(2_000)) * time.Millisecond)
	return nil
}

func (c *city) choose() string {
	steps := []struct {
		name   string
		weight int
	}{
		{"birth", 30},
		{"burst", 5},
		{"retry", 12},
		{"pass", 18},
		{"rival's pass", 6},
		{"late landing", 6},
		{"cut", 1},
		{"reconnect", 2},
		{"clock step", 2},
		{"confirmation", 3},
		{"time", 8},
		{"power loss", 2},
		{"audit", 3},
	}
	n := c.rng.IntN(98)
	for _, d := range steps {
		if n -= d.weight; n < 0 {
			if d.name == "retry" && len(c.record.wishes) == 0 {
				return "birth"
			}
			return d.name
		}
	}
	return "audit"
}

// bear tries a wish; one without a key is not tried twice.
func (c *city) bear(ctx context.Context, w *wish) {
	if w.key == "" && len(c.record.tries[w.number]) > 0 {
		return
	}
	_, err := c.record.publish(ctx, c.engine.uploads, c.engine.intake, w, c.at())
	c.judge(w, err)
}

func (c *city) judge(w *wish, err error) {
	switch {
	case err == nil, errors.Is(err, mayfly.Unavailable):
	case errors.Is(err, mayfly.Gone) && c.goneWrongly(w) == nil:
	case errors.Is(err, mayfly.Conflict) && c.at() >= c.record.tries[w.number][0].Add(24*time.Hour):
	default:
		c.found.Add(verify.Double, "wish %d: %v", w.number, err)
	}
}

// walk passes as a node does: not while the clock is in doubt. Errors of the
// store are its own; the next pass takes up from there.
func (c *city) walk(ctx context.Context, walkers []*walk.Walker) {
	if r := c.clock.Read(); r.Confirmed {
		_ = passAll(ctx, walkers, r.Steady)
	}
}

// losePower takes the disk as a power loss leaves it, and starts again on it.
// What had not landed is lost with the process, or was on its way: both happen.
func (c *city) losePower(ctx context.Context) error {
	share := storetest.Shares()[c.rng.IntN(len(storetest.Shares()))]
	clone := c.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: share, RNG: c.rng})
	if err := c.engine.close(); err != nil {
		return err
	}
	c.disk = clone
	if c.rng.IntN(2) == 0 {
		c.Reboot(time.Duration(c.rng.IntN(100)) * time.Second)
	}
	return c.build(ctx)
}

func (c *city) audit(ctx context.Context, settled bool) error {
	found, _, err := inspect(ctx, c.engine, c.record, c.clock.Read().Now, settled)
	if err != nil {
		return err
	}
	c.found.merge(found, fmt.Sprintf("engine %d", c.engines))
	return nil
}
