//go:build servers

package cluster

import "time"

// kill ends a node with -9: its shards are taken over when its place has run out.
func (c *change) kill() {
	c.Helper()
	for round := range pick(1, 5) {
		p := []*process{c.a, c.b}[round%2]
		c.away(p, "killed with -9", 3*lease+busy)
		p.kill()
		time.Sleep(3 * lease)
		c.load.goOn(30, 50, time.Minute)
		p.begin()
		p.awaitReady(time.Minute)
		c.together()
	}
}
