package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/pace"
)

func TestCityLivesThroughEverythingAtOnceWithSevenZeros(t *testing.T) {
	pace.Heavy(t, "thousands of steps")
	cities, ticks := 8, 250
	if pace.Long() {
		cities, ticks = 400, 1500
	}
	n, total, done, rows := seed(t), newTally(), map[string]int{}, 0
	acks := 0
	for i := range cities {
		c := newCity(t, n+uint64(i))
		where := fmt.Sprintf("MAYFLY_SEED=%d, city %d", n, i)
		for tick := range ticks {
			if err := c.tick(t.Context()); err != nil {
				t.Fatalf("%s, tick %d: %v", where, tick, err)
			}
		}
		c.calm(t)
		total.merge(c.found, where)
		for step, count := range c.done {
			done[step] += count
		}
		acks, rows = acks+len(c.record.acks), rows+c.found.checked
		if err := c.engine.close(); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Proof(t, "simulation", "steps", fmt.Sprint(done))
	storetest.Proof(t, "simulation", "acknowledgements", acks)
	storetest.Proof(t, "simulation", "rows audited", rows)
	total.zero(t, "simulation")
	if acks < 100*cities || done["power loss"] == 0 || done["late landing"] == 0 || done["rival's pass"] == 0 {
		t.Errorf("%d acknowledgements in %v are too few", acks, done)
	}
}

// calm ends all faults, sets the clock right, lets everything land, and passes
// until the watermarks are behind every short deadline.
func (c *city) calm(t *testing.T) {
	t.Helper()
	c.clock.Confirm()
	if _, err := c.landing.LandAll(t.Context(), c.rng); err != nil {
		t.Fatal(err)
	}
	c.engine.set = c.record.witnessed(c.engine.raw)
	c.engine.plan.holder = "calm"
	if err := c.engine.gate.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.engine.assemble(t.Context(), c.clock.Read().Steady); err != nil {
		t.Fatal(err)
	}
	for _, d := range []time.Duration{80 * time.Second, settle, 2 * settle} {
		c.Advance(d)
		if err := c.engine.pass(t.Context(), c.clock.Read().Steady); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.audit(t.Context(), true); err != nil {
		t.Fatal(err)
	}
}
