package restore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/pace"
)

// race runs all operations on an item. Before an operation changes the row or the
// objects, it may be paused while another one runs, which may be paused too: this
// gives all nested interleavings.
type race struct {
	*fixture
	rng   *rand.Rand
	item  mayfly.Item
	depth int
	met   map[string]int // pauses by the step that was paused
	trace []string
	bad   error

	support *restore.Restore
	sweep   *sweep.Sweep
	archive *archive.Archive
	retire  *archive.Retire
	eraser  *erase.Erase
}

const maxDepth = 3

func newRace(h *fixture, rng *rand.Rand) (*race, error) {
	c := &race{fixture: h, rng: rng, met: map[string]int{}}
	set := h.real
	set.Ledger, set.Hot, set.Cold = pausingLedger{set.Ledger, c}, pausingBlobs{set.Hot, c}, pausingBlobs{set.Cold, c}
	log, err := audit.Open(context.Background(), h.real.Rows, "crowd", h.now)
	if err != nil {
		return nil, err
	}
	if c.sweep, err = sweep.New(set, sweep.Options{Window: window}); err != nil {
		return nil, err
	}
	if c.support, err = restore.New(set, log, h.options); err != nil {
		return nil, err
	}
	if c.eraser, err = erase.New(set, erase.Options{}); err != nil {
		return nil, err
	}
	if c.archive, err = archive.New(set, archive.Options{Window: window, Workers: 1, Erase: c.eraser.Act}); err != nil {
		return nil, err
	}
	c.retire, err = archive.NewRetire(set, archive.RetireOptions{After: window + time.Minute, Window: window, Erase: c.eraser.Act})
	return c, err
}

// one runs one random operation and checks the item.
func (c *race) one() {
	ctx, id := context.Background(), c.item.ID
	row, err := c.row(id)
	if err != nil {
		c.bad = errors.Join(c.bad, err)
		return
	}
	batch := walk.Batch{Items: []mayfly.Item{row}, Now: c.now, Repeat: true}
	act := func(do walk.Act) error { _, err := do(ctx, batch); return err }
	names := []string{"restore", "restore", "hold", "release", "release", "expire", "clean", "archive", "archive", "erase", "retire", "delete"}
	name := names[c.rng.IntN(len(names)-min(2, c.rng.IntN(8)))] // less often a retirement or a delete, which ends the life of the item
	c.trace = append(c.trace, fmt.Sprintf("%*s%s at %s %d", 2*c.depth, "", name, row.State, row.Generation))
	switch name {
	case "restore":
		_, err = c.support.Item(ctx, c.request(id), c.now)
	case "hold":
		err = c.support.Hold(ctx, id, "ben", "case", c.now)
	case "release":
		err = c.support.Release(ctx, id, "ben", "closed", c.now)
	case "expire":
		err = act(c.sweep.Expire)
	case "clean":
		err = act(c.support.Clean)
	case "archive":
		err = act(c.archive.Act)
	case "erase":
		err = act(c.eraser.Act)
	case "retire":
		err = act(c.retire.Act)
	case "delete":
		_, err = c.eraser.Delete(ctx, id, mayfly.ByUser, c.now)
	}
	if err != nil && !errors.Is(err, mayfly.Conflict) && !errors.Is(err, mayfly.Gone) && !errors.Is(err, mayfly.Unavailable) {
		c.bad = errors.Join(c.bad, fmt.Errorf("%s: %w", name, err))
	}
	after, err := c.row(id)
	if err == nil && row.State == mayfly.Deleted && after.State != mayfly.Deleted {
		err = fmt.Errorf("RESURRECTED by %s", name)
	}
	if err == nil {
		err = c.intact(after)
	}
	c.bad = errors.Join(c.bad, err)
}

// pause may run another operation before the step at.
func (c *race) pause(at string) {
	if c.depth >= maxDepth || c.rng.IntN(3) > 0 || c.bad != nil {
		return
	}
	c.depth++
	c.trace = append(c.trace, fmt.Sprintf("%*spaused before %s:", 2*c.depth, "", at))
	c.met[at]++
	c.one()
	c.depth--
}

type pausingLedger struct {
	store.Ledger
	c *race
}

func (l pausingLedger) Transition(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
	l.c.pause("a transition")
	return l.Ledger.Transition(ctx, changes)
}

type pausingBlobs struct {
	store.Blobs
	c *race
}

func (b pausingBlobs) CopyTo(ctx context.Context, to store.Blobs, from, as mayfly.BlobKey) (store.Object, error) {
	b.c.pause("a copy")
	if other, ok := to.(pausingBlobs); ok {
		to = other.Blobs
	}
	return b.Blobs.CopyTo(ctx, to, from, as)
}

func (b pausingBlobs) Delete(ctx context.Context, keys ...mayfly.BlobKey) error {
	b.c.pause("a delete of objects")
	return b.Blobs.Delete(ctx, keys...)
}

// life runs random operations on one item, then only its reminders.
func (c *race) life() error {
	c.now = c.now.Add(time.Hour)
	item, err := c.at(stage(c.rng.IntN(int(stages))), 1)
	if err != nil {
		return err
	}
	c.item, c.trace, c.depth = item, nil, 0
	for range 2 + c.rng.IntN(4) {
		c.one()
		if c.bad != nil {
			return c.bad
		}
		if err := c.live(item.ID, time.Duration(1+c.rng.IntN(20))*time.Minute, 5*time.Minute); err != nil {
			return err
		}
		if err := c.intact(c.item); err != nil {
			return err
		}
	}
	if err := c.support.Release(context.Background(), item.ID, "ben", "the end", c.now); err != nil && !errors.Is(err, mayfly.Conflict) {
		return err
	}
	c.depth = maxDepth
	if err := c.live(item.ID, 4*time.Hour, 10*time.Minute); err != nil {
		return err
	}
	return c.settled(item, never)
}

func TestRacingOperationsLoseNoItem(t *testing.T) {
	pace.Heavy(t, "thousands of lives")
	rng, lives, states, steps := seeded(t), 10_000, map[string]int{}, 0
	retired := 0
	if long() {
		lives = 100_000
	}
	withFixture(t, func(h *fixture) {
		c, err := newRace(h, rng)
		if err != nil {
			t.Fatal(err)
		}
		for n := range lives {
			err := c.life()
			steps += len(c.trace)
			if err != nil {
				t.Fatalf("life %d: %v\n%v", n, err, c.trace)
			}
			row, err := h.row(c.item.ID)
			if err != nil {
				t.Fatal(err)
			}
			states[fmt.Sprint(row.State, row.Generation, row.Keys)]++
			if row.Cause == mayfly.ByRetention {
				retired++
			}
		}
		storetest.Proof(t, "restore, races", "lives", lives)
		storetest.Proof(t, "restore, races", "steps", steps)
		storetest.Proof(t, "restore, races", "held up before", c.met)
		storetest.Proof(t, "restore, races", "distinct ends", len(states))
		storetest.Proof(t, "restore, races", "ends by retirement", retired)
		if len(states) < 50 || len(c.met) != 3 || retired < lives/200 {
			t.Errorf("too little was tried: %v", c.met)
		}
	})
}
