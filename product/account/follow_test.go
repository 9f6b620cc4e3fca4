package account_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
)

func (h *fixture) follow(reader, author mayfly.UserID, want account.FollowState) {
	h.Helper()
	state, err := h.accounts.Follow(h.Context(), reader, author, start)
	if h.must(err); state != want {
		h.Errorf("%s, want %s", state, want)
	}
}

func (h *fixture) unfollow(reader, author mayfly.UserID) {
	h.Helper()
	h.must(h.accounts.Unfollow(h.Context(), reader, author, start))
}

func (h *fixture) setPrivate(user mayfly.UserID, private bool) {
	h.Helper()
	_, err := h.accounts.Change(h.Context(), user, account.ProfileChange{Private: &private}, start)
	h.must(err)
}

// all returns every page of a list.
func all[T any](t testing.TB, limit int, list func(after string, limit int) ([]T, string, error)) (whole []T) {
	t.Helper()
	after := ""
	for range 1000 {
		page, next, err := list(after, limit)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > limit {
			t.Fatalf("a page of %d, at most %d", len(page), limit)
		}
		if whole = append(whole, page...); next == "" {
			return whole
		}
		after = next
	}
	t.Fatal("the list does not end")
	return nil
}

func (h *fixture) followers(author mayfly.UserID) []mayfly.UserID {
	h.Helper()
	return all(h, 7, func(after string, limit int) ([]mayfly.UserID, string, error) {
		return h.accounts.Followers(h.Context(), author, after, limit)
	})
}

func (h *fixture) requests(author mayfly.UserID) []mayfly.UserID {
	h.Helper()
	return all(h, 3, func(after string, limit int) ([]mayfly.UserID, string, error) {
		return h.accounts.Requests(h.Context(), author, after, limit)
	})
}

func (h *fixture) following(reader mayfly.UserID) (authors []mayfly.UserID) {
	h.Helper()
	for _, e := range all(h, 7, func(after string, limit int) ([]account.Edge, string, error) {
		return h.accounts.Following(h.Context(), reader, after, limit)
	}) {
		authors = append(authors, e.User)
	}
	return authors
}

// quiesce follows every mark, as the upkeep does, and returns the last pass.
func (h *fixture) quiesce(from mayfly.Instant) (settled int) {
	h.Helper()
	for n, after := range []time.Duration{10 * time.Second, 20 * time.Second, 3 * time.Hour, 6 * time.Hour, 9 * time.Hour} {
		done, err := h.accounts.Recount(h.Context(), from.Add(after))
		h.must(err)
		if settled += done.Settled; n > 2 && done.Left == 0 {
			return settled
		}
	}
	h.Error("marks are left")
	return settled
}

func (h *fixture) verify(users ...mayfly.UserID) {
	h.Helper()
	differences, err := h.accounts.VerifyEdges(h.Context(), users...)
	if h.must(err); len(differences) > 0 {
		h.Errorf("%d differences: %v", len(differences), differences[:min(len(differences), 5)])
	}
}

func TestAFollowIsSeenFromBothSidesAndEnds(t *testing.T) {
	h := open(t)
	for range 2 {
		h.follow(ben(), ana(), account.Following)
	}
	if h.relation(ana(), ben()) != mayfly.Follower || h.relation(ben(), ana()) != 0 ||
		!slices.Equal(h.followers(ana()), []mayfly.UserID{ben()}) || !slices.Equal(h.following(ben()), []mayfly.UserID{ana()}) || len(h.following(ana())) != 0 {
		t.Error("the follow is not there, or not from one side only")
	}
	h.quiesce(start)
	h.verify(ana(), ben())
	profiles, err := h.accounts.Profiles(t.Context(), ana(), ben(), stranger())
	if h.must(err); profiles[0].Followers != 1 || profiles[0].Following != 0 || profiles[1].Following != 1 || profiles[2] != (account.Profile{User: stranger()}) {
		t.Errorf("%+v", profiles)
	}
	for range 2 {
		h.unfollow(ben(), ana())
	}
	if h.relation(ana(), ben()) != 0 || len(h.followers(ana())) != 0 || len(h.following(ben())) != 0 {
		t.Error("the follow is still there")
	}
	h.quiesce(start.Add(24 * time.Hour))
	h.verify(ana(), ben())
}

