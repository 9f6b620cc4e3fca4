//go:build servers

package cluster

import (
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/pace"
	"github.com/mayflyhq/mayfly/test/tray"
)

// Trays on Cassandra and Redis are what the plain model says, as on the embedded store
// (product/story).
func TestATrayOfAClusterIsWhatAPlainModelSays(t *testing.T) {
	w := newCluster(t, nil) // its clock runs ahead, so that the audit of a test after it would count its stories
	users, follows, steps := 40, 80, 60
	if pace.Long() {
		users, follows, steps = 200, 2_000, 1_000
	}
	world := tray.New(t, w.open(w.config("tray", nil)).Set, w.key, users, mayfly.InstantOf(time.Now()), fixture.Seeded(t))
	f := world.Run(follows, steps)
	t.Logf("%+v", f)
	if f.Slots == 0 || f.Edges < follows/2 || len(f.Steps) < 8 {
		t.Errorf("the run tried little: %+v", f)
	}
}
