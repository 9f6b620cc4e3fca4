package sim

import (
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/pace"
)

// clerk notes what a machine has promised while its clock is set at random.
type clerk struct {
	*machine
	*tally
	rng     *rand.Rand
	items   map[mayfly.ID]mayfly.Instant // deadline
	highest mayfly.Instant               // confirmed time that was ever read
	skew    time.Duration                // of the wall
	looks   int
}

func TestClockSetAtRandomBringsNothingBackAndEndsNothingEarly(t *testing.T) {
	pace.Heavy(t, "thousands of clock settings")
	lives, actions := 12, 60
	if pace.Long() {
		lives, actions = 300, 200
	}
	n, looks, doubts, total := seed(t), 0, 0, newTally()
	for life := range lives {
		onMachine(t, func(m *machine) {
			c := &clerk{machine: m, tally: newTally(), rng: seeded(n + uint64(life)), items: map[mayfly.ID]mayfly.Instant{}}
			for range actions {
				c.act()
				c.look()
				synctest.Wait() // a mark that is worth saving now is saved before the next thing happens
				if !m.node.Clock().Read().Confirmed {
					doubts++
				}
			}
			c.settle()
			looks += c.looks
			total.merge(c.tally, "life "+string(rune('a'+life%26)))
		})
	}
	storetest.Proof(t, "clock", "random settings of the clock", lives*actions)
	storetest.Proof(t, "clock", "of them in doubt", doubts)
	storetest.Proof(t, "clock", "verdicts compared", looks)
	total.zero(t, "clock")
	if looks < 2_000 || doubts < 20 {
		t.Errorf("%d looks and %d doubts are too few", looks, doubts)
	}
}

// act does one thing to the machine.
func (c *clerk) act() {
	jumps := []time.Duration{time.Second, time.Minute, 4 * time.Minute, 6 * time.Minute, 2 * time.Hour, 2 * day}
	jump := jumps[c.rng.IntN(len(jumps))]
	switch n := c.rng.IntN(20); {
	case n < 7:
		c.bear()
	case n < 11:
		c.live(time.Duration(1+c.rng.IntN(4)) * time.Second)
	case n < 13:
		c.step(jump)
	case n < 15:
		c.step(-jump)
	case n < 16:
		c.step(-c.skew)
	case n < 17:
		c.node.Clock().Confirm()
	case n < 18:
		c.Synchronise(c.rng.IntN(2) == 0)
	case n < 19:
		c.Advance(min(jump, 2*time.Hour)) // suspended
	default:
		c.stop()
		c.Advance(min(jump, time.Hour))
		if c.rng.IntN(2) == 0 {
			c.Reboot(min(jump, time.Hour))
		}
		if c.rng.IntN(2) == 0 {
			c.step(jump)
		}
		c.start()
	}
}

func (c *clerk) step(d time.Duration) {
	c.Step(d)
	c.skew += d
}

// bear publishes if the clock allows it.
func (c *clerk) bear() {
	if !c.node.Clock().Read().Confirmed {
		c.wantRefusedBirth()
		return
	}
	lifetimes := []time.Duration{2 * time.Second, 10 * time.Second, time.Minute, 3 * time.Hour, 3 * day}
	lifetime := lifetimes[c.rng.IntN(len(lifetimes))]
	id := c.mustPublish(lifetime, "a story")
	c.items[id] = id.Birth() + mayfly.Instant(lifetime.Milliseconds())
}

// look holds gate and rows against the promises of L7.
func (c *clerk) look() {
	r := c.node.Clock().Read()
	if r.Steady < c.highest {
		c.Add(verify.Resurrected, "the confirmed time went back from %s to %s", c.highest, r.Steady)
	}
	c.highest = max(c.highest, r.Steady)
	for id, deadline := range c.items {
		c.looks++
		_, err := c.node.Gate().Open(c.t.Context(), id, mayfly.Viewer{}, r.Now)
		switch {
		case err == nil && deadline <= c.highest:
			c.Add(verify.Late, "%s is served at %s; the confirmed time was %s", id, r.Now, c.highest)
		case err == nil && deadline <= r.Now:
			c.Add(verify.Late, "%s is served in doubt at %s", id, r.Now)
		case errors.Is(err, mayfly.Gone) && deadline > r.Now:
			c.Add(verify.Early, "%s is gone at %s", id, r.Now)
		case err != nil && !errors.Is(err, mayfly.Gone):
			c.Add(verify.Lost, "%s: %v", id, err)
		}
		found, err := c.set.Ledger.Get(c.t.Context(), id)
		if err != nil {
			c.t.Fatal(err)
		}
		if found[0].Item.State != mayfly.Active && deadline > c.highest {
			c.Add(verify.Early, "%s is %s, and no confirmed time has reached its deadline", id, found[0].Item.State)
		}
	}
}

// settle sets the clock right and waits: what has ended is expired, once.
func (c *clerk) settle() {
	c.node.Clock().Confirm()
	c.live(25 * time.Second)
	c.look()
	for id, deadline := range c.items {
		if deadline.Add(20*time.Second) < c.highest {
			c.wantRow(id, mayfly.ExpiredHot, 1)
		} else if deadline > c.highest {
			c.wantRow(id, mayfly.Active, 0)
		}
	}
}
