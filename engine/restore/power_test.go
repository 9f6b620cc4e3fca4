package restore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/pace"
)

type crash = storetest.Photo[struct{}]

func TestPowerLossAtEveryWriteLeavesTheItemIntact(t *testing.T) {
	pace.Heavy(t, "hundreds of crashes")
	r := seeded(t)
	points, states := 0, map[string]bool{}
	for _, d := range operations() {
		crashes, before, now := photograph(t, d, r)
		for i, c := range crashes {
			points++
			if err := recoverFrom(c, d, before, now, i%2 == 1, states); err != nil {
				t.Errorf("%s: crash %d of %d, %s: %v", d.name, i, len(crashes), c, err)
			}
		}
	}
	storetest.Proof(t, "restore, power loss", "crash points", points)
	storetest.Proof(t, "restore, power loss", "distinct states recovered", len(states))
	if points < 300 || len(states) < 30 {
		t.Error("too little was tried")
	}
}

// photograph runs an operation and copies its disk as power losses would leave it.
func photograph(t *testing.T, d operation, r *rand.Rand) ([]crash, mayfly.Item, mayfly.Instant) {
	t.Helper()
	disk := vfs.NewCrashableMem()
	cam := &storetest.Camera[struct{}]{Disk: disk, RNG: r}
	h, err := openFixture(cam.FS(), genesis)
	if err != nil {
		t.Fatal(err)
	}
	h.random = firstShard{}
	before, err := d.setup(h)
	if err != nil {
		t.Fatal(err)
	}
	support, err := h.restorer()
	if err != nil {
		t.Fatal(err)
	}
	cam.On(func() struct{} { return struct{}{} })
	err = d.do(h, support, before)
	crashes, _ := cam.Off()
	if err := errors.Join(err, h.close()); err != nil {
		t.Fatal(err)
	}
	return crashes, before, h.now
}

// recoverFrom opens the disk of a crash and lets time pass; with again, the operation
// is repeated first.
func recoverFrom(c crash, d operation, before mayfly.Item, now mayfly.Instant, again bool, states map[string]bool) error {
	h, err := openFixture(c.FS, now.Add(10*time.Second)) // leases have expired
	if err != nil {
		return err
	}
	h.random = firstShard{}
	return errors.Join(h.recovered(d, before, again, states), h.close())
}

func (h *fixture) recovered(d operation, before mayfly.Item, again bool, states map[string]bool) error {
	picture, err := h.picture(before.ID)
	if err := errors.Join(err, h.intact(before)); err != nil {
		return fmt.Errorf("after the crash: %w", err)
	}
	states[d.name+picture] = true
	if again {
		support, err := h.restorer()
		if err != nil {
			return err
		}
		if err := d.do(h, support, before); err != nil && !errors.Is(err, mayfly.Conflict) { // it is restored already
			return fmt.Errorf("tried again: %w", err)
		}
		if err := h.intact(before); err != nil {
			return fmt.Errorf("tried again: %w", err)
		}
	}
	if err := h.live(before.ID, 5*time.Hour, 10*time.Minute); err != nil {
		return err
	}
	return h.settled(before, never)
}
