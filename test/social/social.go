// Package social is a plain model of users who follow, mute, block and post: the oracle
// of home. It keeps everything in maps and answers by looking at all of it, so that it
// can be read in a minute.
//
// Run does random operations to a system and to the model. What the system answers, and
// each page of a home, must be what the model says: it is never asked to be right later.
package social

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mayflyhq/mayfly"
)

// System does operations of the users 0, 1, 2, … .
type System interface {
	Now() mayfly.Instant
	Pass() // some time

	Follow(reader, author int) (state string, err error)
	Unfollow(reader, author int) error
	Accept(author, reader int) error
	SetFollower(author, reader int) error // as a service
	Block(user, other int, blocks bool) error
	Mute(reader, author int, posts, reposts bool) error
	Private(author int, private bool) error

	Publish(author int, about mayfly.ID, quote bool, lifetime string) (mayfly.ID, error)
	Repost(user int, id mayfly.ID) (mayfly.ID, error)
	Unrepost(user int, id mayfly.ID) error
	Delete(author int, id mayfly.ID) error
	Hold(id mayfly.ID, held bool) error

	Home(reader int, cursor string, limit int) (Page, error)
}

// Page is a page of a home.
type Page struct {
	Posts []Shown
	Next  string
}

// Shown is a post as a page has it.
type Shown struct{ ID, Of mayfly.ID }

type kind int

const (
	original kind = iota
	reply
	quote
	repost
)

type post struct {
	id            mayfly.ID
	author        int
	kind          kind
	about         *post // never a repost
	own           bool  // a reply in a thread of which its author wrote everything before
	deleted, held bool
}

// relation is what a user is to another.
type relation struct {
	state               string // "", requested or following
	mutePosts, muteReps bool
	blocks              bool
}

// Model is what the users have done.
type Model struct {
	users   int
	related map[[2]int]relation
	private map[int]bool
	posts   []*post // in the order of their ids

	Counts Counts
}

// Counts says how much was tried, and what was wrong.
type Counts struct {
	Operations, Refused, Pages, Posts       int
	Missing, Extra, Duplicate, Misordered   int
	Others                                  int // a page that is short, or the last too early or too late; a wrong answer to an operation
	originals, replies, quotes, reposts     int
	unfollows, blocks, mutes, deletes, ends int
}

// Wrong is how much was wrong.
func (c Counts) Wrong() int { return c.Missing + c.Extra + c.Duplicate + c.Misordered + c.Others }

// New returns a model of users who have done nothing.
func New(users int) *Model {
	return &Model{users: users, related: map[[2]int]relation{}, private: map[int]bool{}}
}

func (m *Model) follows(reader, author int) bool {
	return m.related[[2]int{reader, author}].state == "following"
}

func (m *Model) change(user, other int, f func(*relation)) {
	r := m.related[[2]int{user, other}]
	f(&r)
	m.related[[2]int{user, other}] = r
}

// sees reports what the gate decides.
func (m *Model) sees(p *post, viewer int, now mayfly.Instant) bool {
	switch {
	case p.deleted || p.held || p.id.ExpiredAt(now):
		return false
	case p.author == viewer:
		return true
	case m.related[[2]int{p.author, viewer}].blocks:
		return false
	}
	return !m.private[p.author] || m.follows(viewer, p.author)
}

// unwanted reports whether the posts of an author are in no list of a reader.
func (m *Model) unwanted(reader, author int) bool {
	r := m.related[[2]int{reader, author}]
	return r.blocks || r.mutePosts
}

// home returns everything in a reader's home that is older than an id, newest first.
func (m *Model) home(reader int, before mayfly.ID, now mayfly.Instant) (all []Shown) {
	for _, p := range slices.Backward(m.posts) {
		r := m.related[[2]int{reader, p.author}]
		of := p.kind == repost || p.kind == quote
		ofShown := of && m.sees(p.about, reader, now) && !m.unwanted(reader, p.about.author)
		switch {
		case !before.IsZero() && bytes.Compare(p.id[:], before[:]) >= 0:
		case r.state != "following" || r.blocks || !m.sees(p, reader, now):
		case p.kind == reply && !p.own:
		case p.kind == repost && (r.muteReps || !ofShown):
		case p.kind != repost && r.mutePosts:
		case ofShown:
			all = append(all, Shown{p.id, p.about.id})
		default:
			all = append(all, Shown{ID: p.id})
		}
	}
	return all
}

