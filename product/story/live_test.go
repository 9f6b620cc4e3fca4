package story_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// The check of the live limit reads as many rows of an author with many live stories
// as of one with few. Beside other nodes it reads what was born since the last
// recount, a minute ago at most.
func TestPublishingCostsTheSameWithManyLiveStories(t *testing.T) {
	for name, alone := range map[string]bool{"alone": true, "beside other nodes": false} {
		t.Run(name, func(t *testing.T) {
			e := open(t, func(o *settings) { o.Alone = alone })
			read, recounts, pause := 0, 0, time.Millisecond
			if !alone {
				pause = 10 * time.Second
			}
			e.Hooks.Range = func(_ context.Context, table store.Table, do func() ([]store.Row, error)) ([]store.Row, error) {
				rows, err := do()
				if table == engine.Owners {
					read += len(rows)
				}
				return rows, err
			}
			for range 90 {
				read = 0
				e.pass(pause)
				e.publish(e.draft())
				if read > 26 { // twice those of the last two minutes
					recounts++
				}
			}
			if most := 90 * int(pause/time.Millisecond) / 60_000; recounts > most+1 {
				t.Errorf("%d of 90 births have read the whole owner index, want %d at most", recounts, most+1)
			}
		})
	}
}

// The limit holds with what is remembered of an author: after stories were born on
// another node, deleted here or there, held and released, and after they have ended.
func TestTheLiveLimitIsExactBesideAnotherNode(t *testing.T) {
	const limit = 5
	e := open(t, func(o *settings) { o.Live = limit })
	other, err := story.New(e.options)
	e.Must(err)
	var all []mayfly.ID
	pause := time.Second
	may := func(on *story.Stories, want bool) {
		t.Helper()
		s, err := on.Publish(t.Context(), e.draft(), e.clock)
		if want != (err == nil) || err != nil && !errors.Is(err, mayfly.Conflict) {
			t.Fatalf("published: %v, want %v", err, want)
		}
		if err == nil {
			all = append(all, s.Item.ID)
		}
		e.pass(pause)
	}
	may(e.stories, true)
	may(other, true)
	may(e.stories, true)
	may(other, true)
	may(other, true)
	may(e.stories, false)
	may(other, false)
	for i, on := range []*story.Stories{e.stories, other} { // deleted on the first node
		e.Must(e.stories.Delete(t.Context(), all[i], user("ana"), e.clock()))
		may(on, true)
		may(e.stories, false)
		may(other, false)
	}
	pause = 0
	e.at(all[2].Deadline())
	may(other, true)
	may(e.stories, false)
}

// The row of a birth that failed may still land: it counts then.
func TestABirthOfUnknownOutcomeCountsWhenItLands(t *testing.T) {
	e := open(t, func(o *settings) { o.Live, o.Alone = 2, true })
	e.publish(e.draft())
	var land func() error
	e.Hooks.Commit = func(_ context.Context, b *store.Batch, _ func() error) error {
		land = func() error { return e.Real.Writer.Commit(t.Context(), b) }
		return mayfly.Errorf(mayfly.Unknown, "no answer")
	}
	if _, err := e.stories.Publish(t.Context(), e.draft(), e.clock); err == nil {
		t.Fatal("published without a commit")
	}
	e.Hooks.Commit = nil
	if _, err := e.stories.Reserve(t.Context(), user("ana"), fixture.Expect(1), e.clock()); err != nil {
		t.Errorf("before it lands: %v", err)
	}
	e.Must(land())
	if _, err := e.stories.Reserve(t.Context(), user("ana"), fixture.Expect(1), e.clock()); !errors.Is(err, mayfly.Conflict) {
		t.Errorf("after it has landed: %v, want Conflict", err)
	}
}