func TestAPrivateAccountAcceptsOrDeclines(t *testing.T) {
	h := open(t)
	h.follow(stranger(), ana(), account.Following)
	h.setPrivate(ana(), true)
	h.follow(ben(), ana(), account.Requested)
	h.follow(stranger(), ana(), account.Following) // as before
	if h.relation(ana(), ben()) != mayfly.Private || !slices.Equal(h.requests(ana()), []mayfly.UserID{ben()}) || !slices.Equal(h.followers(ana()), []mayfly.UserID{stranger()}) {
		t.Fatal("a request is a follow, or is not listed")
	}
	h.must(h.accounts.Decline(t.Context(), ana(), ben(), start))
	h.must(h.accounts.Decline(t.Context(), ana(), stranger(), start)) // a follower goes on
	if len(h.requests(ana())) != 0 || !h.relation(ana(), stranger()).Has(mayfly.Follower) {
		t.Fatal("the request is still there, or a follower was removed")
	}
	if err := h.accounts.Accept(t.Context(), ana(), ben(), start); !errors.Is(err, mayfly.NotFound) {
		t.Error(err)
	}
	h.follow(ben(), ana(), account.Requested)
	for range 2 {
		h.must(h.accounts.Accept(t.Context(), ana(), ben(), start))
	}
	if h.relation(ana(), ben()) != mayfly.Private|mayfly.Follower || len(h.requests(ana())) != 0 || len(h.followers(ana())) != 2 {
		t.Fatal("the request was not accepted")
	}
	h.quiesce(start)
	h.verify(ana(), ben(), stranger())
}

// An anonymous viewer has no relation, but the account is private for that viewer too.
func TestRelationsOfManyOwnersAreThoseOfEach(t *testing.T) {
	h := open(t)
	h.setPrivate(ana(), true)
	h.relate(ana(), ben(), mayfly.Follower|mayfly.CloseFriend, 0)
	h.relate(ben(), stranger(), mayfly.Blocked, 0)
	h.must(h.accounts.Mute(t.Context(), ben(), ana(), mayfly.MutesReposts, 0, start))
	users := []mayfly.UserID{stranger(), ana(), {}, ben(), ana()}
	for viewer, want := range map[mayfly.UserID][]mayfly.Relation{
		{}:         {0, mayfly.Private, 0, 0, mayfly.Private},
		ben():      {mayfly.Blocks, mayfly.Private | mayfly.Follower | mayfly.CloseFriend | mayfly.MutesReposts, 0, 0, mayfly.Private | mayfly.Follower | mayfly.CloseFriend | mayfly.MutesReposts},
		stranger(): {0, mayfly.Private, 0, mayfly.Blocked, mayfly.Private},
	} {
		got, err := h.accounts.RelationsOf(t.Context(), viewer, users...)
		if h.must(err); !slices.Equal(got, want) {
			t.Errorf("%s: %b, want %b", viewer, got, want)
		}
	}
}

func TestABlockEndsTheFollowsOfBoth(t *testing.T) {
	h := open(t)
	h.setPrivate(ben(), true)
	h.follow(ben(), ana(), account.Following)
	h.follow(ana(), ben(), account.Requested)
	h.must(h.accounts.Accept(t.Context(), ben(), ana(), start))
	h.relate(ana(), ben(), mayfly.Blocked, 0)
	if h.relation(ana(), ben()) != mayfly.Blocked || h.relation(ben(), ana()) != mayfly.Blocks|mayfly.Private || len(h.followers(ana())) != 0 || len(h.followers(ben())) != 0 {
		t.Errorf("%b, %b", h.relation(ana(), ben()), h.relation(ben(), ana()))
	}
	h.follow(ben(), ana(), account.Following) // like a user who never was, and not written
	if len(h.followers(ana())) != 0 || len(h.following(ben())) != 0 {
		t.Error("a blocked user follows")
	}
	if _, err := h.accounts.Follow(t.Context(), ana(), ben(), start); !errors.Is(err, mayfly.Conflict) {
		t.Errorf("follows whom she blocks: %v", err)
	}
	h.relate(ana(), ben(), 0, mayfly.Blocked)
	if h.relation(ana(), ben()) != 0 {
		t.Error("the follow came back")
	}
	h.quiesce(start)
	h.verify(ana(), ben())
}

