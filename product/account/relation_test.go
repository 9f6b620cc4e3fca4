package account_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
	storefixture "github.com/mayflyhq/mayfly/test/fixture"
)

func (h *fixture) relate(owner, other mayfly.UserID, set, clear mayfly.Relation) {
	h.Helper()
	h.must(h.accounts.Relate(h.Context(), owner, other, set, clear, start))
}

func (h *fixture) relation(owner, other mayfly.UserID) mayfly.Relation {
	h.Helper()
	r, err := h.accounts.Relation(h.Context(), owner, other)
	h.must(err)
	return r
}

// related reports whether the other direction of the relation is stored.
func (h *fixture) related(other, owner mayfly.UserID) bool {
	h.Helper()
	found, err := h.rows.Get(h.Context(), account.Related, account.RelatedKey(other, owner))
	h.must(err)
	return found[0] != nil
}

func TestRelationsAddUpAndGoOneByOne(t *testing.T) {
	h := open(t)
	for _, c := range []struct{ set, clear, want mayfly.Relation }{
		{0, mayfly.Blocked, 0},
		{mayfly.Follower, 0, mayfly.Follower},
		{mayfly.CloseFriend, 0, mayfly.Follower | mayfly.CloseFriend},
		{mayfly.CloseFriend, 0, mayfly.Follower | mayfly.CloseFriend},
		{mayfly.Blocked, mayfly.Follower | mayfly.CloseFriend, mayfly.Blocked},
		{0, mayfly.Blocked, 0},
	} {
		h.relate(ana(), ben(), c.set, c.clear)
		if got := h.relation(ana(), ben()); got != c.want || !h.related(ben(), ana()) { // it fades after what it names
			t.Fatalf("%+v: %b, other direction %v", c, got, h.related(ben(), ana()))
		}
		if h.relation(ben(), ana())&^mayfly.Blocks != 0 || h.relation(ana(), stranger()) != 0 || h.relation(ana(), mayfly.UserID{}) != 0 {
			t.Fatal("the relation of another user changed")
		}
	}
}

func TestRelationsThatMakeNoSenseAreRefused(t *testing.T) {
	h := open(t)
	for why, ask := range map[string]func() error{
		"oneself":  func() error { return h.accounts.Relate(t.Context(), ana(), ana(), mayfly.Follower, 0, start) },
		"no owner": func() error { return h.accounts.Relate(t.Context(), mayfly.UserID{}, ana(), mayfly.Follower, 0, start) },
		"no other": func() error { return h.accounts.Relate(t.Context(), ana(), mayfly.UserID{}, mayfly.Follower, 0, start) },
		"nothing":  func() error { return h.accounts.Relate(t.Context(), ana(), ben(), 0, 0, start) },
		"both": func() error {
			return h.accounts.Relate(t.Context(), ana(), ben(), mayfly.Follower, mayfly.Follower, start)
		},
		"a list of followers": func() error { _, _, err := h.accounts.List(t.Context(), ana(), mayfly.Follower, "", 10); return err },
		"no such":             func() error { return h.accounts.Relate(t.Context(), ana(), ben(), 1<<7, 0, start) },
		"a list of none":      func() error { _, _, err := h.accounts.List(t.Context(), ana(), 0, "", 10); return err },
		"a list of no user": func() error {
			_, _, err := h.accounts.List(t.Context(), mayfly.UserID{}, mayfly.Blocked, "", 10)
			return err
		},
		"no cursor":    func() error { _, _, err := h.accounts.List(t.Context(), ana(), mayfly.Blocked, "x", 10); return err },
		"a cursor cut": func() error { _, _, err := h.accounts.List(t.Context(), ana(), mayfly.Blocked, "AQAA", 10); return err },
	} {
		if err := ask(); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%s: %v", why, err)
		}
	}
}

