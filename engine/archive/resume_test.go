package archive_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/store"
)

// copies records which media are copied to cold, and fails what fail names.
func (h *env) copies(fail func(n int) error) *[]int {
	var copied []int
	h.Hooks.Hot.CopyTo = func(_ context.Context, from, _ mayfly.BlobKey, do func() (store.Object, error)) (store.Object, error) {
		n := int(from[len(from)-1] - '0')
		if err := fail(n); err != nil {
			return store.Object{}, err
		}
		copied = append(copied, n)
		return do()
	}
	return &copied
}

// failThird archives an item of five media by a try that fails at the third one.
func (h *env) failThird(a *archive.Archive) (item mayfly.Item, copied *[]int) {
	h.Helper()
	item = h.expire(h.Story(5))[0]
	broken := true
	copied = h.copies(func(n int) error {
		if n == 2 && broken {
			broken = false
			return mayfly.Errorf(mayfly.Unavailable, "slow down")
		}
		return nil
	})
	failures, err := a.Act(context.Background(), h.batch(7, item))
	if err != nil || len(failures) != 1 || !slices.Equal(*copied, []int{0, 1}) {
		h.Fatalf("copied %v: %v, %v", *copied, failures, err)
	}
	*copied = nil
	return h.Row(item.ID), copied
}

func TestARetryCopiesOnlyWhatIsNotThere(t *testing.T) {
	h := open(t)
	a := h.newArchive()
	item, copied := h.failThird(a)
	h.WantActed(a.Act(context.Background(), h.batch(8, item)))
	if !slices.Equal(*copied, []int{2, 3, 4}) {
		t.Errorf("the retry copied %v, want the third medium and those behind it", *copied)
	}
	h.readable(hydrate.Cold, item)
	h.WantNamed(item)
}

// A tier that is away fails the batch and no item: what was copied before stays.
func TestABatchThatATierFailedGoesOnWhereItWas(t *testing.T) {
	h := open(t)
	h.o.Workers = 1
	a := h.newArchive()
	items := h.expire(h.Story(2), h.Story(2))
	away := true
	copied := h.copies(func(n int) error {
		if n == 1 && away {
			return mayfly.Errorf(mayfly.Unavailable, "away")
		}
		return nil
	})
	if failures, err := a.Act(context.Background(), h.batch(7, items...)); err == nil || len(failures) > 0 || !slices.Equal(*copied, []int{0, 0}) {
		t.Fatalf("copied %v: %v, %v", *copied, failures, err)
	}
	away, *copied = false, nil
	h.WantActed(a.Act(context.Background(), h.batch(7, h.rows(items)...)))
	if !slices.Equal(*copied, []int{1, 1}) {
		t.Errorf("the second try copied %v", *copied)
	}
	h.readable(hydrate.Cold, items...)
	h.WantNamed(items...)
}

func TestACopyOfAnEarlierTryIsVerifiedBeforeItIsUsed(t *testing.T) {
	for name, spoil := range map[string]func(h *env, key mayfly.BlobKey) error{
		"other bytes": func(h *env, key mayfly.BlobKey) error {
			_, err := h.Real.Cold.Put(context.Background(), key, strings.NewReader(strings.Repeat("x", 900)))
			return err
		},
		"no bytes": func(h *env, key mayfly.BlobKey) error { return h.Real.Cold.Delete(context.Background(), key) },
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			a := h.newArchive()
			item, copied := h.failThird(a)
			h.Must(spoil(h, item.MediaKey(item.Generation, 1)))
			h.WantActed(a.Act(context.Background(), h.batch(8, item)))
			if !slices.Equal(*copied, []int{1, 2, 3, 4}) {
				t.Errorf("the retry copied %v", *copied)
			}
			h.readable(hydrate.Cold, item)
		})
	}
}

// The keys of a claim belong to the process that made it: it may still delete them.
func TestAnotherProcessDoesNotUseTheCopiesOfAClaim(t *testing.T) {
	h := open(t)
	first := h.newArchive()
	item, copied := h.failThird(first)
	h.WantActed(h.newArchive().Act(context.Background(), h.batch(8, item)))
	if row := h.Row(item.ID); len(*copied) != 5 || row.Keys.Cold == item.Generation {
		t.Errorf("copied %v, the row names generation %d of the claim %d", *copied, row.Keys.Cold, item.Generation)
	}
	h.WantActed(first.Act(context.Background(), h.batch(9, item))) // as it knew the row
	h.readable(hydrate.Cold, item)
	h.WantNamed(item)
}

func TestTwoTriesDoNotShareAClaim(t *testing.T) {
	h := open(t)
	a := h.newArchive()
	item, _ := h.failThird(a)
	second := false
	h.Hooks.Hot.CopyTo = func(_ context.Context, _, _ mayfly.BlobKey, do func() (store.Object, error)) (store.Object, error) {
		if !second { // while the first try copies, with the same claim in its hands
			second = true
			h.WantActed(a.Act(context.Background(), h.batch(9, item)))
		}
		return do()
	}
	_, err := a.Act(context.Background(), h.batch(8, item))
	if row := h.Row(item.ID); err != nil || !second || row.State != mayfly.Cold || row.Keys.Cold == item.Generation {
		t.Errorf("%+v, %v", row, err)
	}
	h.readable(hydrate.Cold, item)
	h.WantNamed(item)
}