func TestAMuteStaysWithAndWithoutAFollow(t *testing.T) {
	h := open(t)
	mute := func(set, clear mayfly.Relation) {
		t.Helper()
		h.must(h.accounts.Mute(t.Context(), ben(), ana(), set, clear, start))
	}
	mute(mayfly.MutesPosts, 0)
	h.follow(ben(), ana(), account.Following)
	mute(mayfly.MutesReposts, mayfly.MutesPosts)
	if r := h.relation(ana(), ben()); r != mayfly.Follower|mayfly.MutesReposts {
		t.Errorf("%b", r)
	}
	h.unfollow(ben(), ana())
	if r := h.relation(ana(), ben()); r != mayfly.MutesReposts || len(h.followers(ana()))+len(h.following(ben())) != 0 {
		t.Errorf("%b", r)
	}
	muted, _, err := h.accounts.Muted(t.Context(), ben(), "", 10)
	if h.must(err); len(muted) != 1 || muted[0].User != ana() || muted[0].Muted != mayfly.MutesReposts {
		t.Errorf("%+v", muted)
	}
	h.quiesce(start)
	h.verify(ana(), ben())
	for _, set := range []mayfly.Relation{0, mayfly.Follower} {
		if err := h.accounts.Mute(t.Context(), ben(), ana(), set, 0, start); !errors.Is(err, mayfly.Invalid) {
			t.Error(err)
		}
	}
}

// Above the threshold new followers go to other partitions; those before stay.
func TestFollowersOfAPopularAuthorAreSplitAndListedWhole(t *testing.T) {
	h := open(t, func(o *account.Options) { o.FollowersAbove = 20 })
	var want []mayfly.UserID
	add := func(from, to int) {
		for n := from; n < to; n++ {
			reader := mayfly.UserOf("mayfly", fmt.Sprint("reader ", n))
			h.follow(reader, ana(), account.Following)
			want = append(want, reader)
		}
	}
	add(0, 21)
	h.quiesce(start)
	add(21, 120)
	for _, n := range []int{3, 30, 100} {
		h.unfollow(want[n], ana())
	}
	h.quiesce(start.Add(24 * time.Hour))
	for _, n := range []int{100, 30, 3} {
		want = slices.Delete(want, n, n+1)
	}
	got := h.followers(ana())
	byID := func(a, b mayfly.UserID) int { return mayfly.ID(a).Compare(mayfly.ID(b)) }
	slices.SortFunc(got, byID)
	slices.SortFunc(want, byID)
	if !slices.Equal(got, want) {
		t.Errorf("%d followers, want %d", len(got), len(want))
	}
	h.verify(ana())
	first, err := h.rows.Range(t.Context(), account.Followers, store.Range{Partition: string(idOf(ana())), Limit: 1000})
	if h.must(err); len(first) > 21 {
		t.Errorf("%d rows in the first partition", len(first))
	}
}

func idOf(user mayfly.UserID) []byte { return user[:] }

// graph is the plain model of what random operations make.
type graph struct {
	follows map[[2]mayfly.UserID]account.FollowState // reader, author
	blocks  map[[2]mayfly.UserID]bool                // owner, other
	private map[mayfly.UserID]bool
}

var errStopped = mayfly.Errorf(mayfly.Unavailable, "stopped")

// faulty stops before a swap, and may let it land later.
type faulty struct {
	store.Rows
	left int // swaps until one fails; negative: none
	late bool
	open []func() error
}

func (f *faulty) Swap(ctx context.Context, t store.Table, key store.Key, old, new []byte, at mayfly.Instant) (bool, []byte, error) {
	if f.left > 0 {
		f.left--
	} else if f.left == 0 {
		if f.late {
			f.open = append(f.open, func() error {
				_, _, err := f.Rows.Swap(context.WithoutCancel(ctx), t, key, old, new, at)
				return err
			})
			f.left = -1
		}
		return false, nil, errStopped
	}
	return f.Rows.Swap(ctx, t, key, old, new, at)
}