func TestNoRelationToAnErasedUserIsWritten(t *testing.T) {
	h := open(t)
	h.relate(ana(), ben(), mayfly.CloseFriend, 0)
	h.erase(ben())
	for _, pair := range [][2]mayfly.UserID{{ana(), ben()}, {ben(), ana()}} {
		if err := h.accounts.Relate(t.Context(), pair[0], pair[1], mayfly.Follower, 0, start); err != nil {
			t.Error(err) // I18: as of a user who never was
		}
		if r, err := h.accounts.Relation(t.Context(), pair[0], pair[1]); err != nil || r.Has(mayfly.Follower) {
			t.Error("it was written", r, err)
		}
	}
	h.relate(ana(), ben(), 0, mayfly.CloseFriend) // taking back is always allowed
}

func TestListsAreWholeInPagesAndHoldOneRelation(t *testing.T) {
	h := open(t)
	var friends []mayfly.UserID
	for n := range 60 {
		other := mayfly.UserID{1, byte(n), 7}
		switch n % 3 {
		case 0:
			h.relate(ana(), other, mayfly.CloseFriend|mayfly.Follower, 0)
			friends = append(friends, other)
		case 1:
			h.relate(ana(), other, mayfly.Blocked, 0)
		default:
			h.relate(ana(), other, mayfly.Follower, 0) // in another table
		}
	}
	for _, limit := range []int{1, 3, 19, 20, 21, 0, 10_000} {
		var all []mayfly.UserID
		after, pages := "", 0
		for pages < 100 {
			users, next, err := h.accounts.List(t.Context(), ana(), mayfly.CloseFriend, after, limit)
			h.must(err)
			if limit > 0 && len(users) > limit {
				t.Fatalf("a page of %d", len(users))
			}
			all, after, pages = append(all, users...), next, pages+1
			if next == "" {
				break
			}
		}
		if !slices.Equal(all, friends) {
			t.Errorf("limit %d: %d of %d in %d pages", limit, len(all), len(friends), pages)
		}
	}
	if users, next, err := h.accounts.List(t.Context(), ben(), mayfly.Blocked, "", 10); err != nil || len(users) > 0 || next != "" {
		t.Errorf("%v, %q, %v", users, next, err)
	}
}

func TestALongListOfBlocksDoesNotHideAFriendBehindIt(t *testing.T) {
	h := open(t, func(o *account.Options) { o.Rows = many{o.Rows} })
	after, calls := "", 0
	for calls < 100 {
		calls++
		users, next, err := h.accounts.List(t.Context(), ana(), mayfly.CloseFriend, after, 10)
		h.must(err)
		if len(users) == 1 && next == "" {
			break
		}
		if len(users) > 0 || next == "" {
			t.Fatalf("%v, %q", users, next)
		}
		after = next
	}
	if calls != 3 { // 20,001 rows, 10,000 in a call
		t.Errorf("%d calls", calls)
	}
}

// many is rows of 20,000 blocks, with one close friend at the end.
type many struct{ store.Rows }

func (many) Range(_ context.Context, _ store.Table, r store.Range) ([]store.Row, error) {
	var page []store.Row
	for n := range 20_001 {
		user := mayfly.UserID{byte(n >> 16), byte(n >> 8), byte(n)}
		if string(user[:]) < r.From || len(page) == r.Limit {
			continue
		}
		relation := mayfly.Blocked
		if n == 20_000 {
			relation = mayfly.CloseFriend
		}
		page = append(page, store.Row{Clustering: string(user[:]), Value: append([]byte{1, byte(relation)}, make([]byte, 8)...)})
	}
	return page, nil
}

// deaf is signals that cannot be published.
type deaf struct{ store.Signals }

func (deaf) Publish(context.Context, store.Signal) error {
	return mayfly.Errorf(mayfly.Unavailable, "away")
}

