package node_test

import (
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/store"
)

func TestStoriesOfALifetimeThatIsNotAllowedAnyMoreStayInRingAndLimit(t *testing.T) {
	in(t, func(t *testing.T, set store.Set, m *machine) {
		allowing := func(lifetimes ...time.Duration) *node.Node {
			var rules config.Stories
			for _, d := range lifetimes {
				l, err := mayfly.LifetimeOf(d)
				if err != nil {
					t.Fatal(err)
				}
				rules.Lifetimes = append(rules.Lifetimes, l)
			}
			return start(t, set, node.Options{Source: m.source(), Idle: true, Products: node.ProductOptions{Stories: rules}})
		}
		const day = 24 * time.Hour
		n := allowing(day, 7*day)
		item := mustPublish(t, n, 7*day)
		stop(t, n)
		for range 2 { // and it is remembered still
			time.Sleep(70 * time.Hour)
			n = allowing(day)
			now := n.Clock().Read().Now
			ring, err := n.Stories().Ring(t.Context(), ana, mayfly.ViewerOf(ben), now)
			if err != nil || len(ring) != 1 || ring[0].Item.ID != item.ID {
				t.Errorf("the ring has %d stories, %v", len(ring), err)
			}
			if p, err := n.Stories().Preflight(t.Context(), ana, now); err != nil || p.Live != 1 {
				t.Errorf("%d stories are live, %v", p.Live, err)
			}
			stop(t, n)
		}
	})
}