// A random operation is stopped at a random write, which may land later; then it is
// asked again, as a client does, or left. After the upkeep has run the edges are what
// the model says, and both directions and the counts agree.
func TestRandomOperationsWithCrashesLeaveTheGraphOfTheModel(t *testing.T) {
	stops, lates, settled := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		f := &faulty{left: -1}
		h := open(t, func(o *account.Options) { f.Rows = o.Rows; o.Rows = f; o.FollowersAbove = 2 })
		users := make([]mayfly.UserID, 5)
		for n := range users {
			users[n] = mayfly.UserOf("mayfly", fmt.Sprint("user ", n))
		}
		m := graph{map[[2]mayfly.UserID]account.FollowState{}, map[[2]mayfly.UserID]bool{}, map[mayfly.UserID]bool{}}
		now, ctx := start, context.Background()
		for range rapid.IntRange(5, 30).Draw(rt, "operations") {
			a, b := rapid.SampledFrom(users).Draw(rt, "a"), rapid.SampledFrom(users).Draw(rt, "b")
			if a == b {
				continue
			}
			op := rapid.SampledFrom([]string{"follow", "follow", "follow", "unfollow", "block", "unblock", "flip", "accept", "remove", "recount"}).Draw(rt, "operation")
			do := func() error {
				switch op {
				case "follow":
					_, err := h.accounts.Follow(ctx, a, b, now)
					if errors.Is(err, mayfly.Conflict) {
						return nil
					}
					return err
				case "unfollow":
					return h.accounts.Unfollow(ctx, a, b, now)
				case "remove":
					return h.accounts.Unfollow(ctx, b, a, now)
				case "block":
					return h.accounts.Relate(ctx, a, b, mayfly.Blocked, 0, now)
				case "unblock":
					return h.accounts.Relate(ctx, a, b, 0, mayfly.Blocked, now)
				case "accept":
					err := h.accounts.Accept(ctx, b, a, now)
					if errors.Is(err, mayfly.NotFound) {
						return nil
					}
					return err
				case "flip":
					private := !m.private[a]
					_, err := h.accounts.Change(ctx, a, account.ProfileChange{Private: &private}, now)
					return err
				default:
					_, err := h.accounts.Recount(ctx, now)
					return err
				}
			}
			if rapid.IntRange(0, 2).Draw(rt, "fault") == 0 {
				f.left, f.late = rapid.IntRange(0, 12).Draw(rt, "stop after"), rapid.Bool().Draw(rt, "late")
				if err := do(); err != nil {
					stops++
				}
				f.left = -1
				now = now.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(rt, "ms")) * time.Millisecond)
			}
			if err := do(); err != nil {
				rt.Fatalf("%s: %v", op, err)
			}
			landNow := rapid.Bool().Draw(rt, "land")
			if landNow {
				lates += len(f.open)
				for _, land := range f.open {
					h.must(land())
				}
				f.open = nil
			}
			edge := [2]mayfly.UserID{a, b}
			switch op {
			case "follow":
				if !m.blocks[edge] && !m.blocks[[2]mayfly.UserID{b, a}] && m.follows[edge] != account.Following {
					if m.follows[edge] = account.Following; m.private[b] {
						m.follows[edge] = account.Requested
					}
				}
			case "unfollow":
				delete(m.follows, edge)
			case "remove":
				delete(m.follows, [2]mayfly.UserID{b, a})
			case "block":
				m.blocks[edge] = true
				delete(m.follows, edge)
				delete(m.follows, [2]mayfly.UserID{b, a})
			case "unblock":
				delete(m.blocks, edge)
			case "accept":
				if m.follows[edge] != account.NotFollowing {
					m.follows[edge] = account.Following
				}
			case "flip":
				m.private[a] = !m.private[a]
			}
		}
		lates += len(f.open)
		for _, land := range f.open {
			h.must(land())
		}
		settled += h.quiesce(now)
		for _, author := range users {
			var followers, requests []mayfly.UserID
			for _, reader := range users {
				switch m.follows[[2]mayfly.UserID{reader, author}] {
				case account.Following:
					followers = append(followers, reader)
				case account.Requested:
					requests = append(requests, reader)
				}
			}
			for name, lists := range map[string][2][]mayfly.UserID{"followers": {h.followers(author), followers}, "requests": {h.requests(author), requests}} {
				for _, list := range lists {
					slices.SortFunc(list, func(a, b mayfly.UserID) int { return mayfly.ID(a).Compare(mayfly.ID(b)) })
				}
				if !slices.Equal(lists[0], lists[1]) {
					rt.Errorf("%s of %s: %v, want %v", name, author, lists[0], lists[1])
				}
			}
			differences, err := h.accounts.VerifyEdges(ctx, author)
			if err != nil || len(differences) > 0 {
				rt.Errorf("%v, %v", differences, err)
			}
		}
	})
	t.Logf("%d operations stopped, %d writes landed late, %d edges settled by the upkeep", stops, lates, settled)
	if stops < 50 || lates < 20 {
		t.Error("too few")
	}
}

