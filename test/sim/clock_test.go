package sim

import (
	"errors"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	rowtables "github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/pace"
)

const (
	day   = 24 * time.Hour
	month = 30 * day
)

// withStories runs a test on a machine with a story that lives for a day and one that
// has expired.
func withStories(t *testing.T, do func(m *machine, daily, gone mayfly.ID)) {
	t.Helper()
	onMachine(t, func(m *machine) {
		daily, gone := m.mustPublish(day, "daily"), m.mustPublish(5*time.Second, "gone")
		m.live(10 * time.Second)
		m.wantServed(daily)
		m.wantGone(gone)
		m.wantRow(gone, mayfly.ExpiredHot, 1)
		do(m, daily, gone)
		m.wantGone(gone) // whatever happened: nothing reappears
		m.wantRow(gone, mayfly.ExpiredHot, 1)
	})
}

func TestUnconfirmedStepForwardHidesAndEndsNothingAndComesBack(t *testing.T) {
	withStories(t, func(m *machine, daily, _ mayfly.ID) {
		short := m.mustPublish(30*time.Second, "short")
		m.Step(month)
		m.wantGone(daily)
		m.wantRefusedBirth()
		m.live(time.Minute)
		m.wantGone(daily)
		m.wantRow(daily, mayfly.Active, 0)
		m.wantGone(short)
		m.wantRow(short, mayfly.Active, 0) // walks stand still, though its time is over by any clock
		m.wantRefusedBirth()
		m.Step(-month)
		m.wantServed(daily)
		m.live(time.Minute)
		m.wantServed(daily)
		m.wantRow(daily, mayfly.Active, 0)
		m.wantGone(short)
		m.wantRow(short, mayfly.ExpiredHot, 1)
		m.wantServed(m.mustPublish(day, "after it"))
	})
}

func TestConfirmedStepForwardExpiresForGood(t *testing.T) {
	step := 2 * day // more minutes than three passes walk
	if pace.Long() {
		step = month
	}
	for name, confirm := range map[string]func(m *machine){
		"by an operator":   func(m *machine) { m.node.Clock().Confirm() },
		"by the system":    func(m *machine) { m.Synchronise(true) },
		"over a restart":   func(m *machine) { m.stop(); m.start(); m.wantRefusedBirth(); m.node.Clock().Confirm() },
		"after a reminder": func(m *machine) { m.live(time.Minute); m.node.Clock().Confirm() },
	} {
		t.Run(name, func(t *testing.T) {
			withStories(t, func(m *machine, daily, _ mayfly.ID) {
				m.Step(step)
				m.wantRefusedBirth()
				m.wantRow(daily, mayfly.Active, 0)
				confirm(m)
				m.live(20 * time.Second)
				m.wantGone(daily)
				m.wantRow(daily, mayfly.ExpiredHot, 1)
				for _, p := range m.node.Progress(sweep.Name) {
					if p.Lag > 2*time.Second {
						t.Errorf("shard %d is %s behind", p.Shard, p.Lag)
					}
				}
				m.wantServed(m.mustPublish(day, "in the new time"))
				m.Step(-step) // too late to take it back
				m.live(10 * time.Second)
				m.wantGone(daily)
				m.wantServed(m.mustPublish(day, "in the new time still"))
			})
		})
	}
}

func TestStepBackBringsNothingBack(t *testing.T) {
	withStories(t, func(m *machine, daily, gone mayfly.ID) {
		m.Step(-2 * day)
		m.wantGone(gone)
		m.wantServed(daily)
		soon := m.mustPublish(5*time.Second, "soon")
		if soon.Birth() < gone.Birth() {
			t.Errorf("born at %s, before %s", soon.Birth(), gone.Birth())
		}
		m.live(10 * time.Second)
		m.wantGone(soon)
		m.wantRow(soon, mayfly.ExpiredHot, 1)
		m.wantRow(daily, mayfly.Active, 0)
	})
}

func TestStartOnTheSameBootChecksTheGapAgainstBootTime(t *testing.T) {
	withStories(t, func(m *machine, daily, gone mayfly.ID) {
		m.stop()
		m.Advance(time.Hour)
		m.Step(month)
		m.start()
		m.wantGone(daily)
		m.wantRefusedBirth()
		m.live(10 * time.Second)
		m.wantRow(daily, mayfly.Active, 0)
		m.Step(-month)
		m.live(time.Second)
		m.wantServed(daily)

		m.stop()
		m.Advance(time.Hour)
		m.Step(-2 * day)
		m.start()
		m.wantGone(gone)
		m.wantServed(daily)
		m.mustPublish(day, "after a start in the past")
		m.live(10 * time.Second)
		m.wantRow(daily, mayfly.Active, 0)

		m.stop()
		m.Advance(22 * time.Hour) // 24 in all: boot time says that the day is over
		m.start()
		m.live(15 * time.Second)
		m.wantGone(daily)
		m.wantRow(daily, mayfly.ExpiredHot, 1)
	})
}