func TestAChangeWithoutSignalsWaitsUntilCachesAreOutdated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, func(o *account.Options) { o.Signals = deaf{o.Signals} })
		for range 2 { // also when nothing changes: the first try may have ended before its signal
			begun := time.Now()
			if err := h.accounts.Relate(context.Background(), ana(), ben(), mayfly.Blocked, 0, start); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(begun); waited != store.CacheWait {
				t.Errorf("waited %s", waited)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := h.accounts.Relate(ctx, ana(), ben(), 0, mayfly.Blocked, start); !errors.Is(err, mayfly.Unavailable) {
			t.Errorf("answered before the wait was over: %v", err)
		}
	})
}

func TestCachesAreInvalidatedAfterTheWriteAndBeforeTheAnswer(t *testing.T) {
	h := open(t)
	var seen []mayfly.Relation
	sub, err := h.signals.Subscribe(t.Context(), func(s store.Signal) {
		if s.Topic == store.RelationsChanged && s.Owner == ana() {
			r, err := h.accounts.Relation(context.Background(), ana(), ben())
			h.must(err)
			seen = append(seen, r)
		}
	})
	h.must(err)
	h.relate(ana(), ben(), mayfly.Blocked, 0)
	h.relate(ana(), ben(), 0, mayfly.Blocked)
	if !slices.Equal(seen, []mayfly.Relation{mayfly.Blocked, 0}) {
		t.Errorf("%b", seen)
	}
	h.must(sub.Close())
}

// A write with an unknown outcome lands late. Changes that were acknowledged since
// stay, also where they changed nothing (ST10).
func TestAChangeThatLandsLateChangesNothingThatWasAcknowledgedSince(t *testing.T) {
	const friend = mayfly.CloseFriend
	tried := 0
	for _, c := range []struct {
		before, set, clear mayfly.Relation   // the change that lands late
		then               []mayfly.Relation // what is asked after it: what is to be; nothing clears
		want               mayfly.Relation
	}{
		{before: mayfly.Blocked, clear: mayfly.Blocked, then: []mayfly.Relation{mayfly.Blocked}, want: mayfly.Blocked},
		{set: friend, then: []mayfly.Relation{0}},
		{set: friend, then: []mayfly.Relation{friend, 0}},
		{before: friend, clear: friend, then: []mayfly.Relation{0, friend}, want: friend},
		{before: mayfly.Follower, set: friend, then: []mayfly.Relation{0}, want: mayfly.Follower},
	} {
		for fail := range 3 { // which of its writes lands late
			late := &lateRows{fail: -1}
			h := open(t, func(o *account.Options) { late.Rows = o.Rows; o.Rows = late })
			if c.before != 0 {
				h.relate(ana(), ben(), c.before, 0)
			}
			late.fail = fail
			if err := h.accounts.Relate(t.Context(), ana(), ben(), c.set, c.clear, start); err == nil {
				continue // it has fewer writes
			}
			late.fail = -1
			for _, then := range c.then {
				h.relate(ana(), ben(), then, (c.set|c.clear)&^then)
			}
			tried++
			late.land(t)
			if got := h.relation(ana(), ben()); got != c.want || got != 0 && !h.related(ben(), ana()) {
				t.Errorf("%+v, write %d: %b after it landed; other direction %v", c, fail, got, h.related(ben(), ana()))
			}
		}
	}
	if t.Logf("%d writes landed late", tried); tried < 8 {
		t.Errorf("only %d", tried)
	}
}

// lateRows fails one swap, which is written when land is called.
type lateRows struct {
	store.Rows
	fail  int // how many pass before it; none fails below 0
	lands []func(context.Context) (bool, []byte, error)
}

func (l *lateRows) Swap(ctx context.Context, t store.Table, key store.Key, old, new []byte, reclaimAt mayfly.Instant) (bool, []byte, error) {
	if l.fail--; l.fail == -1 {
		l.lands = append(l.lands, func(ctx context.Context) (bool, []byte, error) { return l.Rows.Swap(ctx, t, key, old, new, reclaimAt) })
		return false, nil, mayfly.Errorf(mayfly.Unavailable, "no answer in time")
	}
	return l.Rows.Swap(ctx, t, key, old, new, reclaimAt)
}

