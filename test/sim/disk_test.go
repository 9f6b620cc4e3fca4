package sim

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/pace"
)

// cramped is a disk that says how much room it has.
type cramped struct {
	vfs.FS
	free *atomic.Uint64
}

// GetDiskUsage implements vfs.FS.
func (c cramped) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: c.free.Load(), TotalBytes: 1 << 40}, nil
}

func TestDiskAtItsFloorRefusesBirthsAndLetsEverythingElseGoOn(t *testing.T) {
	const floor = 1 << 20
	n, b := seed(t), newRecord()
	free := &atomic.Uint64{}
	free.Store(10 * floor)
	h := mustOpen(t, plan{fs: cramped{vfs.NewMem(), free}, random: randomBits(n), floor: floor, wrap: b.witnessed}, genesis)
	s := newScenario(h, b, seeded(n), genesis)
	for range 40 {
		if err := s.step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	free.Store(floor - 1)
	before, inv, err := inspect(t.Context(), h, b, s.at(), false)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for range 20 {
		w := s.newWish()
		_, err := b.publish(t.Context(), h.uploads, h.intake, w, s.at())
		var e *mayfly.Error
		if !errors.Is(err, mayfly.Full) || !errors.As(err, &e) || e.Hint == "" {
			t.Errorf("a birth on a full disk answers %v, want Full with a hint", err)
		}
		refused++
	}
	s.advance(80 * time.Second) // expiry goes on
	if err := h.pass(t.Context(), s.at()); err != nil {
		t.Fatal(err)
	}
	during, full, err := inspect(t.Context(), h, b, s.at(), true)
	if err != nil {
		t.Fatal(err)
	}
	if len(full.rows) != len(inv.rows) || len(full.objects) != len(inv.objects) {
		t.Errorf("%d rows and %d objects became %d and %d on a full disk", len(inv.rows), len(inv.objects), len(full.rows), len(full.objects))
	}
	free.Store(floor) // room again: what was refused is retried
	after := newTally()
	if err := s.finish(t.Context(), b.known()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.publish(t.Context(), h.uploads, h.intake, s.newWish(), s.at()); err != nil {
		t.Errorf("with room again: %v", err)
	}
	found, _, err := inspect(t.Context(), h, b, s.at(), true)
	if err != nil {
		t.Fatal(err)
	}
	after.merge(before, "before")
	after.merge(during, "full")
	after.merge(found, "after")
	storetest.Proof(t, "disk", "births refused at the floor", refused)
	after.zero(t, "disk at its floor")
}

// ruin breaks the disk under an engine in one way, and says what must hold: from
// then on nothing is acknowledged, and after a restart nothing that was is lost.
type ruin struct {
	name  string
	match func(kind, path string) bool
	err   error
	once  bool // the disk works again after one error, and is not to be believed
}

func TestBrokenDiskStopsAcknowledgementsAndLosesNone(t *testing.T) {
	every := []int{1, 2, 7, 23}
	if pace.Long() {
		every = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 50, 100, 200}
	}
	n, cases, total := seed(t), 0, newTally()
	for i, r := range ruins() {
		for _, k := range every {
			found, err := r.befall(t, n+uint64(1000*i+k), k)
			if errors.Is(err, errNotReached) {
				continue
			}
			cases++
			where := fmt.Sprintf("%s, number %d", r.name, k)
			if err != nil {
				t.Errorf("%s: %v", where, err)
				continue
			}
			total.merge(found, where)
		}
	}
	storetest.Proof(t, "disk", "failures of the disk survived", cases)
	total.zero(t, "broken disk")
	if cases < 2*len(ruins()) {
		t.Errorf("%d failures are too few", cases)
	}
}
