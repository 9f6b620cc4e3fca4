package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/pace"
)

// powerShards is enough to have some that wait while others are walked.
const powerShards = 4

// crash is the disk as a power loss at one moment leaves it.
type crash = storetest.Crash[moment]

// moment is what is known when a crash is taken.
type moment struct {
	page  int // of the record: what had been acknowledged
	known int // how many wishes there were
	now   mayfly.Instant
}

func TestNothingAcknowledgedIsLostDoubledOrResurrectedByPowerLoss(t *testing.T) {
	pace.Heavy(t, "a thousand crashes")
	lives, every := 1, 2
	if pace.Long() {
		lives, every = 50, 1
	}
	n, points, acks := seed(t), 0, 0
	states, total := map[[32]byte]bool{}, newTally()
	for life := range lives {
		crashes, b := photograph(t, n+uint64(life), 80, every)
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
func recoverAll(t *testing.T, crashes []crash, b *record, n uint64, total *tally, states map[[32]byte]bool) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan int)
	for range 2 {
		wg.Go(func() {
			for i := range next {
				found, digest, err := recoverFrom(t.Context(), crashes[i], b, n+uint64(i))
				where := fmt.Sprintf("crash %d of %d, %s", i, len(crashes), crashes[i])
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
func photograph(t *testing.T, n uint64, steps, every int) ([]crash, *record) {
	t.Helper()
	rng, b := seeded(n), newRecord()
	b.shards = powerShards
	cam := &storetest.Crashes[moment]{Disk: vfs.NewCrashableMem(), RNG: seeded(n + 1), Every: every}
	h := mustOpen(t, plan{fs: cam.FS(), random: fewShards{randomBits(n), powerShards}, shards: powerShards, wrap: b.witnessed}, genesis)
	s := newScenario(h, b, rng, genesis)
	cam.On(func() moment { return moment{page: b.page(), known: b.known(), now: s.at()} })
	for range steps {
		if err := s.step(t.Context()); err != nil && !errors.Is(err, mayfly.Gone) {
			t.Fatal(err)
		}
	}
	s.advance(80 * time.Second)
	if err := errors.Join(h.pass(t.Context(), s.at()), h.pass(t.Context(), s.at()+20_000)); err != nil {
		t.Fatal(err)
	}
	crashes, _ := cam.Off()
	return crashes, b
}

// recoverFrom opens the disk of a crash, audits it, lives on and audits again.
func recoverFrom(ctx context.Context, c crash, whole *record, n uint64) (*tally, [32]byte, error) {
	b := whole.upTo(c.Known.page)
	now := c.Known.now.Add(time.Second)
	h, err := openEngine(ctx, plan{fs: c.FS, random: fewShards{randomBits(n), byte(b.shards)}, shards: b.shards, wrap: b.witnessed, holder: "after"}, now)
	if err != nil {
		return nil, [32]byte{}, err
	}
	found, inv, err := inspect(ctx, h, b, now, false)
	if err != nil {
		return nil, [32]byte{}, errors.Join(fmt.Errorf("first audit: %w", err), h.close())
	}
	digest := inv.digest()
	s := newScenario(h, b, seeded(n), now)
	if err := s.finish(ctx, c.Known.known); errors.Is(err, errWrong) {
		found.Add(verify.Double, "%v", err)
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
