package diskstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/pace"
)

// journal is what has been acknowledged of each key, and what is under way or
// has failed: the hashes that it may have instead. The zero hash is no object.
type journal struct {
	mu    sync.Mutex
	acked state
	maybe map[mayfly.BlobKey][][32]byte
}

func newJournal() *journal {
	return &journal{acked: state{}, maybe: map[mayfly.BlobKey][][32]byte{}}
}

// clone is what the journal says now; the caller holds mu.
func (j *journal) clone() *journal {
	c := &journal{acked: maps.Clone(j.acked), maybe: maps.Clone(j.maybe)}
	for key, hashes := range c.maybe {
		c.maybe[key] = slices.Clone(hashes)
	}
	return c
}

func (j *journal) begin(keys []mayfly.BlobKey, to [32]byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, key := range keys {
		j.maybe[key] = append(j.maybe[key], to)
	}
}

func (j *journal) end(keys []mayfly.BlobKey, to [32]byte, err error) {
	if err != nil {
		return // not known
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, key := range keys {
		j.acked[key] = to
		delete(j.maybe, key)
	}
}

// check says what is wrong with what a tier holds after a crash or a fault.
func (j *journal) check(found state) error {
	for key, want := range j.acked {
		if got := found[key]; got != want && !slices.Contains(j.maybe[key], got) {
			return fmt.Errorf("LOST or RESURRECTED: %s holds %.4x, acknowledged was %.4x", key, got, want)
		}
	}
	for key, got := range found {
		if _, known := j.acked[key]; !known && !slices.Contains(j.maybe[key], got) {
			return fmt.Errorf("%s holds %.4x, which was never put there", key, got)
		}
	}
	return nil
}

// live lets three writers share volumes and syncs, each with keys of its own.
func (j *journal) live(ctx context.Context, s *Store, seed uint64, steps int) error {
	problems := make([]error, 3)
	var all sync.WaitGroup
	for w := range problems {
		all.Go(func() { problems[w] = j.write(ctx, s, w, rand.New(rand.NewPCG(seed, uint64(w))), steps) })
	}
	all.Wait()
	return errors.Join(problems...)
}

// write puts, replaces and deletes objects of all sizes. It answers with the
// first failure, after having tried everything.
func (j *journal) write(ctx context.Context, s *Store, w int, rng *rand.Rand, steps int) (first error) {
	key := func() mayfly.BlobKey { return testKey(100*w + rng.IntN(8)) }
	sizes := []int{0, 100, 900, 1700, testInline, testInline + 1, framePayload + 1}
	for step := range steps {
		keys, to := []mayfly.BlobKey{key()}, [32]byte{}
		if step%6 == 5 { // moves objects, changes none
			if err := s.Reclaim(ctx); err != nil && first == nil {
				first = err
			}
			continue
		}
		var err error
		if step%4 == 3 {
			keys = append(keys, key(), key())
			j.begin(keys, to)
			err = s.Delete(ctx, keys...)
		} else {
			data := noise(rng, sizes[rng.IntN(len(sizes))])
			to = sha256.Sum256(data)
			j.begin(keys, to)
			_, err = s.Put(ctx, keys[0], bytes.NewReader(data))
		}
		j.end(keys, to, err)
		if first == nil {
			first = err
		}
	}
	return first
}

// tinyVolumes is for lives: a volume holds few objects and is soon mostly waste.
func tinyVolumes(fs vfs.FS) Options {
	opts := testOptions(fs)
	opts.VolumeBytes = testInline + 200
	return opts
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
	s, err := Open(tinyVolumes(c.disk))
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
	if err := s.Reclaim(t.Context()); err != nil {
		t.Errorf("%s: reclaim: %v", at, err)
	}
	if left := unerased(t, s); len(left) > 0 {
		t.Errorf("%s: bytes of no object are left in %v", at, left)
	}
	mustPut(t, s, "after/the/crash", []byte("life goes on"))
}

// TestEveryCrashKeepsWhatWasAcknowledgedAndNothingElse cuts the power before
// every write of a life of puts and deletes.
func TestEveryCrashKeepsWhatWasAcknowledgedAndNothingElse(t *testing.T) {
	pace.Heavy(t, "thousands of crashes, one goroutine at a time")
	const seed, steps = 7, 12
	t.Logf("seed %d", seed)
	points, states := 0, map[string]bool{}
	for _, percent := range []int{0, 30, 70, 100} {
		rng := rand.New(rand.NewPCG(seed, uint64(percent)))
		mem := vfs.NewCrashableMem()
		j := newJournal()
		var crashes []crash
		tap := errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsRead {
				return nil
			}
			j.mu.Lock()
			defer j.mu.Unlock()
			crashes = append(crashes, crash{
				disk:    mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}),
				journal: j.clone(),
				percent: percent,
			})
			states[fmt.Sprint(j.acked, j.maybe)] = true
			return nil
		})
		s := mustOpen(t, tinyVolumes(errorfs.Wrap(mem, tap)))
		for life := range uint64(2) { // opening again is a life too
			if err := j.live(t.Context(), s, seed+life, steps); err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
			s = mustOpen(t, tinyVolumes(errorfs.Wrap(mem, tap)))
		}
		mustClose(t, s)
		for i, c := range crashes {
			if i%stride != 0 {
				continue
			}
			c.check(t, fmt.Sprintf("crash %d of %d", i, len(crashes)))
		}
		points += len(crashes) / stride
	}
	storetest.Proof(t, "media power loss", "crash points", points)
	storetest.Proof(t, "media power loss", "distinct states", len(states))
	if points < 1500/stride || len(states) < 150 {
		t.Errorf("%d crash points and %d states are too few to prove anything", points, len(states))
	}
}
