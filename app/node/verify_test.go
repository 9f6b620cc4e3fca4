package node_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// wideLedger answers lookups of items as if all of them were for everyone; walks see
// the rows as they are.
type wideLedger struct{ store.Ledger }

func (l wideLedger) Get(ctx context.Context, ids ...mayfly.ID) ([]store.Found, error) {
	found, err := l.Ledger.Get(ctx, ids...)
	for i := range found {
		found[i].Item.Audience = mayfly.Everyone
	}
	return found, err
}

func TestVerifyMeasuresAllSevenWords(t *testing.T) {
	for name, tc := range map[string]struct {
		plant func(t *testing.T, set *store.Set, now mayfly.Instant)
		want  string
	}{
		"nothing": {func(*testing.T, *store.Set, mayfly.Instant) {}, "LOST 0  RESURRECTED 0  EARLY 0  LATE 0  LEAK 0  DOUBLE 0  ORPHAN 0"},
		"a leak": {
			func(_ *testing.T, set *store.Set, _ mayfly.Instant) { set.Ledger = wideLedger{set.Ledger} },
			"LOST 0  RESURRECTED 0  EARLY 0  LATE 0  LEAK 1  DOUBLE 0  ORPHAN 0",
		},
		"an orphan before the collector's watermark": {func(t *testing.T, set *store.Set, now mayfly.Instant) {
			lose(t, *set, now.Add(-48*time.Hour), 1)
			mark := store.Key{Partition: "orphans", Clustering: "hot"}
			_, _, err := set.Rows.Swap(t.Context(), walk.Watermarks, mark, nil, []byte("\x01zz"), 0)
			must(t, err)
		}, "LOST 0  RESURRECTED 0  EARLY 0  LATE 0  LEAK 0  DOUBLE 0  ORPHAN 1"},
		"an expiry that happened twice": {func(t *testing.T, set *store.Set, now mayfly.Instant) {
			day, err := mayfly.LifetimeOf(time.Hour)
			must(t, err)
			id, err := mayfly.NewID(now.Add(-2*time.Hour), day, ana.Trace(), 1)
			must(t, err)
			item := mayfly.Item{ID: id, Owner: ana, Product: mayfly.Story, Fate: mayfly.Archive, State: mayfly.Active, Generation: 5, Changed: now}
			first, second := mayfly.EventOf(item, mayfly.WasExpired), mayfly.EventOf(item, mayfly.WasExpired)
			second.At++
			must(t, set.Log.Append(t.Context(), first, second))
		}, "LOST 0  RESURRECTED 0  EARLY 0  LATE 0  LEAK 0  DOUBLE 1  ORPHAN 0"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, set store.Set, m *machine) {
				n := start(t, set, node.Options{Source: m.source(), Idle: true})
				now := n.Clock().Read().Steady
				l, err := mayfly.LifetimeOf(24 * time.Hour)
				must(t, err)
				for _, to := range []mayfly.Audience{mayfly.Everyone, mayfly.CloseFriends} {
					_, err = n.Intake().Publish(t.Context(), intake.Draft{Owner: ana, Product: mayfly.Story, Fate: mayfly.Archive, Audience: to, Lifetime: l, Text: "sea"}, now)
					must(t, err)
				}
				stop(t, n)
				tc.plant(t, &set, now)
				n = start(t, set, node.Options{Source: m.source(), Idle: true})
				defer stop(t, n)
				found, orphans, err := n.AdminOperations().Verify(t.Context(), false, nil, now)
				must(t, err)
				if found.String() != tc.want || found.Items != 2 || !orphans.Whole {
					t.Errorf("%s, want %s\n%s", found, tc.want, strings.Join(found.Faults(), "\n"))
				}
				for w := range verify.Words {
					if why := found.WhyUnmeasured(w); why != "" {
						t.Errorf("%s: %s", w, why)
					}
				}
			})
		})
	}
}
