package node_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/store"
)

func publishWithMedium(t testing.TB, n *node.Node, audience mayfly.Audience) mayfly.Item {
	t.Helper()
	return publishFor(t, n, audience, 24*time.Hour)
}

func publishFor(t testing.TB, n *node.Node, audience mayfly.Audience, d time.Duration) mayfly.Item {
	t.Helper()
	now := n.Clock().Read().Steady
	u, err := n.Uploads().Begin(ana, now)
	must(t, err)
	_, err = u.Add(t.Context(), bytes.NewReader([]byte("a photo")))
	must(t, err)
	lifetime, err := mayfly.LifetimeOf(d)
	must(t, err)
	p, err := n.Intake().Publish(t.Context(), intake.Draft{
		Owner: ana, Product: mayfly.Story, Fate: mayfly.Archive, Audience: audience, Lifetime: lifetime, Upload: u,
	}, now)
	must(t, err)
	return p.Item
}

func explain(t testing.TB, n *node.Node, id mayfly.ID, v mayfly.Viewer, at mayfly.Instant) wire.Explanation {
	t.Helper()
	e, err := n.Explain(t.Context(), id, v, at)
	must(t, err)
	if e.ID != id || e.At != at || len(e.Sentences) < 2 || len(e.Facts) < 8 {
		t.Errorf("%+v", e)
	}
	return e
}

// said wants words in the sentences, and the gate to agree with the verdict.
func said(t testing.TB, n *node.Node, id mayfly.ID, v mayfly.Viewer, at mayfly.Instant, verdict string, words ...string) {
	t.Helper()
	e := explain(t, n, id, v, at)
	text := strings.Join(e.Sentences, "\n")
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("nothing of %q in:\n%s", w, text)
		}
	}
	_, err := n.Gate().Open(t.Context(), id, v, at)
	allowed := map[string][]error{"serve": {nil}, "archived": {nil}, "gone": {mayfly.Gone}, "hidden": {mayfly.NotFound}}[verdict]
	if e.Verdict != verdict || !slices.Contains(allowed, err) {
		t.Errorf("%s, want %s; the gate says %v:\n%s", e.Verdict, verdict, err, text)
	}
}

func fact(e wire.Explanation, about, name string) string {
	for _, f := range e.Facts {
		if f.About == about && f.Name == name {
			return f.Value
		}
	}
	return ""
}

func TestExplainSaysWhyAStoryIsVisibleOrNot(t *testing.T) {
	in(t, func(t *testing.T, set store.Set, m *machine) {
		n := start(t, set, node.Options{Source: m.source(), Idle: true})
		defer stop(t, n)
		author, stranger, moderator := mayfly.ViewerOf(ana), mayfly.ViewerOf(ben), mayfly.ModeratorOf(ben)
		open := publishWithMedium(t, n, mayfly.Everyone)
		close := publishWithMedium(t, n, mayfly.CloseFriends)
		end := open.ID.Deadline()

		said(t, n, open.ID, stranger, end-1, "serve", "visible", "serves until "+end.String(), "for everyone", "media are hot")
		said(t, n, open.ID, stranger, end, "gone", "gone", "410", "lifetime 24h", end.String())
		said(t, n, open.ID, author, end, "archived", "archive", "The viewer is its author")
		said(t, n, open.ID, mayfly.Viewer{}, end-1, "serve", "an anonymous viewer")
		said(t, n, close.ID, stranger, end-1, "hidden", "404", "close friends", "not among them")
		said(t, n, close.ID, moderator, end-1, "serve", "a moderator")

		now := n.Clock().Read().Steady
		must(t, n.Restore().Hold(t.Context(), close.ID, audit.Actor{Subject: "support"}, "a court says so", now))
		said(t, n, close.ID, author, now, "hidden", "held")
		said(t, n, close.ID, moderator, now, "serve", "held")
		if e := explain(t, n, close.ID, author, now); !strings.Contains(strings.Join(values(e, "audit"), "\n"), "a court says so") {
			t.Errorf("%+v", e.Facts)
		}
		must(t, n.Restore().Release(t.Context(), close.ID, audit.Actor{Subject: "support"}, "the court is content", now))
		_, err := n.Erase().Delete(t.Context(), close.ID, mayfly.ByUser, now)
		must(t, err)
		said(t, n, close.ID, author, now, "hidden", "deleted", "by user")
		if e := explain(t, n, close.ID, author, now); fact(e, "reminder", "erase") == "" {
			t.Errorf("%+v", e.Facts)
		}
	})
}

func values(e wire.Explanation, about string) (all []string) {
	for _, f := range e.Facts {
		if f.About == about {
			all = append(all, f.Name+": "+f.Value)
		}
	}
	return all
}

