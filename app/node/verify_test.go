package node_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// Each violation is found by its word, and by no other. A word that nothing measures
// would say so.
func TestVerifyMeasuresAllSevenWords(t *testing.T) {
	cases := append(fixture.Violations(), fixture.Violation{Word: verify.Words, Name: "nothing", Plant: func(testing.TB, *store.Set, mayfly.Instant) {}})
	for _, v := range cases {
		t.Run(v.Name, func(t *testing.T) {
			in(t, func(t *testing.T, set store.Set, m *machine) {
				n := start(t, set, node.Options{Source: m.source(), Idle: true})
				now := n.Clock().Read().Steady
				for _, to := range []mayfly.Audience{mayfly.Everyone, mayfly.CloseFriends} {
					_, err := n.Intake().Publish(t.Context(), intake.Draft{
						Owner: ana, Product: mayfly.Story, Fate: mayfly.Archive, Audience: to, Lifetime: fixture.Lifetime(t, 24*time.Hour), Text: "sea",
					}, now)
					must(t, err)
				}
				stop(t, n)
				v.Plant(t, &set, now)
				n = start(t, set, node.Options{Source: m.source(), Idle: true})
				defer stop(t, n)
				found, err := n.AdminOperations().Verify(t.Context(), false, nil, now)
				must(t, err)
				for w := range verify.Words {
					if (found.Count(w) > 0) != (w == v.Word) || found.WhyUnmeasured(w) != "" {
						t.Errorf("%s, want %s alone; not measured: %q\n%s", found, v.Word, found.WhyUnmeasured(w), strings.Join(found.Faults(), "\n"))
					}
				}
			})
		})
	}
}