func (l *lateRows) land(t *testing.T) {
	t.Helper()
	for _, land := range l.lands {
		if _, _, err := land(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRacingChangesLoseNoneAndTheOtherDirectionKnows(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	h := open(t)
	random := rand.New(rand.NewPCG(seed, 0))
	all := []mayfly.Relation{mayfly.CloseFriend, mayfly.Blocked}
	for range 60 {
		var wg sync.WaitGroup
		var want mayfly.Relation
		for _, r := range all { // each relation by a changer of its own: all must land
			set := random.IntN(2) == 0
			if set {
				want |= r
			}
			turns := 1 + random.IntN(3)
			wg.Go(func() {
				for range turns {
					on, off := r, mayfly.Relation(0)
					if !set {
						on, off = off, on
					}
					for {
						err := h.accounts.Relate(context.Background(), ana(), ben(), off, on, start) // there …
						if err == nil {
							err = h.accounts.Relate(context.Background(), ana(), ben(), on, off, start) // … and back
						}
						if err == nil {
							break
						}
						if !errors.Is(err, mayfly.Unavailable) {
							t.Error(err)
							return
						}
					}
				}
			})
		}
		wg.Wait()
		if got := h.relation(ana(), ben()); got != want || want != 0 && !h.related(ben(), ana()) {
			t.Fatalf("%b, want %b; other direction %v", got, want, h.related(ben(), ana()))
		}
	}
}

func TestARelationWhoseOutcomeIsInDoubtReadsTheRowBack(t *testing.T) {
	for _, lands := range []bool{true, false} {
		for left := range 4 {
			d := &doubtful{lands: lands}
			h := open(t, func(o *account.Options) { d.Rows = o.Rows; o.Rows = d })
			d.left = left
			h.relate(ana(), ben(), mayfly.CloseFriend, 0)
			if h.relation(ana(), ben()) != mayfly.CloseFriend || !h.related(ben(), ana()) {
				t.Errorf("lands %v, %d in doubt", lands, left)
			}
			d.left = left
			h.relate(ana(), ben(), 0, mayfly.CloseFriend)
			if h.relation(ana(), ben()) != 0 {
				t.Errorf("lands %v, %d in doubt: it is still there", lands, left)
			}
		}
	}
}

func TestARelationWhoseWriteIsAcceptedAndNotCommittedIsThere(t *testing.T) {
	for _, table := range []store.Table{account.Relations, account.Related} {
		for timeouts := range 4 {
			var u *storefixture.Undecided
			h := open(t, func(o *account.Options) { u = storefixture.NewUndecided(o.Rows); o.Rows = u })
			u.TimeOut(timeouts, table)
			h.relate(ana(), ben(), mayfly.CloseFriend, 0)
			if h.relation(ana(), ben()) != mayfly.CloseFriend || !h.related(ben(), ana()) {
				t.Errorf("%s, %d time-outs: it is not there", table, timeouts)
			}
			u.TimeOut(timeouts, table)
			h.relate(ana(), ben(), 0, mayfly.CloseFriend)
			if h.relation(ana(), ben()) != 0 {
				t.Errorf("%s, %d time-outs: it is still there", table, timeouts)
			}
		}
	}
}

// stopping allows a number of swaps and then fails all.
type stopping struct {
	store.Rows
	left int
}

func (s *stopping) Swap(ctx context.Context, t store.Table, key store.Key, old, new []byte, reclaimAt mayfly.Instant) (bool, []byte, error) {
	if s.left == 0 {
		return false, nil, mayfly.Errorf(mayfly.Unavailable, "stopped")
	}
	s.left--
	return s.Rows.Swap(ctx, t, key, old, new, reclaimAt)
}

func TestAChangeStoppedAnywhereLeavesNoRelationThatTheOtherSideDoesNotKnow(t *testing.T) {
	stops := 0
	for at := range 5 {
		s := &stopping{left: at}
		h := open(t, func(o *account.Options) { s.Rows = o.Rows; o.Rows = s })
		change := func(set, clear mayfly.Relation) bool {
			return h.accounts.Relate(t.Context(), ana(), ben(), set, clear, start) == nil
		}
		whole := change(mayfly.CloseFriend, 0) && change(0, mayfly.CloseFriend)
		if !whole {
			stops++
		}
		if h.relation(ana(), ben()) != 0 && !h.related(ben(), ana()) {
			t.Errorf("stopped after %d: an erasure would not find it", at)
		}
		s.left = 100
		if !change(mayfly.CloseFriend, 0) || !change(0, mayfly.CloseFriend) || h.relation(ana(), ben()) != 0 {
			t.Errorf("stopped after %d: asking again does not finish it", at)
		}
	}
	if stops != 4 {
		t.Errorf("%d stops", stops)
	}
}

// meddling calls a function once, right before a relation is written.
type meddling struct {
	store.Rows
	meddle func()
}

func (m *meddling) Swap(ctx context.Context, t store.Table, key store.Key, old, new []byte, reclaimAt mayfly.Instant) (bool, []byte, error) {
	if meddle := m.meddle; t == account.Relations && meddle != nil {
		m.meddle = nil
		meddle()
	}
	return m.Rows.Swap(ctx, t, key, old, new, reclaimAt)
}

func TestAConcurrentSetAndClearLosesNothing(t *testing.T) {
	other := open(t)
	m := &meddling{Rows: other.rows}
	h := open(t, func(o *account.Options) { o.Rows = m })
	m.meddle = func() { // the relation is again what it was, and its other direction is gone
		other.relate(ana(), ben(), mayfly.Blocked, 0)
		other.relate(ana(), ben(), 0, mayfly.Blocked)
	}
	h.relate(ana(), ben(), mayfly.CloseFriend, 0)
	if h.relation(ana(), ben()) != mayfly.CloseFriend || !h.related(ben(), ana()) {
		t.Fatal("a relation that an erasure would not find")
	}
	m.meddle = func() { other.relate(ana(), ben(), mayfly.Blocked, 0) }
	h.relate(ana(), ben(), 0, mayfly.CloseFriend)
	if h.relation(ana(), ben()) != mayfly.Blocked || !h.related(ben(), ana()) {
		t.Fatal("a setting in between was lost")
	}
}

func TestRowsThatCannotBeReadAreCorruptAndGrantNothing(t *testing.T) {
	h := open(t)
	plant := func(table store.Table, key store.Key) {
		t.Helper()
		swapped, _, err := h.rows.Swap(t.Context(), table, key, nil, []byte{9, 9, 9}, 0)
		if h.must(err); !swapped {
			t.Fatal("not planted")
		}
	}
	plant(account.Relations, account.RelationKey(ana(), ben()))
	if r, err := h.accounts.Relation(t.Context(), ana(), ben()); !errors.Is(err, mayfly.Corrupt) || r != 0 {
		t.Errorf("%b, %v", r, err)
	}
	if err := h.accounts.Relate(t.Context(), ana(), ben(), mayfly.Blocked, 0, start); !errors.Is(err, mayfly.Corrupt) {
		t.Error(err)
	}
	if _, _, err := h.accounts.List(t.Context(), ana(), mayfly.Blocked, "", 10); !errors.Is(err, mayfly.Corrupt) {
		t.Error(err)
	}
	plant(account.Relations, store.Key{Partition: account.RelationKey(ben(), ana()).Partition, Clustering: "short"})
	if _, _, err := h.accounts.List(t.Context(), ben(), mayfly.Blocked, "", 10); !errors.Is(err, mayfly.Corrupt) {
		t.Error(err)
	}
}

// A purge that is lost would leave a blocked user an answer of a shared cache.
func TestABlockIsWrittenOnlyWhenItsPurgeIsKept(t *testing.T) {
	var kept []mayfly.UserID
	var fail error
	h := open(t, func(o *account.Options) {
		o.Purge = func(_ context.Context, owner mayfly.UserID, now mayfly.Instant) error {
			if now != start {
				t.Errorf("at %s", now)
			}
			kept = append(kept, owner)
			return fail
		}
	})
	relation := func() mayfly.Relation {
		r, err := h.accounts.Relation(t.Context(), ana(), ben())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	fail = mayfly.Unavailable
	if err := h.accounts.Relate(t.Context(), ana(), ben(), mayfly.Blocked, 0, start); !errors.Is(err, mayfly.Unavailable) || relation() != 0 {
		t.Errorf("%v, relation %b", err, relation())
	}
	fail = nil
	for _, set := range []mayfly.Relation{mayfly.Follower, mayfly.Blocked} {
		if err := h.accounts.Relate(t.Context(), ana(), ben(), set, 0, start); err != nil || !relation().Has(set) {
			t.Errorf("%v, relation %b", err, relation())
		}
	}
	if !slices.Equal(kept, []mayfly.UserID{ana(), ana()}) {
		t.Errorf("purged %v: a block is, and nothing else", kept)
	}
}

// Relations to many owners are read by ranges: they are what each owner's are, whatever
// else the viewer's partitions have.
func TestRelationsOfManyAreThoseOfEach(t *testing.T) {
	h, viewer := open(t), ben()
	r := storefixture.Seeded(t)
	user := func(n int) mayfly.UserID { return mayfly.UserOf("mayfly", fmt.Sprint("user ", n)) }
	const owners, others = 120, 700
	is := []func(owner mayfly.UserID) error{
		func(o mayfly.UserID) error {
			return h.accounts.Relate(t.Context(), o, viewer, mayfly.Follower, 0, start)
		},
		func(o mayfly.UserID) error {
			return h.accounts.Relate(t.Context(), o, viewer, mayfly.CloseFriend, 0, start)
		},
		func(o mayfly.UserID) error {
			return h.accounts.Relate(t.Context(), o, viewer, mayfly.Blocked, 0, start)
		},
		func(o mayfly.UserID) error {
			return h.accounts.Relate(t.Context(), viewer, o, mayfly.Blocked, 0, start)
		},
		func(o mayfly.UserID) error {
			return h.accounts.Relate(t.Context(), viewer, o, mayfly.CloseFriend, 0, start)
		},
		func(o mayfly.UserID) error {
			return h.accounts.Mute(t.Context(), viewer, o, mayfly.MutesPosts, 0, start)
		},
		func(o mayfly.UserID) error {
			private := true
			_, err := h.accounts.Change(t.Context(), o, account.ProfileChange{Private: &private}, start)
			return err
		},
		func(o mayfly.UserID) error {
			return h.accounts.Relate(t.Context(), o, viewer, 0, mayfly.Follower|mayfly.CloseFriend, start)
		},
	}
	asked := []mayfly.UserID{{}, viewer}
	for n := range owners {
		asked = append(asked, user(n))
		for range r.IntN(4) {
			h.must(is[r.IntN(len(is))](user(n)))
		}
	}
	kinds := map[mayfly.Relation]int{}
	compare := func(what string) {
		t.Helper()
		for _, viewer := range []mayfly.UserID{viewer, ana(), {}} {
			many, err := h.accounts.RelationsOf(t.Context(), viewer, asked...)
			h.must(err)
			for i, owner := range asked {
				one, err := h.accounts.RelationsOf(t.Context(), viewer, owner)
				h.must(err)
				kinds[one[0]]++
				if many[i] != one[0] {
					t.Errorf("%s: %#b among many, %#b alone", what, many[i], one[0])
				}
			}
		}
	}
	compare("few others")
	for n := range others { // more than a range reads
		h.must(is[0](user(owners + n)))
		h.must(is[1](user(owners + n)))
		h.must(is[4](user(owners + n)))
	}
	compare("many others")
	if len(kinds) < 12 {
		t.Errorf("that is little: %v", kinds)
	}
}
