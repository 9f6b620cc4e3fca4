package cli

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
)

// births reads the events that a group has not read, and commits them.
func (f dataFolder) births(group string, want int) (events []mayfly.Event) {
	f.Helper()
	f.with(func(s *profile.Store, _ *node.Node) {
		ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
		defer cancel()
		r, err := s.Set.Log.Reader(ctx, mayfly.Births, group)
		if err != nil {
			f.Fatal(err)
		}
		if waiting, err := r.Lag(ctx); err != nil || waiting != int64(want) {
			f.Errorf("%d events wait for %s, not %d: %v", waiting, group, want, err)
		}
		for len(events) < want {
			records, err := r.Next(ctx, want)
			if err != nil {
				f.Fatal(err)
			}
			for _, one := range records {
				events = append(events, one.Event)
			}
		}
		if err := errors.Join(r.Commit(ctx), r.Close()); err != nil {
			f.Fatal(err)
		}
	})
	slices.SortFunc(events, func(a, b mayfly.Event) int { return cmp.Compare(a.At, b.At) }) // they come by partition
	return events
}

func TestAReplayedGroupReadsAgainFromAnInstant(t *testing.T) {
	f := newFolder(t)
	f.stories(3)
	before := f.births("search", 3)
	f.births("search", 0)
	f.births("others", 3)
	f.run(exitOK, "births: group search continues from", "replay", "--from", before[1].At.String(), "--group", "search")
	since := slices.DeleteFunc(slices.Clone(before), func(e mayfly.Event) bool { return e.At < before[1].At })
	again := f.births("search", len(since))
	for i, event := range again {
		if event.At != since[i].At || !slices.Contains(since, event) {
			t.Errorf("event %d is %+v, and was one of %+v", i, event, since)
		}
	}
	f.births("others", 0)
	f.run(exitOK, "from the oldest event; 3 events to read", "replay", "--from", "oldest", "--group", "search", "--stream", "births")
	f.run(exitOK, "births: group search continues", "replay", "--from", "1h", "--group", "search")
	f.births("search", 3)
	for _, bad := range [][]string{{"--from", "soon", "--group", "search"}, {"--from", "1h"}, {"--from", "1h", "--group", "search", "--stream", "deaths"}} {
		f.run(exitUsage, "--", append([]string{"replay"}, bad...)...)
	}
	f.with(func(*profile.Store, *node.Node) {
		f.run(exitConflict, "one process at a time", "replay", "--from", "1h", "--group", "search")
	})
}
