package restore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// crash is the disk as a power loss at one moment leaves it.
type crash struct {
	fs    *vfs.MemFS
	share int // of what was not synced that survives, in percent
	op    string
}

// camera takes a crash of the disk before operations that change it.
type camera struct {
	mu      sync.Mutex
	disk    *vfs.MemFS
	rng     *rand.Rand
	armed   bool
	crashes []crash
}

// MaybeError implements errorfs.Injector. It never injects an error.
func (c *camera) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpCreate, errorfs.OpLink, errorfs.OpRemove, errorfs.OpRename, errorfs.OpReuseForWrite, errorfs.OpMkdirAll,
		errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
	default:
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.armed {
		return nil
	}
	share := []int{0, 50, 100}[len(c.crashes)%3]
	clone := c.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: share, RNG: c.rng})
	c.crashes = append(c.crashes, crash{fs: clone, share: share, op: fmt.Sprint(op.Kind, " ", op.Path)})
	return nil
}

// String implements errorfs.Injector.
func (c *camera) String() string { return "camera" }

func (c *camera) arm(armed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = armed
}

func TestPowerLossAtEveryWriteOfEveryDeedLeavesTheItemWhole(t *testing.T) {
	r := seeded(t)
	points, states := 0, map[string]bool{}
	for _, d := range deeds() {
		crashes, before, now := photograph(t, d, r)
		for i, c := range crashes {
			points++
			if err := recoverFrom(c, d, before, now, i%2 == 1, states); err != nil {
				t.Errorf("%s: crash %d of %d, %d %% unsynced, before %s: %v", d.name, i, len(crashes), c.share, c.op, err)
			}
		}
	}
	storetest.Proof(t, "restore, power loss", "crash points", points)
	storetest.Proof(t, "restore, power loss", "distinct states recovered", len(states))
	if points < 300 || len(states) < 30 {
		t.Error("too little was tried")
	}
}

// photograph does a deed and takes crashes of its disk.
func photograph(t *testing.T, d deed, r *rand.Rand) ([]crash, mayfly.Item, mayfly.Instant) {
	t.Helper()
	disk := vfs.NewCrashableMem()
	cam := &camera{disk: disk, rng: r}
	h, err := openHouse(errorfs.Wrap(disk, cam), genesis)
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
	cam.arm(true)
	err = d.do(h, support, before)
	cam.arm(false)
	if err := errors.Join(err, h.close()); err != nil {
		t.Fatal(err)
	}
	return cam.crashes, before, h.now
}

// recoverFrom opens the disk of a crash and lives on; support may try again.
func recoverFrom(c crash, d deed, before mayfly.Item, now mayfly.Instant, again bool, states map[string]bool) error {
	h, err := openHouse(c.fs, now.Add(10*time.Second)) // leases have run out
	if err != nil {
		return err
	}
	h.random = firstShard{}
	return errors.Join(h.recovered(d, before, again, states), h.close())
}

func (h *house) recovered(d deed, before mayfly.Item, again bool, states map[string]bool) error {
	picture, err := h.picture(before.ID)
	if err := errors.Join(err, h.whole(before)); err != nil {
		return fmt.Errorf("at first: %w", err)
	}
	states[d.name+picture] = true
	if again {
		support, err := h.restorer()
		if err != nil {
			return err
		}
		if err := d.do(h, support, before); err != nil && !errors.Is(err, mayfly.Conflict) { // it serves already
			return fmt.Errorf("tried again: %w", err)
		}
		if err := h.whole(before); err != nil {
			return fmt.Errorf("tried again: %w", err)
		}
	}
	if err := h.live(before.ID, 5*time.Hour, 10*time.Minute); err != nil {
		return err
	}
	return h.settled(before, never)
}
