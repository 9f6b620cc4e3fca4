package gate_test

import (
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
)

var (
	ana = mayfly.UserOf("test", "ana")
	ben = mayfly.UserOf("test", "ben")
)

const (
	follower = mayfly.Follower
	friend   = mayfly.CloseFriend
	blocked  = mayfly.Blocked
)

// story is ana's, for everyone, and ends at deadline.
func story(t testing.TB) mayfly.Item {
	t.Helper()
	return mayfly.Item{
		ID: newID(t, ana, 1), Owner: ana, Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone,
		State: mayfly.Active, Generation: mayfly.Born, Nonce: 1, Changed: birth,
	}
}

func TestJudgeInSentences(t *testing.T) {
	anonymousViewer, stranger, author := mayfly.Viewer{}, mayfly.ViewerOf(ben), mayfly.ViewerOf(ana)
	moderator := mayfly.ModeratorOf(ben)
	with := func(changes ...func(*mayfly.Item)) mayfly.Item {
		item := story(t)
		for _, change := range changes {
			change(&item)
		}
		return item
	}
	forWhom := func(a mayfly.Audience) func(*mayfly.Item) { return func(i *mayfly.Item) { i.Audience = a } }
	in := func(s mayfly.State) func(*mayfly.Item) { return func(i *mayfly.Item) { i.State = s } }
	held := func(i *mayfly.Item) { i.Held = true }
	restored := func(i *mayfly.Item) { i.ServesUntil = deadline + 1000 }
	anonymous := func(i *mayfly.Item) { i.Owner = mayfly.UserID{} }
	const before, after = deadline - 1, deadline

	for _, tc := range []struct {
		sentence string
		item     mayfly.Item
		viewer   mayfly.Viewer
		relation mayfly.Relation
		now      mayfly.Instant
		want     gate.Verdict
	}{
		{"everyone sees it a millisecond before its deadline", with(), anonymousViewer, 0, before, gate.Serve},
		{"and no viewer at the deadline", with(), anonymousViewer, 0, after, gate.Gone},
		{"a close friend neither", with(), stranger, friend | follower, after, gate.Gone},
		{"its author does, from the archive", with(), author, 0, after, gate.Archived},
		{"a moderator does", with(), moderator, 0, after, gate.Archived},
		{"a sweep that was early hides nothing", with(in(mayfly.ExpiredHot)), anonymousViewer, 0, before, gate.Serve},
		{"a sweep that never came shows nothing", with(in(mayfly.Active)), anonymousViewer, 0, after + 1e12, gate.Gone},
		{"deleted is gone for its author", with(in(mayfly.Deleted)), author, 0, before, gate.Hidden},
		{"and for moderators", with(in(mayfly.Deleted)), moderator, 0, after, gate.Gone},
		{"held is hidden from its author", with(held), author, 0, before, gate.Hidden},
		{"before and after the deadline", with(held), author, 0, after, gate.Gone},
		{"and shown to moderators", with(held), moderator, 0, before, gate.Serve},
		{"who is blocked sees nothing", with(), stranger, blocked, before, gate.Hidden},
		{"whatever else they are", with(), stranger, blocked | friend | follower, before, gate.Hidden},
		{"followers see what is for followers", with(forWhom(mayfly.Followers)), stranger, follower, before, gate.Serve},
		{"strangers do not", with(forWhom(mayfly.Followers)), stranger, 0, before, gate.Hidden},
		{"a close friend who does not follow neither", with(forWhom(mayfly.Followers)), stranger, friend, before, gate.Hidden},
		{"close friends see what is for them", with(forWhom(mayfly.CloseFriends)), stranger, friend, before, gate.Serve},
		{"followers do not", with(forWhom(mayfly.CloseFriends)), stranger, follower, before, gate.Hidden},
		{"only its author sees an item for the author only", with(forWhom(mayfly.OnlyAuthor)), stranger, friend | follower, before, gate.Hidden},
		{"who does", with(forWhom(mayfly.OnlyAuthor)), author, 0, before, gate.Serve},
		{"an unknown audience has no members", with(forWhom(99)), stranger, friend | follower, before, gate.Hidden},
		{"an anonymous viewer is no follower", with(forWhom(mayfly.Followers)), anonymousViewer, follower, before, gate.Hidden},
		{"restored it is seen past its deadline", with(restored), anonymousViewer, 0, after, gate.Serve},
		{"up to serves_until", with(restored), anonymousViewer, 0, deadline + 999, gate.Serve},
		{"and no longer", with(restored), anonymousViewer, 0, deadline + 1000, gate.Gone},
		{"a refusal of what is restored says gone", with(restored, forWhom(mayfly.Followers)), anonymousViewer, 0, after, gate.Gone},
		{"an anonymous viewer is not the author of an anonymous item", with(anonymous), anonymousViewer, 0, after, gate.Gone},
		{"nor is a viewer with the zero user id", with(anonymous), mayfly.ViewerOf(mayfly.UserID{}), 0, after, gate.Gone},
	} {
		if got := gate.Judge(tc.item, tc.viewer, tc.relation, tc.now); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.sentence, got, tc.want)
		}
	}
}

