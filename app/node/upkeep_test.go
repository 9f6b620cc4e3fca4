package node_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/pace"
)

// problems collects the errors that a node reports, by loop.
type problems struct {
	mu       sync.Mutex
	reported map[string][]error
}

func (p *problems) report(loop string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reported == nil {
		p.reported = map[string][]error{}
	}
	p.reported[loop] = append(p.reported[loop], err)
}

func (p *problems) of(loop string) []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.reported[loop])
}

// leave uploads objects that are never published.
func leave(t *testing.T, n *node.Node, media int) {
	t.Helper()
	for ; media > 0; media -= 5 {
		u, err := n.Uploads().Begin(ana, n.Clock().Read().Steady)
		if err != nil {
			t.Fatal(err)
		}
		for range min(5, media) {
			if _, err := u.Add(t.Context(), strings.NewReader("never published")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// photo publishes a story with a photo.
func photo(t *testing.T, n *node.Node, lifetime time.Duration) mayfly.Item {
	t.Helper()
	now := n.Clock().Read().Steady
	l, err := mayfly.LifetimeOf(lifetime)
	if err != nil {
		t.Fatal(err)
	}
	u, err := n.Uploads().Begin(ana, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.Add(t.Context(), bytes.NewReader(bytes.Repeat([]byte("sea "), 500))); err != nil {
		t.Fatal(err)
	}
	p, err := n.Intake().Publish(t.Context(), intake.Draft{Owner: ana, Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone, Lifetime: l, Upload: u}, now)
	if err != nil {
		t.Fatal(err)
	}
	return p.Item
}

func objects(t *testing.T, tier store.Blobs) []mayfly.BlobKey {
	t.Helper()
	listed, err := tier.List(context.Background(), "", "", 10_000)
	if err != nil {
		t.Fatal(err)
	}
	keys := make([]mayfly.BlobKey, len(listed))
	for i, l := range listed {
		keys[i] = l.Key
	}
	return keys
}

// calm makes walks rare, so that days pass quickly.
func calm(o node.Options) node.Options {
	o.Cadence, o.AccountsEvery, o.Clock.SavePeriod = time.Hour, time.Hour, time.Minute
	o.Walk.Lease = 2 * time.Hour
	return o
}

// orphaned starts a node on a store in which orphans have lain for a time.
func orphaned(t *testing.T, set store.Set, m *machine, p *problems, media int, age time.Duration) *node.Node {
	t.Helper()
	o := calm(node.Options{Source: m.source(), Problem: p.report, Upkeep: node.Upkeep{OrphansEvery: time.Hour}})
	n := start(t, set, o)
	leave(t, n, media)
	stop(t, n)
	time.Sleep(age)
	return start(t, set, o)
}

func TestOrphansAreErasedByTheRunAfterTheOneThatCountedThem(t *testing.T) {
	pace.Heavy(t, "a node that lives for hours of virtual time")
	in(t, func(t *testing.T, set store.Set, m *machine) {
		var p problems
		o := calm(node.Options{Source: m.source(), Problem: p.report, Upkeep: node.Upkeep{OrphansEvery: time.Hour}})
		n := start(t, set, o)
		lose(t, set, n.Clock().Read().Steady.Add(-23*time.Hour), 7)
		time.Sleep(50 * time.Minute)
		if got := n.Orphans(); got.At == 0 || got.Last.Orphans != 0 || got.Deleted != 0 || len(objects(t, set.Hot)) != 7 {
			t.Fatalf("before the age of a day: %+v", got)
		}
		stop(t, n)
		time.Sleep(time.Hour)
		n = start(t, set, o)
		defer stop(t, n)
		time.Sleep(30 * time.Minute)
		if got := n.Orphans(); got.Last.Orphans != 7 || got.Deleted != 0 || got.Over || len(objects(t, set.Hot)) != 7 {
			t.Fatalf("the first look of a process only counts: %+v", got)
		}
		time.Sleep(time.Hour)
		if got := n.Orphans(); got.Deleted != 7 || got.Last.Deleted != 7 || len(objects(t, set.Hot)) != 0 {
			t.Fatalf("%+v", got)
		}
		if reported := p.of("orphans"); len(reported) > 0 {
			t.Fatal(reported)
		}
	})
}

// lose plants objects that items had of which nothing is known any more.
func lose(t *testing.T, set store.Set, born mayfly.Instant, count int) {
	t.Helper()
	day, err := mayfly.LifetimeOf(24 * time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for n := range count {
		id, err := mayfly.NewID(born, day, ana.Trace(), uint64(n))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := set.Hot.Put(t.Context(), mayfly.Item{ID: id}.MediaKey(2, 0), strings.NewReader("lost")); err != nil {
			t.Fatal(err)
		}
	}
}

// erased is how many objects two loops have erased: abandoned uploads are erased by the one
// that comes first.
func erased(o node.Orphans) uint64 { return o.Deleted + o.Abandoned }

func TestMoreLostObjectsThanOneRunMayEraseAreLeftAndReported(t *testing.T) {
	pace.Heavy(t, "a node that lives for hours of virtual time")
	in(t, func(t *testing.T, set store.Set, m *machine) {
		var p problems
		n := orphaned(t, set, m, &p, 11, 25*time.Hour) // abandoned: they go all the same
		defer stop(t, n)
		lose(t, set, n.Clock().Read().Steady.Add(-25*time.Hour), 11)
		time.Sleep(4*time.Hour + time.Minute)
		if got := n.Orphans(); !got.Over || got.Last.Orphans != 11 || erased(got) != 11 || len(objects(t, set.Hot)) != 11 {
			t.Fatalf("%+v", got)
		}
		reported := p.of("orphans")
		var hinted *mayfly.Error
		if len(reported) < 3 || !errors.Is(reported[0], mayfly.TooLarge) || !errors.As(reported[0], &hinted) || !strings.Contains(hinted.Hint, "mayfly orphans") {
			t.Fatal(reported)
		}
		if err := set.Hot.Delete(t.Context(), objects(t, set.Hot)[0]); err != nil { // as an operator does
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if got := n.Orphans(); got.Over || erased(got) != 11 {
			t.Fatalf("the first look within the cap counts: %+v", got)
		}
		time.Sleep(time.Hour)
		if got := n.Orphans(); erased(got) != 21 {
			t.Fatalf("%+v", got)
		}
	})
}

func TestNothingIsCollectedWhileTheClockIsUnconfirmed(t *testing.T) {
	pace.Heavy(t, "a node that lives for hours of virtual time")
	in(t, func(t *testing.T, set store.Set, m *machine) {
		var p problems
		n := orphaned(t, set, m, &p, 1, 20*time.Hour)
		defer stop(t, n)
		time.Sleep(10 * time.Minute)
		before := n.Orphans()
		m.step(30 * 24 * time.Hour)
		time.Sleep(3 * time.Hour)
		if got := n.Orphans(); got.At != before.At || before.At == 0 || len(objects(t, set.Hot)) != 1 {
			t.Fatalf("%+v, before it %+v", got, before)
		}
		m.step(-30 * 24 * time.Hour)
		time.Sleep(4 * time.Hour)
		if got := n.Orphans(); erased(got) != 1 {
			t.Fatalf("the wall is back: %+v", got)
		}
	})
}

func TestMissingMediaAreReportedWithAHintThatFitsTheProfile(t *testing.T) {
	for name, tc := range map[string]struct {
		time        store.Time
		want, never string
	}{
		"one process":         {nil, "mayfly verify", "--admin"},
		"one node of several": {servers{}, "mayfly scrub --admin", "verify"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, set store.Set, m *machine) {
				set.Time = tc.time
				var p problems
				n := start(t, set, calm(node.Options{Source: m.source(), Problem: p.report, Upkeep: node.Upkeep{OrphansEvery: time.Hour}}))
				defer stop(t, n)
				item := photo(t, n, 30*time.Minute)
				key := item.MediaKey(mayfly.Born, 0)
				must(t, set.Hot.Delete(t.Context(), key))
				time.Sleep(80 * time.Minute)
				var reported *mayfly.Error
				if all := p.of("missing"); len(all) != 1 || !errors.Is(all[0], mayfly.Corrupt) || !errors.As(all[0], &reported) || !strings.Contains(all[0].Error(), string(key)) {
					t.Fatal(all)
				}
				if !strings.Contains(reported.Hint, tc.want) || strings.Contains(reported.Hint, tc.never) {
					t.Error(reported.Hint)
				}
			})
		})
	}
}

func TestANodeReadsColdCopiesAgainAndReportsThoseThatDoNotMatch(t *testing.T) {
	pace.Heavy(t, "a node that lives for hours of virtual time")
	in(t, func(t *testing.T, set store.Set, m *machine) {
		var p problems
		o := calm(node.Options{Source: m.source(), Problem: p.report, Upkeep: node.Upkeep{ScrubBytes: 1 << 20, ScrubEvery: 2 * time.Hour}})
		o.Cadence = time.Minute
		n := start(t, set, o)
		var items []mayfly.Item
		for range 3 {
			items = append(items, photo(t, n, time.Hour))
		}
		time.Sleep(6 * time.Hour)
		if got := n.Scrubbed(); got.Objects < 3 || got.Bytes != got.Objects*2000 || got.BadObjects != 0 || len(p.of("scrub")) > 0 {
			t.Fatalf("%+v, %v", got, p.of("scrub"))
		}
		keys := objects(t, set.Cold)
		if len(keys) != len(items) {
			t.Fatal(keys)
		}
		if _, err := set.Cold.Put(t.Context(), keys[1], strings.NewReader("not the sea")); err != nil {
			t.Fatal(err)
		}
		stop(t, n)
		n = start(t, set, o)
		defer stop(t, n)
		time.Sleep(150 * time.Minute)
		got, reported := n.Scrubbed(), p.of("scrub")
		if got.BadObjects == 0 || got.Bad[0].Key != keys[1] || got.Again != 0 {
			t.Fatalf("%+v", got)
		}
		if len(reported) == 0 || !errors.Is(reported[0], mayfly.Corrupt) || !strings.Contains(reported[0].Error(), string(keys[1])) {
			t.Fatal(reported)
		}
		if state(t, set, got.Bad[0].Item) != mayfly.Cold || !slices.Equal(objects(t, set.Cold), keys) || len(objects(t, set.Hot)) != 0 {
			t.Fatal("a scrub changed something that is cold")
		}
	})
}
