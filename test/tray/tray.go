// Package tray compares trays with a plain model: users who follow, block, mute,
// publish and view at random, and after each step what a reader gets is what a naive
// query over the model says.
package tray

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// World is users with their stories on a store, and the model of them. Two nodes share
// the store: what one of them writes the other must show at once.
type World struct {
	testing.TB
	Set   store.Set
	Users []mayfly.UserID
	Now   mayfly.Instant
	Nodes [2]Node

	intake  *intake.Intake
	restore *restore.Restore
	random  *rand.Rand

	edges   map[pair]edge // reader, author
	blocks  map[pair]bool // who, whom
	friends map[pair]bool // author, friend
	private map[mayfly.UserID]bool
	stories []*modelStory
	seen    map[view]bool
}

// Node is accounts and stories with caches of their own.
type Node struct {
	Accounts *account.Accounts
	Stories  *story.Stories
}

type pair struct{ a, b mayfly.UserID }

type view struct {
	user mayfly.UserID
	id   mayfly.ID
}

type edge struct {
	state account.FollowState
	muted bool // posts
}

type modelStory struct {
	item          mayfly.Item
	deleted, held bool
}

// New returns a world of so many users on a store, at an instant.
func New(t testing.TB, set store.Set, key *account.Key, users int, now mayfly.Instant, random *rand.Rand) *World {
	t.Helper()
	w := &World{
		TB: t, Set: set, Now: now, random: random,
		edges: map[pair]edge{}, blocks: map[pair]bool{}, friends: map[pair]bool{}, private: map[mayfly.UserID]bool{}, seen: map[view]bool{},
	}
	for range users {
		var u mayfly.UserID
		w.must(fill(u[:], random))
		w.Users = append(w.Users, u)
	}
	for i := range w.Nodes {
		w.Nodes[i] = w.open(key)
	}
	var err error
	w.intake, err = intake.New(set, intake.Options{})
	w.must(err)
	log, err := audit.Open(context.Background(), set.Rows, "tray", now)
	w.must(err)
	w.restore, err = restore.New(set, log, restore.Options{Window: 90 * time.Minute, Retention: 3 * 365 * 24 * time.Hour})
	w.must(err)
	return w
}

func fill(b []byte, random *rand.Rand) error {
	_, err := fixture.Bits{Rand: random}.Read(b)
	return err
}

func (w *World) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *World) open(key *account.Key) (n Node) {
	w.Helper()
	var err error
	n.Accounts, err = account.New(context.Background(), account.Options{Rows: w.Set.Rows, Signals: w.Set.Signals, Key: key})
	w.must(err)
	g, err := gate.New(context.Background(), w.Set, gate.Options{Relations: n.Accounts.RelationsOf})
	w.must(err)
	h, err := hydrate.New(w.Set, hydrate.Options{})
	w.must(err)
	e, err := erase.New(w.Set, erase.Options{})
	w.must(err)
	uploads, err := upload.New(w.Set, upload.Options{})
	w.must(err)
	in, err := intake.New(w.Set, intake.Options{})
	w.must(err)
	n.Stories, err = story.New(story.Options{
		Rows: w.Set.Rows, Writer: w.Set.Writer, Uploads: uploads, Intake: in, Gate: g, Hydrate: h, Erase: e, Following: n.Accounts.Following,
	})
	w.must(err)
	w.Cleanup(func() {
		h.Close()
		w.must(g.Close())
		w.must(n.Accounts.Close())
	})
	return n
}

// any returns a node: a step and the read after it are seldom on the same one.
func (w *World) any() Node { return w.Nodes[w.random.IntN(len(w.Nodes))] }

// Follow makes reader follow author, as a user.
func (w *World) Follow(reader, author mayfly.UserID) {
	w.Helper()
	_, err := w.any().Accounts.Follow(w.Context(), reader, author, w.Now)
	e := w.edges[pair{reader, author}]
	switch {
	case w.blocks[pair{author, reader}]:
	case w.blocks[pair{reader, author}]:
		if err == nil {
			w.Fatal("followed a user whom the reader blocks")
		}
		err = nil
	case e.state != account.Following:
		e.state = account.Following
		if w.private[author] {
			e.state = account.Requested
		}
	}
	w.must(err)
	w.edges[pair{reader, author}] = e
}

// SetFollower makes reader follow author, as the embedding product: whatever the two
// have blocked.
func (w *World) SetFollower(reader, author mayfly.UserID) {
	w.Helper()
	w.must(w.any().Accounts.Relate(w.Context(), author, reader, mayfly.Follower, 0, w.Now))
	e := w.edges[pair{reader, author}]
	e.state = account.Following
	w.edges[pair{reader, author}] = e
}

