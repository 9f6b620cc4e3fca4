package node_test

import (
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/pace"
)

// A node that was down for so long that the tidy walk will have passed its items
// writes a reminder for each tombstone. The reminder is due when the configured
// time is over, whichever walk made the tombstone (L13).
func TestRemindersToTidyFollowTheConfiguredTombstone(t *testing.T) {
	pace.Heavy(t, "a node that lives for a month of virtual time")
	in(t, func(t *testing.T, set store.Set, m *machine) {
		cfg := config.Default()
		cfg.Ends.Tombstone, cfg.Ends.RetireAfter = 4*24*time.Hour, 3*time.Hour
		o := node.FromConfig(cfg)
		o.Source = m.source()
		first := start(t, set, o)
		l, err := mayfly.LifetimeOf(time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		items := map[mayfly.ID]string{}
		for fate, walk := range map[mayfly.Fate]string{mayfly.Purge: "sweep", mayfly.Archive: "retire"} {
			p, err := first.Intake().Publish(t.Context(), intake.Draft{
				Owner: ana, Product: mayfly.Story, Fate: fate, Audience: mayfly.Everyone, Lifetime: l, Text: "sea",
			}, first.Clock().Read().Steady)
			if err != nil {
				t.Fatal(err)
			}
			items[p.Item.ID] = walk
		}
		stop(t, first)

		time.Sleep(30 * time.Hour) // later than retire and a day
		second := start(t, set, o)
		defer stop(t, second)
		began := second.Clock().Read().Steady
		time.Sleep(3 * time.Minute)
		for id, walk := range items {
			if s := state(t, set, id); s != mayfly.Deleted {
				t.Errorf("%s has not deleted its item: %s", walk, s)
			}
			// A day is how much later the tidy walk comes.
			due := began.Add(cfg.Ends.Tombstone + 24*time.Hour)
			if r := tidyReminders(t, set, id, due, due.Add(3*time.Minute)); len(r) != 1 {
				t.Errorf("%s: %d reminders to tidy within three minutes of %s, want 1", walk, len(r), due)
			}
		}
	})
}

// tidyReminders returns the reminders to tidy an item that are due from one instant to another.
func tidyReminders(t *testing.T, set store.Set, id mayfly.ID, from, to mayfly.Instant) (all []remind.Reminder) {
	t.Helper()
	for minute := from.Minute(); minute <= to.Minute(); minute++ {
		rows, err := set.Rows.Range(t.Context(), remind.Reminders, store.Range{Partition: remind.Partition(minute, id.Shard()), Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			r, err := remind.Read(row)
			if err != nil {
				t.Fatal(err)
			}
			if r.ID == id && r.Step == remind.Tidy && r.Due >= from && r.Due <= to {
				all = append(all, r)
			}
		}
	}
	return all
}
