//go:build servers

package cluster

import (
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly/store/storetest"
)

// roll stops and starts the nodes one after the other, as an operator does for a
// new version: nobody waits for a lease to run out.
func (c *change) roll() {
	c.Helper()
	var longestStop, longestStart time.Duration
	rounds := pick(2, 20)
	for round := range rounds {
		p := []*process{c.a, c.b}[round%2]
		c.away(p, "told to stop", lease+busy)
		longestStop = max(longestStop, p.stop())
		c.load.goOn(30, 50, time.Minute)
		time.Sleep(lease)
		p.begin()
		longestStart = max(longestStart, p.awaitReady(time.Minute))
		c.together()
	}
	storetest.Proof(c, "rolling restart", "stops and starts, the longest of each", fmt.Sprintf("%d, %s, %s",
		rounds, longestStop.Round(time.Millisecond), longestStart.Round(time.Millisecond)))
}