func TestExplainFollowsAStoryThroughItsLife(t *testing.T) {
	in(t, func(t *testing.T, set store.Set, m *machine) {
		n := start(t, set, node.Options{
			Source: m.source(), Archive: archive.Options{Window: time.Minute}, Restore: restore.Options{Window: time.Minute},
		})
		defer stop(t, n)
		item := publishFor(t, n, mayfly.Everyone, time.Minute)
		time.Sleep(3 * time.Second)
		e := explain(t, n, item.ID, mayfly.ViewerOf(ana), n.Clock().Read().Now)
		if !strings.HasPrefix(fact(e, "walk", "sweep"), "not yet") || !strings.Contains(fact(e, "lease", leaseOf(item.ID)), "node-") ||
			!strings.Contains(strings.Join(values(e, "media"), "\n"), "hot: ") || fact(e, "row", "state") != "active" {
			t.Errorf("%+v", e.Facts)
		}
		time.Sleep(4 * time.Minute)
		now := n.Clock().Read().Now
		e = explain(t, n, item.ID, mayfly.ViewerOf(ana), now)
		if !strings.HasPrefix(fact(e, "walk", "sweep"), "done") || !strings.HasPrefix(fact(e, "walk", "archive"), "done") ||
			fact(e, "row", "state") != "cold" || !slices.ContainsFunc(values(e, "media"), func(s string) bool { return strings.Contains(s, "cold: ") && strings.Contains(s, "7 bytes") }) {
			t.Errorf("%+v", e.Facts)
		}
		said(t, n, item.ID, mayfly.ViewerOf(ana), now, "archived", "media are cold")

		until := now.Add(5 * time.Hour)
		_, err := n.Restore().Item(t.Context(), restore.Request{ID: item.ID, Until: until, By: audit.Actor{Subject: "support"}, Reason: "expired by mistake"}, now)
		must(t, err)
		said(t, n, item.ID, mayfly.ViewerOf(ben), now, "serve", "restored set", until.String())
		said(t, n, item.ID, mayfly.ViewerOf(ben), until, "gone", "410")
		if e := explain(t, n, item.ID, mayfly.ViewerOf(ben), until); strings.Contains(strings.Join(e.Sentences, " "), "serves until") { // a reminder takes it out of the set later
			t.Errorf("it serves no more: %q", e.Sentences)
		}
	})
}

func leaseOf(id mayfly.ID) string {
	return fmt.Sprintf("of shard %d", id.Shard())
}

func TestExplainNamesWalksThatAreBehindAndMediaThatAreMissing(t *testing.T) {
	in(t, func(t *testing.T, set store.Set, m *machine) {
		n := start(t, set, node.Options{Source: m.source(), Idle: true})
		defer stop(t, n)
		item := publishWithMedium(t, n, mayfly.Everyone)
		must(t, set.Hot.Delete(t.Context(), item.MediaKey(mayfly.Born, 0)))
		time.Sleep(25 * time.Hour)
		said(t, n, item.ID, mayfly.ViewerOf(ana), n.Clock().Read().Now, "archived", "should have processed it and have not: sweep", "sweep_pending", "Neither tier", "medium 0")
		if e := explain(t, n, item.ID, mayfly.ViewerOf(ana), n.Clock().Read().Now); !strings.HasPrefix(fact(e, "lease", leaseOf(item.ID)), "no node") {
			t.Errorf("%+v", values(e, "lease"))
		}
	})
}

func TestExplainExplainsIDsThatNeverExistedAndRefusesWhatIsNoID(t *testing.T) {
	in(t, func(t *testing.T, set store.Set, m *machine) {
		n := start(t, set, node.Options{Source: m.source(), Idle: true})
		defer stop(t, n)
		now := n.Clock().Read().Now
		day, err := mayfly.LifetimeOf(24 * time.Hour)
		must(t, err)
		for _, birth := range []mayfly.Instant{now.Add(-48 * time.Hour), now.Add(-time.Hour), now.Add(time.Hour)} {
			for _, lifetime := range []mayfly.Lifetime{day, mayfly.Never} {
				id, err := mayfly.NewID(birth, lifetime, ana.Trace(), 77)
				must(t, err)
				want := map[bool]string{true: gate.Gone.String(), false: gate.Hidden.String()}[id.ExpiredAt(now)]
				said(t, n, id, mayfly.ViewerOf(ana), now, want, "It has no row", birth.String())
			}
		}
		if _, err := n.Explain(t.Context(), mayfly.ID{1}, mayfly.Viewer{}, now); !errors.Is(err, mayfly.Invalid) {
			t.Error(err)
		}
	})
}

// A node with a key has accounts, and its gate reads their relations.
func TestANodeWithAKeyHasStoriesForFollowers(t *testing.T) {
	in(t, func(t *testing.T, set store.Set, m *machine) {
		key, err := node.LoadKey(keyConfig(t))
		must(t, err)
		n := start(t, set, node.Options{Source: m.source(), Idle: true, Products: node.ProductOptions{Key: key}})
		defer stop(t, n)
		item := publishWithMedium(t, n, mayfly.Followers)
		now := n.Clock().Read().Now
		if _, err := n.Stories().Open(t.Context(), item.ID, mayfly.ViewerOf(ben), now); err != mayfly.NotFound {
			t.Error(err)
		}
		must(t, n.Accounts().Relate(t.Context(), ana, ben, mayfly.Follower, 0, now))
		_, err = n.Stories().Open(t.Context(), item.ID, mayfly.ViewerOf(ben), now)
		must(t, err)
		said(t, n, item.ID, mayfly.ViewerOf(ben), now, "serve", "for followers", "among them")
		must(t, n.Accounts().Relate(t.Context(), ana, ben, mayfly.Blocked, 0, now))
		said(t, n, item.ID, mayfly.ViewerOf(ben), now, "hidden", "blocked")
		if n.Key() != key {
			t.Error("another key")
		}
	})
}

func keyConfig(t *testing.T) config.Config {
	t.Helper()
	c := config.Default()
	c.Data = t.TempDir()
	return c
}