// Unfollow ends a follow or a request.
func (w *World) Unfollow(reader, author mayfly.UserID) {
	w.Helper()
	w.must(w.any().Accounts.Unfollow(w.Context(), reader, author, w.Now))
	w.ended(reader, author)
}

func (w *World) ended(reader, author mayfly.UserID) {
	e := w.edges[pair{reader, author}]
	e.state = account.NotFollowing
	w.edges[pair{reader, author}] = e
}

// Accept makes a request a follow; without one it does nothing.
func (w *World) Accept(author, reader mayfly.UserID) {
	w.Helper()
	e := w.edges[pair{reader, author}]
	if e.state != account.Requested {
		return
	}
	w.must(w.any().Accounts.Accept(w.Context(), author, reader, w.Now))
	e.state = account.Following
	w.edges[pair{reader, author}] = e
}

// Mute sets or clears what reader mutes of author.
func (w *World) Mute(reader, author mayfly.UserID, set, clear mayfly.Relation) {
	w.Helper()
	w.must(w.any().Accounts.Mute(w.Context(), reader, author, set, clear, w.Now))
	e := w.edges[pair{reader, author}]
	if (set | clear).Has(mayfly.MutesPosts) {
		e.muted = set.Has(mayfly.MutesPosts)
	}
	w.edges[pair{reader, author}] = e
}

// Block makes a user block another, which ends the follows of both.
func (w *World) Block(who, whom mayfly.UserID) {
	w.Helper()
	w.must(w.any().Accounts.Relate(w.Context(), who, whom, mayfly.Blocked, 0, w.Now))
	w.blocks[pair{who, whom}] = true
	w.ended(who, whom)
	w.ended(whom, who)
}

// Unblock ends a block.
func (w *World) Unblock(who, whom mayfly.UserID) {
	w.Helper()
	w.must(w.any().Accounts.Relate(w.Context(), who, whom, 0, mayfly.Blocked, w.Now))
	w.blocks[pair{who, whom}] = false
}

// Befriend makes a user a close friend of author, or no longer one.
func (w *World) Befriend(author, friend mayfly.UserID, is bool) {
	w.Helper()
	set, clear := mayfly.CloseFriend, mayfly.Relation(0)
	if !is {
		set, clear = clear, set
	}
	w.must(w.any().Accounts.Relate(w.Context(), author, friend, set, clear, w.Now))
	w.friends[pair{author, friend}] = is
}

// SetPrivate makes an account private, or public.
func (w *World) SetPrivate(author mayfly.UserID, private bool) {
	w.Helper()
	_, err := w.any().Accounts.Change(w.Context(), author, account.ProfileChange{Private: &private}, w.Now)
	w.must(err)
	w.private[author] = private
}

// Publish publishes a story without media and returns its id.
func (w *World) Publish(author mayfly.UserID, audience mayfly.Audience, lives time.Duration) mayfly.ID {
	w.Helper()
	p, err := w.intake.Publish(w.Context(), intake.Draft{
		Owner: author, Product: mayfly.Story, Fate: mayfly.Archive, Audience: audience, Lifetime: fixture.Lifetime(w, lives), Text: "sea",
	}, w.Now)
	w.must(err)
	w.stories = append(w.stories, &modelStory{item: p.Item})
	return p.Item.ID
}

func (w *World) story(id mayfly.ID) *modelStory {
	return w.stories[slices.IndexFunc(w.stories, func(s *modelStory) bool { return s.item.ID == id })]
}

// Delete deletes a story.
func (w *World) Delete(id mayfly.ID) {
	w.Helper()
	s := w.story(id)
	w.must(w.any().Stories.Delete(w.Context(), id, s.item.Owner, w.Now))
	s.deleted = true
}

// Hold holds a story or releases it.
func (w *World) Hold(id mayfly.ID, held bool) {
	w.Helper()
	do := w.restore.Release
	if held {
		do = w.restore.Hold
	}
	w.must(do(w.Context(), id, audit.Actor{Subject: "eve"}, "case 9", w.Now))
	w.story(id).held = held
}

// View makes a user see a story.
func (w *World) View(user mayfly.UserID, id mayfly.ID) {
	w.Helper()
	w.must(w.any().Stories.View(w.Context(), id, mayfly.ViewerOf(user), w.Now))
	if user != w.story(id).item.Owner {
		w.seen[view{user, id}] = true
	}
}