// An operation that stops and is never asked again leaves nothing wrong either.
func TestAnOperationStoppedAtEachWriteIsSettledByTheUpkeep(t *testing.T) {
	stops, settled := 0, 0
	for name, do := range map[string]func(h *fixture) error{
		"follow":   func(h *fixture) error { _, err := h.accounts.Follow(h.Context(), ben(), ana(), start); return err },
		"unfollow": func(h *fixture) error { return h.accounts.Unfollow(h.Context(), stranger(), ana(), start) },
		"block": func(h *fixture) error {
			return h.accounts.Relate(h.Context(), ana(), stranger(), mayfly.Blocked, 0, start)
		},
		"accept": func(h *fixture) error { return h.accounts.Accept(h.Context(), stranger(), ben(), start) },
	} {
		for _, late := range []bool{false, true} {
			for at := range 30 {
				f := &faulty{left: -1, late: late}
				h := open(t, func(o *account.Options) { f.Rows = o.Rows; o.Rows = f })
				h.follow(stranger(), ana(), account.Following)
				h.setPrivate(stranger(), true)
				h.follow(ben(), stranger(), account.Requested)
				h.quiesce(start.Add(-24 * time.Hour))
				f.left = at
				err := do(h)
				whole := f.left > 0 && len(f.open) == 0
				f.left = -1
				if err != nil {
					stops++
				}
				before := len(h.followers(ana()))
				for _, after := range []time.Duration{10 * time.Second, 20 * time.Second} {
					done, err := h.accounts.Recount(t.Context(), start.Add(after))
					h.must(err)
					settled += done.Settled
				}
				for _, land := range f.open { // before the last look at the mark
					h.must(land())
				}
				settled += h.quiesce(start)
				if after := len(h.followers(ana())); !late && before != after {
					t.Errorf("%s stopped after %d: %d followers listed, %d after the upkeep", name, at, before, after)
				}
				h.verify(ana(), ben(), stranger())
				if whole {
					break
				}
			}
		}
	}
	if t.Logf("%d stops, %d edges settled", stops, settled); stops < 50 || settled < 10 {
		t.Error("too few")
	}
}

func TestCountsAreThoseOfTheRowsAfterManyWritersAtOnce(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	h := open(t, func(o *account.Options) { o.FollowersAbove = 30 })
	users := make([]mayfly.UserID, 64)
	for n := range users {
		users[n] = mayfly.UserOf("mayfly", fmt.Sprint("writer ", n))
	}
	var wg sync.WaitGroup
	for n, reader := range users {
		random := rand.New(rand.NewPCG(seed, uint64(n)))
		wg.Go(func() {
			for step := range 12 {
				author := users[random.IntN(4)] // few, so that they meet
				if random.IntN(4) == 0 {
					author = users[random.IntN(len(users))]
				}
				if author == reader {
					continue
				}
				now := start.Add(time.Duration(step) * time.Second)
				var err error
				switch random.IntN(6) {
				case 0:
					err = h.accounts.Unfollow(context.Background(), reader, author, now)
				case 1:
					_, err = h.accounts.Recount(context.Background(), now.Add(time.Duration(random.IntN(20))*time.Second))
				default:
					_, err = h.accounts.Follow(context.Background(), reader, author, now)
				}
				if err != nil && !errors.Is(err, mayfly.Unavailable) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	h.quiesce(start.Add(time.Minute))
	h.verify(users...)
}
