package restore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
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
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/pace"
)

// race runs all operations on an item. Before an operation changes the row or the
// objects, it may be paused while another one runs, which may be paused too: this
// gives all nested interleavings.
type race struct {
	*env
	rng   *rand.Rand
	item  mayfly.Item
	depth int
	met   map[string]int // pauses by the step that was paused
	trace []string
	steps int

	support *restore.Restore
	sweep   *sweep.Sweep
	archive *archive.Archive
	retire  *archive.Retire
	eraser  *erase.Erase
}

const maxDepth = 3

func newRace(h *env, rng *rand.Rand) *race {
	h.Helper()
	c := &race{env: h, rng: rng, met: map[string]int{}}
	h.Hooks.Transition = fixture.BeforeTransition(func() { c.pause("a transition") })
	remove := func(_ context.Context, _ []mayfly.BlobKey, do func() error) error {
		c.pause("a delete of objects")
		return do()
	}
	duplicate := func(_ context.Context, _, _ mayfly.BlobKey, do func() (store.Object, error)) (store.Object, error) {
		c.pause("a copy")
		return do()
	}
	h.Hooks.Hot.Delete, h.Hooks.Cold.Delete, h.Hooks.Hot.CopyTo, h.Hooks.Cold.CopyTo = remove, remove, duplicate, duplicate
	c.support = h.restorer(h.Set, "race")
	var err error
	c.sweep, err = sweep.New(h.Set, sweep.Options{Window: window})
	h.Must(err)
	c.eraser, err = erase.New(h.Set, erase.Options{})
	h.Must(err)
	c.archive, err = archive.New(h.Set, archive.Options{Window: window, Workers: 1, Erase: c.eraser.Act})
	h.Must(err)
	c.retire, err = archive.NewRetire(h.Set, archive.RetireOptions{After: window + time.Minute, Window: window, Erase: c.eraser.Act})
	h.Must(err)
	return c
}

// one runs one random operation and checks the item.
func (c *race) one() {
	ctx, id := context.Background(), c.item.ID
	row := c.Row(id)
	batch := walk.Batch{Items: []mayfly.Item{row}, Now: c.Now, Repeat: true}
	act := func(do walk.Act) error { _, err := do(ctx, batch); return err }
	names := []string{"restore", "restore", "hold", "release", "release", "expire", "clean", "archive", "archive", "erase", "retire", "delete"}
	name := names[c.rng.IntN(len(names)-min(2, c.rng.IntN(8)))] // less often a retirement or a delete, which ends the life of the item
	c.trace = append(c.trace, fmt.Sprintf("%*s%s at %s %d", 2*c.depth, "", name, row.State, row.Generation))
	var err error
	switch name {
	case "restore":
		_, err = c.support.Item(ctx, c.request(id), c.Now)
	case "hold":
		err = c.support.Hold(ctx, id, audit.Actor{Subject: "ben"}, "case", c.Now)
	case "release":
		err = c.support.Release(ctx, id, audit.Actor{Subject: "ben"}, "closed", c.Now)
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
		_, err = c.eraser.Delete(ctx, id, mayfly.ByUser, c.Now)
	}
	if err != nil && !errors.Is(err, mayfly.Conflict) && !errors.Is(err, mayfly.Gone) && !errors.Is(err, mayfly.Unavailable) {
		c.Fatalf("%s: %v", name, err)
	}
	if row.State == mayfly.Deleted && c.Row(id).State != mayfly.Deleted {
		c.Fatalf("RESURRECTED by %s", name)
	}
	c.wantIntact(c.Row(id))
}

// pause may run another operation before the step at.
func (c *race) pause(at string) {
	if c.depth >= maxDepth || c.rng.IntN(3) > 0 || c.Failed() {
		return
	}
	c.depth++
	c.trace = append(c.trace, fmt.Sprintf("%*spaused before %s:", 2*c.depth, "", at))
	c.met[at]++
	c.one()
	c.depth--
}

// lives runs random operations on n items, then only their reminders, and calls end
// with the row of each. They live at the same time, because walking through the empty
// minutes of a life takes longer than all of its operations.
func (c *race) lives(n int, end func(mayfly.Item)) {
	c.Helper()
	c.Now = c.Now.Add(time.Hour)
	at, items, traces := stage(c.rng.IntN(int(stages))), make([]mayfly.Item, n), make([][]string, n)
	for i := range items {
		items[i] = c.Story(1)
	}
	for i, item := range items {
		items[i] = c.bring(item, at)
	}
	c.depth = 0
	each := func(do func()) {
		for i, item := range items {
			c.item, c.trace = item, traces[i]
			do()
			traces[i] = c.trace
		}
	}
	live := func(d, step time.Duration) {
		c.item, c.trace = items[0], nil
		c.live(items[0].ID, d, step)
	}
	for range 2 + c.rng.IntN(4) {
		each(func() {
			if c.one(); c.Failed() { // perhaps in a goroutine of the archive
				c.FailNow()
			}
		})
		live(time.Duration(1+c.rng.IntN(20))*time.Minute, 5*time.Minute)
		each(func() { c.wantIntact(c.item) })
	}
	each(func() {
		if err := c.support.Release(context.Background(), c.item.ID, audit.Actor{Subject: "ben"}, "the end", c.Now); err != nil && !errors.Is(err, mayfly.Conflict) {
			c.Fatal(err)
		}
	})
	c.depth = maxDepth
	live(4*time.Hour, 10*time.Minute)
	each(func() {
		c.wantSettled(c.item, never)
		c.steps += len(c.trace)
		end(c.Row(c.item.ID))
	})
}

func TestRacingOperationsLoseNoItem(t *testing.T) {
	pace.Heavy(t, "thousands of lives")
	rng, lives, states, retired := fixture.Seeded(t), 4_000, map[string]int{}, 0
	if pace.Long() {
		lives = 100_000
	}
	const together = 20
	withEnv(t, func(h *env, where *string) {
		c := newRace(h, rng)
		h.TB = fixture.Located{TB: t, Where: func() string { return fmt.Sprintf("%s:\n%s\n", *where, strings.Join(c.trace, "\n")) }}
		for n := range lives / together {
			*where = fmt.Sprintf("lives from %d on", n*together)
			c.lives(together, func(row mayfly.Item) {
				states[fmt.Sprint(row.State, row.Generation, row.Keys)]++
				if row.Cause == mayfly.ByRetention {
					retired++
				}
			})
		}
		storetest.Proof(t, "restore, races", "lives", lives)
		storetest.Proof(t, "restore, races", "steps", c.steps)
		storetest.Proof(t, "restore, races", "held up before", c.met)
		storetest.Proof(t, "restore, races", "distinct ends", len(states))
		storetest.Proof(t, "restore, races", "ends by retirement", retired)
		if len(states) < 50 || len(c.met) != 3 || retired < lives/200 {
			t.Errorf("too little was tried: %v", c.met)
		}
	})
}
