package diskstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// journal is what has been acknowledged, and what is under way: the hash that a
// key may have instead, the zero hash for none.
type journal struct {
	mu    sync.Mutex
	acked state
	under map[mayfly.BlobKey][32]byte
}

func (j *journal) begin(keys []mayfly.BlobKey, to [32]byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, key := range keys {
		j.under[key] = to
	}
}

func (j *journal) end(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		return // the outcome is not known: still under way
	}
	for key, to := range j.under {
		if to == [32]byte{} {
			delete(j.acked, key)
		} else {
			j.acked[key] = to
		}
	}
	clear(j.under)
}

// check says what is wrong with what a tier holds after a crash or a fault.
func (j *journal) check(found state) error {
	for key, want := range j.acked {
		if got := found[key]; got != want {
			if to, moving := j.under[key]; !moving || got != to {
				return fmt.Errorf("LOST: %s was acknowledged and is not there", key)
			}
		}
	}
	for key, got := range found {
		if want, known := j.acked[key]; known && got == want {
			continue
		}
		if to, moving := j.under[key]; !moving || got != to {
			return fmt.Errorf("RESURRECTED: %s is there and was never acknowledged, or was deleted", key)
		}
	}
	return nil
}

// live puts, replaces and deletes objects of all sizes, until something fails.
func (j *journal) live(ctx context.Context, s *Store, rng *rand.Rand, steps int) error {
	sizes := []int{0, 100, testInline, testInline + 1, 3 * testInline, framePayload + 1}
	for step := range steps {
		keys := []mayfly.BlobKey{testKey(rng.IntN(12))}
		var err error
		if step%4 == 3 {
			keys = append(keys, testKey(rng.IntN(12)), testKey(rng.IntN(12)))
			j.begin(keys, [32]byte{})
			err = s.Delete(ctx, keys...)
		} else {
			data := noise(rng, 1+sizes[rng.IntN(len(sizes))])
			j.begin(keys, sha256.Sum256(data))
			_, err = s.Put(ctx, keys[0], bytes.NewReader(data))
		}
		if j.end(err); err != nil {
			return err
		}
	}
	return nil
}

// crash is the disk as it might be after the power failed, and what was
// promised until then.
type crash struct {
	disk    *vfs.MemFS
	journal *journal
	percent int
}

// check opens the tier after the crash and checks what is there.
func (c crash) check(t *testing.T, at string) {
	t.Helper()
	s, err := Open(testOptions(c.disk))
	if err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	defer mustClose(t, s)
	found, err := contents(t.Context(), s)
	if err == nil {
		err = c.journal.check(found)
	}
	if err != nil {
		t.Errorf("%s, %d %% of unsynced data kept: %v", at, c.percent, err)
	}
	wantClean(t, s)
	mustPut(t, s, "after/the/crash", []byte("life goes on"))
}

// TestEveryCrashKeepsWhatWasAcknowledgedAndNothingElse cuts the power before
// every write of a life of puts and deletes.
func TestEveryCrashKeepsWhatWasAcknowledgedAndNothingElse(t *testing.T) {
	const seed, steps = 7, 60
	t.Logf("seed %d", seed)
	points, states := 0, map[string]bool{}
	for _, percent := range []int{0, 30, 70, 100} {
		rng := rand.New(rand.NewPCG(seed, uint64(percent)))
		mem := vfs.NewCrashableMem()
		j := &journal{acked: state{}, under: map[mayfly.BlobKey][32]byte{}}
		var crashes []crash
		tap := errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsRead {
				return nil
			}
			j.mu.Lock()
			defer j.mu.Unlock()
			crashes = append(crashes, crash{
				disk:    mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}),
				journal: &journal{acked: maps.Clone(j.acked), under: maps.Clone(j.under)},
				percent: percent,
			})
			states[fmt.Sprint(j.acked, j.under)] = true
			return nil
		})
		s := mustOpen(t, testOptions(errorfs.Wrap(mem, tap)))
		living := rand.New(rand.NewPCG(seed, 0))
		for range 2 { // opening again is a life too
			if err := j.live(t.Context(), s, living, steps/2); err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
			s = mustOpen(t, testOptions(errorfs.Wrap(mem, tap)))
		}
		mustClose(t, s)
		for i, c := range crashes {
			c.check(t, fmt.Sprintf("crash %d of %d", i, len(crashes)))
		}
		points += len(crashes)
	}
	storetest.Proof(t, "media power loss", "crash points", points)
	storetest.Proof(t, "media power loss", "distinct states", len(states))
	if points < 1500 || len(states) < 55 {
		t.Errorf("%d crash points and %d states are too few to prove anything", points, len(states))
	}
}