func TestSuspensionIsTimeThatHasPassed(t *testing.T) {
	withStories(t, func(m *machine, daily, _ mayfly.ID) {
		m.Advance(36 * time.Hour) // nothing runs meanwhile
		m.wantGone(daily)
		m.live(20 * time.Second)
		m.wantRow(daily, mayfly.ExpiredHot, 1)
		m.wantServed(m.mustPublish(day, "awake"))
	})
}

func TestRebootWithinAMonthIsAnOrdinaryOutage(t *testing.T) {
	withStories(t, func(m *machine, daily, _ mayfly.ID) {
		m.stop()
		m.Reboot(2 * day)
		m.start()
		m.live(20 * time.Second)
		m.wantGone(daily)
		m.wantRow(daily, mayfly.ExpiredHot, 1)
		m.wantServed(m.mustPublish(day, "after the outage"))
	})
}

func TestRebootAfterMoreThanAMonthIsInDoubt(t *testing.T) {
	withStories(t, func(m *machine, daily, _ mayfly.ID) {
		m.stop()
		m.Reboot(month + time.Hour)
		m.start()
		m.wantGone(daily)
		m.wantRefusedBirth()
		m.live(20 * time.Second)
		m.wantRow(daily, mayfly.Active, 0)
		m.Step(-month)
		m.live(5 * time.Second)
		m.wantServed(daily)
		m.wantServed(m.mustPublish(day, "the wall is right again"))
	})
}

func TestRebootIntoThePastBringsNothingBack(t *testing.T) {
	withStories(t, func(m *machine, daily, gone mayfly.ID) {
		m.stop()
		m.Reboot(time.Minute)
		m.Step(-2 * day)
		m.start()
		m.wantGone(gone)
		m.wantServed(daily)
		soon := m.mustPublish(5*time.Second, "after the reboot")
		if soon.Birth() < gone.Deadline() {
			t.Errorf("born at %s, before what was read", soon.Birth())
		}
		m.live(10 * time.Second)
		m.wantRow(soon, mayfly.ExpiredHot, 1)
	})
}

func TestBirthThatAClockStepOvertakesIsNotAcknowledged(t *testing.T) {
	for name, overtake := range map[string]func(m *machine){
		"followed at once": func(m *machine) { m.Step(2 * time.Minute) },
		"confirmed":        func(m *machine) { m.Step(2 * time.Hour); m.node.Clock().Confirm() },
		"suspended":        func(m *machine) { m.Advance(2 * time.Hour) },
		"in doubt":         func(m *machine) { m.Step(2 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			withStories(t, func(m *machine, _, _ mayfly.ID) {
				m.birth = func() {
					overtake(m)
					m.live(2 * time.Second) // the walks go by
				}
				if id, err := m.publish(time.Minute, "overtaken"); err == nil {
					t.Errorf("%s was acknowledged, and the walks have passed it", id)
				}
			})
		})
	}
}

func TestSlowBirthDoesNotSlipBehindTheSweep(t *testing.T) {
	withStories(t, func(m *machine, _, _ mayfly.ID) {
		var slow mayfly.ID
		m.birth = func() { m.live(6 * time.Second) } // the cursors go by its deadline meanwhile
		_, err := m.publish(2*time.Second, "slow")
		if !errors.Is(err, mayfly.Unavailable) {
			t.Errorf("a birth that took longer than its lifetime answers %v, want Unavailable", err)
		}
		owned, err := m.set.Rows.Range(t.Context(), rowtables.Owners, store.Range{Partition: string(m.owner[:]), Limit: 10, Reverse: true})
		if err != nil || len(owned) == 0 {
			t.Fatal(owned, err)
		}
		slow = mayfly.ID([]byte(owned[0].Clustering))
		m.wantRow(slow, mayfly.Active, 0) // it did land
		m.live(30 * time.Second)
		m.wantRow(slow, mayfly.ExpiredHot, 1) // and the second look found it
	})
}