// Check reads up to pages pages of a reader's home, of random sizes, and compares each
// with the model.
func (m *Model) Check(t testing.TB, s System, rng *rand.Rand, reader, pages int) {
	t.Helper()
	cursor, before, seen := "", mayfly.ID{}, map[mayfly.ID]bool{}
	for range pages {
		limit := 1 + rng.IntN(30)
		page, err := s.Home(reader, cursor, limit)
		if err != nil {
			t.Fatalf("home of %d: %v", reader, err)
		}
		want := m.home(reader, before, s.Now())
		more := len(want) > limit
		want = want[:min(limit, len(want))]
		m.Counts.Pages++
		m.Counts.Posts += len(page.Posts)
		m.compare(t, reader, page.Posts, want, seen)
		if (page.Next != "") != more {
			m.Counts.Others++
			t.Errorf("home of %d, limit %d: next is %q, more is %t", reader, limit, page.Next, more)
		}
		if cursor = page.Next; cursor == "" {
			return
		}
		before = page.Posts[len(page.Posts)-1].ID
	}
}

func (m *Model) compare(t testing.TB, reader int, got, want []Shown, seen map[mayfly.ID]bool) {
	t.Helper()
	before := m.Counts.Wrong()
	for i, p := range got {
		switch {
		case seen[p.ID]:
			m.Counts.Duplicate++
		case !slices.Contains(want, p):
			m.Counts.Extra++
		case i > 0 && bytes.Compare(got[i-1].ID[:], p.ID[:]) <= 0:
			m.Counts.Misordered++
		}
		seen[p.ID] = true
	}
	for _, p := range want {
		if !slices.Contains(got, p) {
			m.Counts.Missing++
		}
	}
	if m.Counts.Wrong() > before {
		t.Errorf("home of %d:\n got %v\nwant %v", reader, got, want)
	}
}

// expect counts an operation and compares how it ended; a nil want is success.
func (m *Model) expect(t testing.TB, what string, err error, want ...mayfly.Kind) bool {
	t.Helper()
	m.Counts.Operations++
	right := err == nil
	if len(want) > 0 {
		m.Counts.Refused++
		right = slices.ContainsFunc(want, func(k mayfly.Kind) bool { return errors.Is(err, k) })
	}
	if !right {
		m.Counts.Others++
		t.Errorf("%s: %v, want %v", what, err, want)
	}
	return err == nil
}

// Grow makes every user follow some authors, popular ones more often (Zipf).
func (m *Model) Grow(t testing.TB, s System, rng *rand.Rand, follows int) {
	t.Helper()
	for reader := range m.users {
		for range follows {
			m.follow(t, s, reader, m.author(rng))
		}
	}
}

// author returns an author, those with low numbers more often.
func (m *Model) author(rng *rand.Rand) int {
	return int(rand.NewZipf(rng, 1.2, 8, uint64(m.users-1)).Uint64())
}

func (m *Model) follow(t testing.TB, s System, reader, author int) {
	t.Helper()
	if reader == author {
		return
	}
	state, err := s.Follow(reader, author)
	switch r := m.related[[2]int{reader, author}]; {
	case r.blocks:
		m.expect(t, "follow a blocked user", err, mayfly.Conflict)
	case m.related[[2]int{author, reader}].blocks:
		m.expect(t, "follow one who blocks", err) // answered as of a user who never was
	default:
		if r.state != "following" {
			r.state = map[bool]string{true: "requested", false: "following"}[m.private[author]]
		}
		if m.expect(t, "follow", err) && state != r.state {
			m.Counts.Others++
			t.Errorf("%d follows %d: %s, want %s", reader, author, state, r.state)
		}
		m.related[[2]int{reader, author}] = r
	}
}

// Step does one random operation and returns a user whose home it may have changed.
func (m *Model) Step(t testing.TB, s System, rng *rand.Rand) (reader int) {
	t.Helper()
	reader, author := rng.IntN(m.users), m.author(rng)
	if rng.IntN(3) > 0 { // mostly one who is followed
		if a, ok := m.followed(rng, reader); ok {
			author = a
		}
	}
	for author == reader {
		author = rng.IntN(m.users)
	}
	s.Pass()
	switch n := rng.IntN(100); {
	case n < 40:
		m.publish(t, s, rng, author)
	case n < 52:
		m.repost(t, s, rng, author)
	case n < 56:
		m.unrepost(t, s, rng, author)
	case n < 62:
		m.remove(t, s, rng)
	case n < 64:
		m.hold(t, s, rng)
	case n < 72:
		m.follow(t, s, reader, author)
	case n < 78:
		m.Counts.unfollows++
		if m.expect(t, "unfollow", s.Unfollow(reader, author)) {
			m.change(reader, author, func(r *relation) { r.state = "" })
		}
	case n < 82:
		m.accept(t, s, reader, author)
	case n < 84:
		if m.expect(t, "set a follower", s.SetFollower(author, reader)) {
			m.change(reader, author, func(r *relation) { r.state = "following" })
		}
	case n < 90:
		m.Counts.mutes++
		posts, reps := rng.IntN(2) == 0, rng.IntN(2) == 0
		if m.expect(t, "mute", s.Mute(reader, author, posts, reps)) {
			m.change(reader, author, func(r *relation) { r.mutePosts, r.muteReps = posts, reps })
		}
	case n < 96:
		m.block(t, s, rng, reader, author)
	default:
		private := !m.private[author]
		if m.expect(t, "change the profile", s.Private(author, private)) {
			m.private[author] = private
		}
	}
	return reader
}