// Visible reports by the model whether a story is served to a user.
func (w *World) Visible(user mayfly.UserID, id mayfly.ID) bool {
	s := w.story(id)
	author := s.item.Owner
	follows := w.edges[pair{user, author}].state == account.Following
	switch {
	case s.deleted || s.held || w.Now >= id.Deadline():
		return false
	case user == author:
		return true
	case w.blocks[pair{author, user}]:
		return false
	}
	switch s.item.Audience {
	case mayfly.Everyone:
		return follows || !w.private[author]
	case mayfly.Followers:
		return follows
	default:
		return w.friends[pair{author, user}]
	}
}

// Expected is the tray of a reader as the model has it.
func (w *World) Expected(reader mayfly.UserID) []story.Slot {
	slots := map[mayfly.UserID]story.Slot{}
	for _, s := range w.stories {
		author, id := s.item.Owner, s.item.ID
		e := w.edges[pair{reader, author}]
		if e.state != account.Following || e.muted || w.blocks[pair{reader, author}] || !w.Visible(reader, id) {
			continue
		}
		slot := slots[author]
		slot.Author, slot.Ends = author, max(slot.Ends, id.Deadline())
		if slot.Newest.Compare(id) < 0 {
			slot.Newest = id
		}
		if w.seen[view{reader, id}] && slot.Seen.Compare(id) < 0 {
			slot.Seen = id
		}
		slots[author] = slot
	}
	all := []story.Slot{}
	for _, s := range slots {
		s.Until = s.Newest.Deadline()
		if !s.Seen.IsZero() {
			s.Until = min(s.Until, s.Seen.Deadline())
		}
		all = append(all, s)
	}
	rank := func(s story.Slot) int {
		if s.Newest != s.Seen {
			return 0
		}
		return 1
	}
	slices.SortFunc(all, func(a, b story.Slot) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), b.Newest.Compare(a.Newest)) })
	return all
}

// Compare reads the tray of a reader on every node and reports each difference from the
// model. It returns how many slots it compared.
func (w *World) Compare(reader mayfly.UserID, after string) int {
	w.Helper()
	want := w.Expected(reader)
	for _, n := range w.Nodes {
		got, err := n.Stories.Tray(w.Context(), reader, w.Now)
		w.must(err)
		if problems := differences(want, got.Slots); len(problems) > 0 || got.Partial {
			w.Fatalf("after %s, at %s, the tray of %s, partial %t: %v\ngot  %+v\nwant %+v", after, w.Now, reader, got.Partial, problems, got.Slots, want)
		}
	}
	return len(want)
}

// differences names what is wrong of a tray.
func differences(want, got []story.Slot) (problems []string) {
	index := map[mayfly.UserID]story.Slot{}
	for _, s := range want {
		index[s.Author] = s
	}
	found := map[mayfly.UserID]bool{}
	for _, s := range got {
		is, known := index[s.Author]
		switch {
		case !known:
			problems = append(problems, fmt.Sprintf("extra: %s", s.Author))
		case found[s.Author]:
			problems = append(problems, fmt.Sprintf("duplicate: %s", s.Author))
		case is != s:
			problems = append(problems, fmt.Sprintf("wrong: %+v, want %+v", s, is))
		}
		found[s.Author] = true
	}
	for _, s := range want {
		if !found[s.Author] {
			problems = append(problems, fmt.Sprintf("missing: %s", s.Author))
		}
	}
	if len(problems) == 0 && !slices.Equal(want, got) {
		problems = append(problems, "misordered")
	}
	return problems
}

// Figures say how much a run has tried.
type Figures struct {
	Steps  map[string]int
	Trays  int // that were compared
	Slots  int // in them
	Edges  int // that follow
	Unseen int // slots with something unseen
	Ends   int // trays that were compared a millisecond before a deadline, and at it
}

// Run does so many random steps on a graph in which few authors have most of the
// followers, and compares the trays of the reader of each step and of another.
func (w *World) Run(follows, steps int) Figures {
	w.Helper()
	f := Figures{Steps: map[string]int{}}
	authors := rand.NewZipf(w.random, 1.2, 4, uint64(len(w.Users)-1))
	author := func() mayfly.UserID { return w.Users[authors.Uint64()] }
	reader := func() mayfly.UserID { return w.Users[w.random.IntN(len(w.Users))] }
	for range follows {
		if r, a := reader(), author(); r != a {
			w.Follow(r, a)
		}
	}
	for range steps {
		r, a := reader(), author()
		if w.random.IntN(2) == 0 {
			r = w.Users[w.random.IntN(8)] // who have a past
		}
		if r == a {
			continue
		}
		name, do := w.step(r, a)
		do()
		f.Steps[name]++
		for _, who := range []mayfly.UserID{r, reader()} {
			f.Slots += w.Compare(who, name)
			f.Trays++
			for _, s := range w.Expected(who) {
				if s.Unseen() {
					f.Unseen++
				}
			}
		}
		if w.random.IntN(8) == 0 {
			f.Ends += w.aroundADeadline(r)
		}
	}
	for _, e := range w.edges {
		if e.state == account.Following {
			f.Edges++
		}
	}
	return f
}

