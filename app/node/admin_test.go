package node_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/pace"
)

// inPages reads a whole list in pages.
func inPages[T any](t *testing.T, limit int, page func(cursor string, limit int) ([]T, string, error)) (all []T) {
	t.Helper()
	for cursor, more := "", true; more; {
		some, next, err := page(cursor, limit)
		if err != nil {
			t.Fatal(err)
		}
		if len(some) > limit || next != "" && next == cursor {
			t.Fatalf("%d in a page of %d, and %q behind %q", len(some), limit, next, cursor)
		}
		all = append(all, some...)
		cursor, more = next, next != ""
	}
	return all
}

// sameInPages reads a list whole and in small pages, which must not differ.
func sameInPages[T any](t *testing.T, page func(cursor string, limit int) ([]T, string, error)) []T {
	t.Helper()
	whole := inPages(t, 10_000, page)
	for _, limit := range []int{1, 3} {
		if got := inPages(t, limit, page); !reflect.DeepEqual(got, whole) {
			t.Errorf("in pages of %d they are\n%+v\nand whole\n%+v", limit, got, whole)
		}
	}
	return whole
}

func TestRunsAreListedFromAnInstantOnInPages(t *testing.T) {
	pace.Heavy(t, "a node that lives for hours of virtual time")
	in(t, func(t *testing.T, set store.Set, m *machine) {
		n := start(t, set, node.Options{Source: m.source(), Cadence: time.Minute})
		defer stop(t, n)
		begun := n.Clock().Read().Now
		for range 3 {
			for range 6 {
				mustPublish(t, n, time.Minute)
			}
			time.Sleep(time.Hour)
		}
		now := n.Clock().Read().Now
		runs := func(from mayfly.Instant) []wire.Run {
			return sameInPages(t, func(cursor string, limit int) ([]wire.Run, string, error) {
				page, err := n.AdminOperations().Runs(t.Context(), from, cursor, limit, now)
				return page.Runs, page.Next, err
			})
		}
		all := runs(begun)
		numbers := map[string]bool{}
		for _, run := range all {
			if run.Walk == "sweep" {
				numbers[run.Run] = true
			}
		}
		if len(numbers) != 3 {
			t.Errorf("%d runs of the sweep in %+v", len(numbers), all)
		}
		later := runs(begun.Add(90 * time.Minute))
		if len(later) == 0 || len(later) >= len(all) {
			t.Errorf("%d of %d runs began later", len(later), len(all))
		}
		for _, run := range later {
			if run.Began < begun.Add(90*time.Minute) {
				t.Errorf("%+v began before", run)
			}
		}
		for _, cursor := range []string{"x", "1.2", "1.00000000000000zz.3", "1.0000000000000002.3.4", "01.0000000000000002.3"} {
			if _, err := n.AdminOperations().Runs(t.Context(), begun, cursor, 1, now); !errors.Is(err, mayfly.Invalid) {
				t.Errorf("%q: %v", cursor, err)
			}
		}
		done, err := n.AdminOperations().Restore(t.Context(), wire.RestoreRequest{Run: all[0].Run, DryRun: true}, audit.Actor{Subject: "ben"}, nil, now)
		if err != nil || done.Restored > 0 {
			t.Errorf("%+v %v", done, err)
		}
		if _, err := n.AdminOperations().Restore(t.Context(), wire.RestoreRequest{Run: "12", DryRun: true}, audit.Actor{Subject: "ben"}, nil, now); !errors.Is(err, mayfly.NotFound) {
			t.Errorf("a run that never was: %v", err)
		}
	})
}

