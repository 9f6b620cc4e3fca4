package sim

import (
	"context"
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

// shares of unsynced data that survive a power loss, in percent.
func shares() []int { return []int{0, 25, 50, 75, 100} }

// powerShards is enough to have some that wait while others are walked.
const powerShards = 4

// crash is the disk as a power loss at one moment leaves it.
type crash struct {
	fs    *vfs.MemFS
	share int
	op    string
	page  int // of the book: what had been acknowledged
	known int // how many wishes there were
	now   mayfly.Instant
}

// camera takes a crash of the disk before every operation that changes it.
type camera struct {
	mu      sync.Mutex
	disk    *vfs.MemFS
	rng     *rand.Rand
	book    *book
	now     func() mayfly.Instant
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
	if c.now == nil {
		return nil
	}
	share := shares()[len(c.crashes)%len(shares())]
	page, known, now := c.book.page(), c.book.known(), c.now() // before the clone: what was acknowledged by now is on the disk by now
	clone := c.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: share, RNG: c.rng})
	c.crashes = append(c.crashes, crash{fs: clone, share: share, op: fmt.Sprint(op.Kind, " ", op.Path), page: page, known: known, now: now})
	return nil
}

// String implements errorfs.Injector.
func (c *camera) String() string { return "camera" }

func TestNothingAcknowledgedIsLostDoubledOrResurrectedByPowerLoss(t *testing.T) {
	lives := 1
	if long() {
		lives = 50
	}
	n, points, acks := seed(t), 0, 0
	states, total := map[[32]byte]bool{}, newTally()
	for life := range lives {
		crashes, b := photograph(t, n+uint64(life), 80)
		points, acks = points+len(crashes), acks+len(b.acks)
		recoverAll(t, crashes, b, n, total, states)
	}
	storetest.Proof(t, "power loss", "crash points", points)
	storetest.Proof(t, "power loss", "distinct states recovered", len(states))
	storetest.Proof(t, "power loss", "acknowledgements held against", acks)
	storetest.Proof(t, "power loss", "rows audited", total.checked)
	total.zero(t, "power loss")
	if len(states) < 200 {
		t.Errorf("%d distinct states are too few to prove anything", len(states))
	}
}

// recoverAll recovers from every crash, on both cores.
func recoverAll(t *testing.T, crashes []crash, b *book, n uint64, total *tally, states map[[32]byte]bool) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan int)
	for range 2 {
		wg.Go(func() {
			for i := range next {
				found, digest, err := recoverFrom(t.Context(), crashes[i], b, n+uint64(i))
				where := fmt.Sprintf("crash %d of %d, %d %% unsynced, before %s", i, len(crashes), crashes[i].share, crashes[i].op)
				mu.Lock()
				if err != nil {
					t.Errorf("%s: %v", where, err)
				} else {
					total.merge(found, where)
					states[digest] = true
				}
				mu.Unlock()
			}
		})
	}
	for i := range crashes {
		next <- i
	}
	close(next)
	wg.Wait()
}

// photograph lives through a scenario and takes crashes of its disk.
func photograph(t *testing.T, n uint64, steps int) ([]crash, *book) {
	t.Helper()
	rng, b := seeded(n), newBook()
	b.shards = powerShards
	disk := vfs.NewCrashableMem()
	cam := &camera{disk: disk, rng: seeded(n + 1), book: b}
	h := mustOpen(t, plan{fs: errorfs.Wrap(disk, cam), random: fewShards{randomBits(n), powerShards}, shards: powerShards, wrap: b.witnessed}, genesis)
	s := newScenario(h, b, rng, genesis)
	cam.mu.Lock()
	cam.now = s.at
	cam.mu.Unlock()
	for range steps {
		if err := s.step(t.Context()); err != nil && !errors.Is(err, mayfly.Gone) {
			t.Fatal(err)
		}
	}
	s.advance(80 * time.Second)
	if err := errors.Join(h.pass(t.Context(), s.at()), h.pass(t.Context(), s.at()+20_000)); err != nil {
		t.Fatal(err)
	}
	cam.mu.Lock()
	defer cam.mu.Unlock()
	cam.now = nil
	return cam.crashes, b
}

// recoverFrom opens the disk of a crash, audits it, lives on and audits again.
func recoverFrom(ctx context.Context, c crash, whole *book, n uint64) (*tally, [32]byte, error) {
	b := whole.upTo(c.page)
	now := c.now.Add(time.Second)
	h, err := openHouse(ctx, plan{fs: c.fs, random: fewShards{randomBits(n), byte(b.shards)}, shards: b.shards, wrap: b.witnessed, holder: "after"}, now)
	if err != nil {
		return nil, [32]byte{}, err
	}
	found, inv, err := inspect(ctx, h, b, now, false)
	if err != nil {
		return nil, [32]byte{}, errors.Join(fmt.Errorf("first audit: %w", err), h.close())
	}
	digest := inv.digest()
	s := newScenario(h, b, seeded(n), now)
	if err := s.finish(ctx, c.known); errors.Is(err, errWrong) {
		found.add(DOUBLE, "%v", err)
	} else if err != nil {
		return nil, digest, errors.Join(fmt.Errorf("live on: %w", err), h.close())
	}
	after, _, err := inspect(ctx, h, b, s.at(), true)
	if err != nil {
		return nil, digest, errors.Join(fmt.Errorf("second audit: %w", err), h.close())
	}
	found.merge(after, "after living on")
	return found, digest, h.close()
}