// aroundADeadline compares a tray as it will be in the last millisecond of a slot and
// after it, if nothing else happens.
func (w *World) aroundADeadline(reader mayfly.UserID) int {
	w.Helper()
	slots := w.Expected(reader)
	if len(slots) == 0 {
		return 0
	}
	slices.SortFunc(slots, func(a, b story.Slot) int { return cmp.Compare(a.Until, b.Until) })
	end := slots[0].Until
	if end <= w.Now {
		w.Fatalf("a slot is there at %s, until %s", w.Now, end)
	}
	now := w.Now
	for _, w.Now = range []mayfly.Instant{end - 1, end} {
		w.Compare(reader, "time passed")
	}
	w.Now = now
	return 2
}

// step chooses what happens next.
func (w *World) step(r, a mayfly.UserID) (string, func()) {
	audiences := []mayfly.Audience{mayfly.Everyone, mayfly.Everyone, mayfly.Followers, mayfly.CloseFriends}
	lives := []time.Duration{6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour}
	live := func(of func(*modelStory) bool) (mayfly.ID, bool) {
		var ids []mayfly.ID
		for _, s := range w.stories {
			if !s.deleted && w.Now < s.item.ID.Deadline() && of(s) {
				ids = append(ids, s.item.ID)
			}
		}
		if len(ids) == 0 {
			return mayfly.ID{}, false
		}
		return ids[w.random.IntN(len(ids))], true
	}
	onStory := func(of func(*modelStory) bool, do func(mayfly.ID)) func() {
		return func() {
			if id, ok := live(of); ok {
				do(id)
			}
		}
	}
	visible := func(s *modelStory) bool {
		return w.edges[pair{r, s.item.Owner}].state == account.Following && w.Visible(r, s.item.ID)
	}
	all := []struct {
		weight int
		name   string
		do     func()
	}{
		{30, "publish", func() {
			w.Publish(a, audiences[w.random.IntN(len(audiences))], lives[w.random.IntN(len(lives))])
		}},
		{60, "view", func() {
			for range 1 + w.random.IntN(4) {
				onStory(visible, func(id mayfly.ID) { w.View(r, id) })()
			}
		}},
		{15, "follow", func() { w.Follow(r, a) }},
		{3, "follow by the service", func() { w.SetFollower(r, a) }},
		{6, "unfollow", func() { w.Unfollow(r, a) }},
		{6, "accept", func() { w.Accept(a, r) }},
		{4, "mute posts", func() { w.Mute(r, a, mayfly.MutesPosts, 0) }},
		{2, "mute reposts", func() { w.Mute(r, a, mayfly.MutesReposts, 0) }},
		{4, "unmute", func() { w.Mute(r, a, 0, mayfly.MutesPosts|mayfly.MutesReposts) }},
		{2, "block the author", func() { w.Block(r, a) }},
		{2, "block the reader", func() { w.Block(a, r) }},
		{3, "unblock", func() {
			w.Unblock(r, a)
			w.Unblock(a, r)
		}},
		{6, "befriend", func() { w.Befriend(a, r, true) }},
		{2, "unfriend", func() { w.Befriend(a, r, false) }},
		{3, "private", func() { w.SetPrivate(a, true) }},
		{3, "public", func() { w.SetPrivate(a, false) }},
		{4, "delete", onStory(visible, w.Delete)},
		{3, "hold", onStory(func(s *modelStory) bool { return !s.held }, func(id mayfly.ID) { w.Hold(id, true) })},
		{3, "release", onStory(func(s *modelStory) bool { return s.held }, func(id mayfly.ID) { w.Hold(id, false) })},
		{10, "time passes", func() { w.Now = w.Now.Add(time.Duration(1 + w.random.Int64N(int64(40*time.Minute)))) }},
	}
	total := 0
	for _, s := range all {
		total += s.weight
	}
	at := w.random.IntN(total)
	for _, s := range all {
		if at -= s.weight; at < 0 {
			return s.name, s.do
		}
	}
	return "nothing", func() {}
}