// Compares Judge with the rules written as one formula, over every state, viewer,
// relation, audience, instant, fate, hold and restore (L16, ST2, ST11, C2).
func TestJudgeEverywhere(t *testing.T) {
	id := newID(t, ana, 1)
	viewers := []mayfly.Viewer{{}, mayfly.ViewerOf(ben), mayfly.ViewerOf(ana), mayfly.ModeratorOf(ben), mayfly.ModeratorOf(ana), mayfly.ModeratorOf(mayfly.UserID{})}
	tried := 0
	for state := mayfly.Active; state <= mayfly.Deleted; state++ {
		for audience := mayfly.Audience(0); audience <= mayfly.OnlyAuthor+1; audience++ {
			for _, owner := range []mayfly.UserID{ana, {}} {
				for _, until := range []mayfly.Instant{0, deadline - 10, deadline + 10} {
					for kept := range 4 {
						item := mayfly.Item{ID: id, Owner: owner, State: state, Audience: audience, ServesUntil: until, Fate: mayfly.Archive}
						item.Held = kept&1 != 0
						if kept&2 != 0 {
							item.Fate = mayfly.Purge
						}
						for _, viewer := range viewers {
							for relation := mayfly.Relation(0); relation < 8; relation++ {
								for _, now := range []mayfly.Instant{birth, deadline - 11, deadline - 1, deadline, deadline + 1, deadline + 9, deadline + 10, deadline + 1e12} {
									if got, want := gate.Judge(item, viewer, relation, now), rule(item, viewer, relation, now); got != want {
										t.Fatalf("%+v\nfor %+v, relation %b, at %s: %s, want %s", item, viewer, relation, now, got, want)
									}
									tried++
								}
							}
						}
					}
				}
			}
		}
	}
	if tried < 200_000 {
		t.Errorf("only %d tried", tried)
	}
}

// An item that nothing but the sweep will move is judged before and after the
// sweep has moved it: the verdicts are equal, and at its end they follow its fate.
func TestALateSweepChangesNoVerdict(t *testing.T) {
	const before, after = deadline - 1, deadline
	anonymous, stranger, author, moderator := mayfly.Viewer{}, mayfly.ViewerOf(ben), mayfly.ViewerOf(ana), mayfly.ModeratorOf(ben)
	type verdicts struct{ anonymous, stranger, author, moderator gate.Verdict }
	for _, tc := range []struct {
		name string
		fate mayfly.Fate
		held bool
		at   mayfly.Instant
		want verdicts
	}{
		{"archive, before its deadline", mayfly.Archive, false, before, verdicts{gate.Serve, gate.Serve, gate.Serve, gate.Serve}},
		{"archive, at its deadline", mayfly.Archive, false, after, verdicts{gate.Gone, gate.Gone, gate.Archived, gate.Archived}},
		{"archive, held, before its deadline", mayfly.Archive, true, before, verdicts{gate.Hidden, gate.Hidden, gate.Hidden, gate.Serve}},
		{"archive, held, at its deadline", mayfly.Archive, true, after, verdicts{gate.Gone, gate.Gone, gate.Gone, gate.Archived}},
		{"purge, before its deadline", mayfly.Purge, false, before, verdicts{gate.Serve, gate.Serve, gate.Serve, gate.Serve}},
		{"purge, at its deadline", mayfly.Purge, false, after, verdicts{gate.Gone, gate.Gone, gate.Gone, gate.Gone}},
		{"purge, held, before its deadline", mayfly.Purge, true, before, verdicts{gate.Hidden, gate.Hidden, gate.Hidden, gate.Serve}},
		{"purge, held, at its deadline", mayfly.Purge, true, after, verdicts{gate.Gone, gate.Gone, gate.Gone, gate.Archived}},
	} {
		// Where the sweep leaves the row; it keeps what is held and to be purged (L16).
		states := []mayfly.State{mayfly.Active}
		switch {
		case tc.at < deadline:
		case tc.fate == mayfly.Archive:
			states = append(states, mayfly.ExpiredHot)
		case !tc.held:
			states = append(states, mayfly.Deleted)
		}
		for _, state := range states {
			item := story(t)
			item.Fate, item.Held, item.State = tc.fate, tc.held, state
			judged := func(viewer mayfly.Viewer) gate.Verdict { return gate.Judge(item, viewer, 0, tc.at) }
			if got := (verdicts{judged(anonymous), judged(stranger), judged(author), judged(moderator)}); got != tc.want {
				t.Errorf("%s, row %s: %v, want %v", tc.name, state, got, tc.want)
			}
		}
	}
}

func rule(item mayfly.Item, v mayfly.Viewer, r mayfly.Relation, now mayfly.Instant) gate.Verdict {
	expired := now >= deadline
	ended := expired && now >= item.ServesUntil
	known := v.User() != mayfly.UserID{}
	author := known && v.User() == item.Owner
	invited := r&blocked == 0 && (item.Audience == mayfly.Everyone ||
		known && item.Audience == mayfly.Followers && r&follower != 0 ||
		known && item.Audience == mayfly.CloseFriends && r&friend != 0)
	deleted := item.State == mayfly.Deleted || ended && item.Fate == mayfly.Purge && !item.Held
	visible := !deleted && (v.Moderator() || !item.Held && (author || !ended && invited))
	switch {
	case visible && ended:
		return gate.Archived
	case visible:
		return gate.Serve
	case expired:
		return gate.Gone
	default:
		return gate.Hidden
	}
}

func TestWhatNeverExpiresIsServedForEver(t *testing.T) {
	id, err := mayfly.NewID(birth, mayfly.Never, ana.Trace(), 1)
	if err != nil {
		t.Fatal(err)
	}
	item := story(t)
	item.ID = id
	if got := gate.Judge(item, mayfly.Viewer{}, 0, mayfly.MaxBirth); got != gate.Serve {
		t.Error(got)
	}
}

func TestVerdictsHaveWords(t *testing.T) {
	for v, want := range map[gate.Verdict]string{gate.Serve: "serve", gate.Archived: "archived", gate.Gone: "gone", gate.Hidden: "hidden", 0: "none"} {
		if v.String() != want {
			t.Errorf("%d is %s", v, v)
		}
	}
}
