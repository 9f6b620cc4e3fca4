package node_test

import (
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/pace"
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

// A node that walks counts the views of a story for good after two days, and its own
// count survives a restart before that.
func TestTheCountOfViewsOutlivesTheViews(t *testing.T) {
	pace.Heavy(t, "a node that lives for hours of virtual time")
	in(t, func(t *testing.T, set store.Set, m *machine) {
		n := start(t, set, node.Options{Source: m.source(), Idle: true})
		item := mustPublish(t, n, time.Hour)
		must(t, n.Stories().View(t.Context(), item.ID, mayfly.ViewerOf(ben), n.Clock().Read().Now))
		stop(t, n)
		for _, after := range []time.Duration{0, 48*time.Hour + 15*time.Minute} {
			time.Sleep(after)
			n = start(t, set, node.Options{Source: m.source()})
			time.Sleep(time.Minute)
			count, views, _, err := n.Stories().Viewers(t.Context(), item.ID, mayfly.ViewerOf(ana), "", 0, n.Clock().Read().Now)
			rows, rowsErr := set.Rows.Range(t.Context(), story.ViewCounts, store.Range{Partition: string(item.ID[:]), Limit: 10})
			if err != nil || rowsErr != nil || count != 1 || (len(views) == 0) != (after > 0) || (rows[0].Clustering == "") != (after > 0) {
				t.Errorf("after %s: a count of %d, %d listed, %q, %v, %v", after, count, len(views), rows, err, rowsErr)
			}
			stop(t, n)
		}
	})
}