func (m *Model) followed(rng *rand.Rand, reader int) (int, bool) {
	var all []int
	for author := range m.users {
		if m.follows(reader, author) {
			all = append(all, author)
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	return all[rng.IntN(len(all))], true
}

// pick returns a post, a young one more often; nil when there is none.
func (m *Model) pick(rng *rand.Rand) *post {
	if len(m.posts) == 0 {
		return nil
	}
	return m.posts[len(m.posts)-1-min(rng.IntN(len(m.posts)), rng.IntN(len(m.posts)))]
}

// born adds a post.
func (m *Model) born(p *post) {
	at, _ := slices.BinarySearchFunc(m.posts, p.id, func(q *post, id mayfly.ID) int { return bytes.Compare(q.id[:], id[:]) })
	m.posts = slices.Insert(m.posts, at, p)
}

// stands returns the post that a post stands for, if the user sees both.
func (m *Model) stands(p *post, user int, now mayfly.Instant) (*post, bool) {
	if p.kind == repost && m.sees(p, user, now) {
		p = p.about
	}
	return p, p.kind != repost && m.sees(p, user, now)
}

func (m *Model) publish(t testing.TB, s System, rng *rand.Rand, author int) {
	t.Helper()
	p := &post{author: author}
	lifetime := []string{"never", "never", "never", "1h", "30d"}[rng.IntN(5)]
	about, isQuote := mayfly.ID{}, false
	if to := m.pick(rng); to != nil && rng.IntN(2) == 0 {
		if rng.IntN(3) == 0 { // go on with an own thread
			for _, q := range slices.Backward(m.posts) {
				if q.author == author && q.kind != repost {
					to = q
					break
				}
			}
		}
		about, isQuote = to.id, rng.IntN(3) == 0
		of, visible := m.stands(to, author, s.Now())
		if p.kind, p.about = reply, of; isQuote {
			p.kind = quote
		}
		p.own = p.kind == reply && of.author == author && (of.kind != reply || of.own)
		if !visible {
			_, err := s.Publish(author, about, isQuote, lifetime)
			m.expect(t, "reply to what the author does not see", err, mayfly.NotFound, mayfly.Gone)
			return
		}
	}
	id, err := s.Publish(author, about, isQuote, lifetime)
	if m.expect(t, "publish", err) {
		p.id = id
		m.born(p)
		*map[kind]*int{original: &m.Counts.originals, reply: &m.Counts.replies, quote: &m.Counts.quotes}[p.kind]++
		if id.Expires() {
			m.Counts.ends++
		}
	}
}

// repostOf returns the repost of a post by a user.
func (m *Model) repostOf(of *post, user int) *post {
	for _, p := range m.posts {
		if p.kind == repost && p.about == of && p.author == user && !p.deleted {
			return p
		}
	}
	return nil
}

func (m *Model) repost(t testing.TB, s System, rng *rand.Rand, user int) {
	t.Helper()
	p := m.pick(rng)
	if p == nil {
		return
	}
	of, visible := m.stands(p, user, s.Now())
	id, err := s.Repost(user, p.id)
	if !visible {
		m.expect(t, "repost what the user does not see", err, mayfly.NotFound, mayfly.Gone)
		return
	}
	if !m.expect(t, "repost", err) {
		return
	}
	if known := m.repostOf(of, user); known == nil {
		m.born(&post{id: id, author: user, kind: repost, about: of})
		m.Counts.reposts++
	} else if known.id != id {
		m.Counts.Others++
		t.Errorf("reposted again: %s, was %s", id, known.id)
	}
}

func (m *Model) unrepost(t testing.TB, s System, rng *rand.Rand, user int) {
	t.Helper()
	p := m.pick(rng)
	for range 20 { // one that the user has reposted
		if p == nil || p.kind != repost && m.repostOf(p, user) != nil {
			break
		}
		p = m.pick(rng)
	}
	if p == nil || p.kind == repost {
		return
	}
	if m.expect(t, "take a repost back", s.Unrepost(user, p.id)) {
		if is := m.repostOf(p, user); is != nil {
			is.deleted = true
		}
	}
}

func (m *Model) remove(t testing.TB, s System, rng *rand.Rand) {
	t.Helper()
	p := m.pick(rng)
	if p == nil {
		return
	}
	m.Counts.deletes++
	err := s.Delete(p.author, p.id)
	switch {
	case p.id.ExpiredAt(s.Now()):
		m.expect(t, "delete what has ended", err, mayfly.Gone)
	case p.held:
		m.expect(t, "delete what is held", err, mayfly.NotFound)
	default:
		if m.expect(t, "delete", err) {
			p.deleted = true
		}
	}
}

// hold holds a post, or releases it. Reposts are not held: what they repost is.
func (m *Model) hold(t testing.TB, s System, rng *rand.Rand) {
	t.Helper()
	p := m.pick(rng)
	if p == nil || p.kind == repost || p.deleted || p.id.ExpiredAt(s.Now()) {
		return
	}
	if m.expect(t, fmt.Sprintf("hold %t", !p.held), s.Hold(p.id, !p.held)) {
		p.held = !p.held
	}
}

func (m *Model) accept(t testing.TB, s System, reader, author int) {
	t.Helper()
	for n := range m.users * m.users { // of any user who asks
		if pair := [2]int{n / m.users, n % m.users}; m.related[pair].state == "requested" {
			reader, author = pair[0], pair[1]
			break
		}
	}
	err := s.Accept(author, reader)
	if m.related[[2]int{reader, author}].state == "" {
		m.expect(t, "accept who does not ask", err, mayfly.NotFound)
	} else if m.expect(t, "accept", err) {
		m.change(reader, author, func(r *relation) { r.state = "following" })
	}
}

func (m *Model) block(t testing.TB, s System, rng *rand.Rand, reader, author int) {
	t.Helper()
	user, other := reader, author
	if rng.IntN(2) == 0 {
		user, other = author, reader
	}
	blocks := !m.related[[2]int{user, other}].blocks
	if !m.expect(t, "block", s.Block(user, other, blocks)) {
		return
	}
	m.Counts.blocks++
	m.change(user, other, func(r *relation) { r.blocks = blocks })
	if blocks { // ends the follows of both
		m.change(user, other, func(r *relation) { r.state = "" })
		m.change(other, user, func(r *relation) { r.state = "" })
	}
}

// Run builds a graph, does steps operations, reads the home of the reader whom each
// concerns after it, and at last every home to its end.
func Run(t testing.TB, s System, rng *rand.Rand, users, follows, steps int) Counts {
	t.Helper()
	m := New(users)
	m.Grow(t, s, rng, follows)
	for range steps {
		m.Check(t, s, rng, m.Step(t, s, rng), 1)
		if m.Counts.Wrong() > 10 {
			t.Fatal("too much is wrong")
		}
	}
	all := len(m.posts) + 1
	for reader := range users {
		m.Check(t, s, rng, reader, all)
	}
	m.between(t, s, rng, steps/10)
	return m.Counts
}

// between reads homes while operations come between the pages.
func (m *Model) between(t testing.TB, s System, rng *rand.Rand, rounds int) {
	t.Helper()
	for range rounds {
		reader, cursor, before, seen := rng.IntN(m.users), "", mayfly.ID{}, map[mayfly.ID]bool{}
		for range 6 {
			page, err := s.Home(reader, cursor, 5)
			if err != nil {
				t.Fatalf("home of %d: %v", reader, err)
			}
			want := m.home(reader, before, s.Now())
			m.Counts.Pages++
			m.Counts.Posts += len(page.Posts)
			m.compare(t, reader, page.Posts, want[:min(5, len(want))], seen)
			if cursor = page.Next; cursor == "" {
				break
			}
			before = page.Posts[len(page.Posts)-1].ID
			m.Step(t, s, rng)
			if author, ok := m.followed(rng, reader); ok {
				s.Pass()
				m.publish(t, s, rng, author)
			}
		}
	}
}

// String says how much was tried.
func (c Counts) String() string {
	return fmt.Sprintf("%d operations (%d refused as they must be): %d posts, %d replies, %d quotes, %d reposts, %d with an end; %d deletes, %d unfollows, %d blocks, %d mutes; %d pages with %d posts read",
		c.Operations, c.Refused, c.originals, c.replies, c.quotes, c.reposts, c.ends, c.deletes, c.unfollows, c.blocks, c.mutes, c.Pages, c.Posts)
}