// giveUp makes dead letters of steps of items.
func giveUp(t *testing.T, set store.Set, items []mayfly.Item, steps []remind.Step, now mayfly.Instant) {
	t.Helper()
	var b store.Batch
	acts := remind.Acts{}
	for _, step := range steps {
		for _, item := range items {
			remind.Write(&b, remind.Reminder{Due: now.Add(time.Minute), ID: item.ID, Step: step, Reason: "the walk went on"})
		}
		acts[step] = func(_ context.Context, b walk.Batch) (all []walk.Failure, _ error) {
			for _, item := range b.Items {
				all = append(all, walk.Failure{Item: item, Err: errors.New("the bucket is away")})
			}
			return all, nil
		}
	}
	if err := set.Writer.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	for number := range mayfly.Shard(mayfly.Shards) {
		w, err := remind.New(set, walk.NewShard(set.Rows, number, "test", time.Second, now), acts, remind.Options{Tries: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Pass(t.Context(), now.Add(2*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDeadLettersAreListedByItemAndStepInPages(t *testing.T) {
	in(t, func(t *testing.T, set store.Set, m *machine) {
		n := start(t, set, node.Options{Source: m.source(), Idle: true})
		defer stop(t, n)
		var items []mayfly.Item
		for range 7 {
			items = append(items, mustPublish(t, n, time.Hour))
		}
		now := n.Clock().Read().Now
		giveUp(t, set, items, []remind.Step{remind.Archive, remind.Erase}, now)
		letters := func(item mayfly.ID, step string) []wire.DeadLetter {
			return sameInPages(t, func(cursor string, limit int) ([]wire.DeadLetter, string, error) {
				page, err := n.AdminOperations().DeadLetters(t.Context(), item, step, cursor, limit)
				return page.Letters, page.Next, err
			})
		}
		for _, want := range []struct {
			item  mayfly.ID
			step  string
			count int
		}{{mayfly.ID{}, "", 14}, {mayfly.ID{}, "erase", 7}, {mayfly.ID{}, "tidy", 0}, {items[3].ID, "", 2}, {items[3].ID, "archive", 1}, {items[3].ID, "tidy", 0}} {
			got := letters(want.item, want.step)
			if len(got) != want.count {
				t.Errorf("%d dead letters of %+v", len(got), want)
			}
			for _, l := range got {
				if !want.item.IsZero() && l.Item != want.item || want.step != "" && l.Step != want.step || l.Reason != "the walk went on" ||
					len(l.Tries) != 1 || l.Tries[0].Reason != "the bucket is away" || l.Attempts != 1 {
					t.Errorf("%+v among %+v", l, want)
				}
			}
		}
		for _, wrong := range [][2]string{{"dance", ""}, {"", "x"}, {"", items[0].ID.String() + ".dance"}} {
			if _, err := n.AdminOperations().DeadLetters(t.Context(), mayfly.ID{}, wrong[0], wrong[1], 1); !errors.Is(err, mayfly.Invalid) {
				t.Errorf("%q: %v", wrong, err)
			}
		}
		operations := n.AdminOperations()
		if err := operations.RetryDead(t.Context(), items[0].ID, "archive", audit.Actor{Subject: "ben"}, "it is back", now); err != nil {
			t.Error(err)
		}
		if err := operations.DropDead(t.Context(), items[0].ID, "erase", audit.Actor{Subject: "ben"}, "it will not", now); err != nil {
			t.Error(err)
		}
		for _, err := range []error{
			operations.RetryDead(t.Context(), items[0].ID, "archive", audit.Actor{Subject: "ben"}, "again", now), operations.DropDead(t.Context(), items[0].ID, "erase", audit.Actor{Subject: "ben"}, "again", now),
		} {
			if !errors.Is(err, mayfly.NotFound) {
				t.Errorf("what is no dead letter any more: %v", err)
			}
		}
		if left := letters(mayfly.ID{}, ""); len(left) != 12 {
			t.Errorf("%d are left", len(left))
		}
	})
}

func TestTheAuditLogIsReadInPagesAndVerified(t *testing.T) {
	in(t, func(t *testing.T, set store.Set, m *machine) {
		n := start(t, set, node.Options{Source: m.source(), Idle: true})
		defer stop(t, n)
		var held []mayfly.ID
		for i := range 4 {
			item := mustPublish(t, n, time.Hour)
			if err := n.Restore().Hold(t.Context(), item.ID, audit.Actor{Subject: "ben"}, fmt.Sprintf("case %d", i), n.Clock().Read().Steady); err != nil {
				t.Fatal(err)
			}
			held = append(held, item.ID)
			time.Sleep(time.Second)
		}
		records := sameInPages(t, func(cursor string, limit int) ([]wire.AuditRecord, string, error) {
			page, err := n.AdminOperations().AuditRecords(t.Context(), cursor, limit)
			return page.Records, page.Next, err
		})
		if len(records) != 8 {
			t.Fatalf("%+v", records)
		}
		if r := records[0]; r.Actor != "ben" || r.Verb != "hold" || r.Outcome != "done" || *r.Item != held[3] || r.User != nil || r.Run != "" || r.Reason != "case 3" {
			t.Errorf("%+v", r)
		}
		before, err := n.AdminOperations().VerifyAudit(t.Context(), nil)
		if err != nil || !before.Sound || before.Records != 8 || len(before.Heads) != 1 {
			t.Fatalf("%+v %v", before, err)
		}
		if again, err := n.AdminOperations().VerifyAudit(t.Context(), before.Heads); err != nil || !again.Sound || again.Compared != before.Compared+1 {
			t.Errorf("%+v %v", again, err)
		}
		if _, err := n.AdminOperations().VerifyAudit(t.Context(), []string{"nonsense"}); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("a head that is none: %v", err)
		}
	})
}

func TestTheAdminAPIListsOrphansAndErasesThemForAReason(t *testing.T) {
	in(t, func(t *testing.T, set store.Set, m *machine) {
		n := start(t, set, node.Options{Source: m.source(), Idle: true})
		defer stop(t, n)
		leave(t, n, 5)
		time.Sleep(25 * time.Hour)
		now := n.Clock().Read().Now
		look, err := n.AdminOperations().Orphans(t.Context(), audit.Actor{Subject: "ben"}, "", 0, now)
		if err != nil || look.Orphans != 5 || look.Erased != 0 || !look.Whole || len(look.Examples) != 5 {
			t.Errorf("%+v %v", look, err)
		}
		part, err := n.AdminOperations().Orphans(t.Context(), audit.Actor{Subject: "ben"}, "", 2, now)
		if err != nil || part.Orphans != 2 || part.Whole {
			t.Errorf("of two objects: %+v %v", part, err)
		}
		done, err := n.AdminOperations().Orphans(t.Context(), audit.Actor{Subject: "ben"}, "weekly", 0, now)
		if err != nil || done.Erased != 5 {
			t.Errorf("%+v %v", done, err)
		}
		if s := n.AdminOperations().Scrubbed(); s.At != nil || s.Bad == nil {
			t.Errorf("a node that does not scrub has scrubbed: %+v", s)
		}
	})
}
