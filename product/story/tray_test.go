package story_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/pace"
	"github.com/mayflyhq/mayfly/test/tray"
)

// world returns users on the embedded store.
func world(t *testing.T, users int) (*fixture.Engine, *tray.World) {
	t.Helper()
	e := fixture.Open(t)
	key, err := account.LoadKey(t.TempDir() + "/key")
	e.Must(err)
	return e, tray.New(t, e.Set, key, users, start, fixture.Seeded(t))
}

func TestATrayIsWhatAPlainModelSays(t *testing.T) {
	steps := 1_500
	if testing.Short() || pace.Race {
		steps = 300
	}
	_, w := world(t, 220)
	f := w.Run(5_000, steps)
	t.Logf("%+v", f)
	if f.Slots < f.Trays || f.Slots-f.Unseen < f.Trays/20 || f.Ends < steps/40 || len(f.Steps) < 15 {
		t.Errorf("the run tried little: %+v", f)
	}
}

// What is taken back is not in the next answer, on another node either (F7).
func TestATrayShowsAtTheNextReadWhatWasTakenBack(t *testing.T) {
	for name, do := range map[string]func(w *tray.World, reader, author mayfly.UserID, id mayfly.ID){
		"unfollow":         func(w *tray.World, r, a mayfly.UserID, _ mayfly.ID) { w.Unfollow(r, a) },
		"block the author": func(w *tray.World, r, a mayfly.UserID, _ mayfly.ID) { w.Block(r, a) },
		"block the reader": func(w *tray.World, r, a mayfly.UserID, _ mayfly.ID) { w.Block(a, r) },
		"mute posts":       func(w *tray.World, r, a mayfly.UserID, _ mayfly.ID) { w.Mute(r, a, mayfly.MutesPosts, 0) },
		"delete":           func(w *tray.World, _, _ mayfly.UserID, id mayfly.ID) { w.Delete(id) },
		"hold":             func(w *tray.World, _, _ mayfly.UserID, id mayfly.ID) { w.Hold(id, true) },
		"the deadline":     func(w *tray.World, _, _ mayfly.UserID, id mayfly.ID) { w.Now = id.Deadline() },
		"block, then a follow that the service sets": func(w *tray.World, r, a mayfly.UserID, _ mayfly.ID) {
			w.Block(r, a)
			w.SetFollower(r, a)
		},
		"block by the author, then a follow that the service sets": func(w *tray.World, r, a mayfly.UserID, _ mayfly.ID) {
			w.Block(a, r)
			w.SetFollower(r, a)
		},
		"private, unfollow, ask again": func(w *tray.World, r, a mayfly.UserID, _ mayfly.ID) {
			w.SetPrivate(a, true)
			w.Unfollow(r, a)
			w.Follow(r, a)
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, w := world(t, 2)
			reader, author := w.Users[0], w.Users[1]
			w.Follow(reader, author)
			id := w.Publish(author, mayfly.Everyone, 6*time.Hour)
			w.Now = id.Deadline() - 1
			if w.Compare(reader, "publish") != 1 {
				t.Fatal("the author is not in the tray before")
			}
			if do(w, reader, author, id); w.Compare(reader, name) != 0 {
				t.Error("the author is in the tray")
			}
		})
	}
}

// What leaves the slot in the tray: a private account's followers see it, and muted
// reposts are no stories.
func TestATrayKeepsWhatItsReaderMaySee(t *testing.T) {
	_, w := world(t, 2)
	reader, author := w.Users[0], w.Users[1]
	w.Follow(reader, author)
	w.Publish(author, mayfly.Everyone, 6*time.Hour)
	w.SetPrivate(author, true)
	w.Mute(reader, author, mayfly.MutesReposts, 0)
	if w.Compare(reader, "private, and reposts muted") != 1 {
		t.Error("the author is not in the tray")
	}
}

// A slot follows the stories behind it: the newest may end before an older one.
func TestASlotStaysUntilTheLastStoryEnds(t *testing.T) {
	_, w := world(t, 2)
	reader, author := w.Users[0], w.Users[1]
	w.Follow(reader, author)
	old := w.Publish(author, mayfly.Everyone, 24*time.Hour)
	w.Now++
	short := w.Publish(author, mayfly.Everyone, 6*time.Hour)
	w.View(reader, old)
	for now, want := range map[mayfly.Instant]story.Slot{
		w.Now:                {Author: author, Newest: short, Seen: old, Ends: old.Deadline(), Until: short.Deadline()},
		short.Deadline() - 1: {Author: author, Newest: short, Seen: old, Ends: old.Deadline(), Until: short.Deadline()},
		short.Deadline():     {Author: author, Newest: old, Seen: old, Ends: old.Deadline(), Until: old.Deadline()},
		old.Deadline() - 1:   {Author: author, Newest: old, Seen: old, Ends: old.Deadline(), Until: old.Deadline()},
	} {
		got, err := w.Nodes[0].Stories.Tray(t.Context(), reader, now)
		if err != nil || !slices.Equal(got.Slots, []story.Slot{want}) {
			t.Errorf("at %s: %+v, %v, want %+v", now, got.Slots, err, want)
		}
	}
	if got, err := w.Nodes[0].Stories.Tray(t.Context(), reader, old.Deadline()); err != nil || len(got.Slots) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Support puts a story back for a while: the slot has that end (ST11).
func TestARestoredStoryIsInTheTrayUntilServesUntil(t *testing.T) {
	e, w := world(t, 2)
	reader, author := w.Users[0], w.Users[1]
	w.Follow(reader, author)
	id := w.Publish(author, mayfly.Everyone, 6*time.Hour)
	until := id.Deadline().Add(time.Hour)
	e.Sweep(id.Deadline(), 1, id)
	e.Change(id, mayfly.Change{To: mayfly.Active, Cause: mayfly.BySupport, ServesUntil: until, At: id.Deadline()})
	var b store.Batch
	engine.ListRestored(&b, id, until)
	e.Must(e.Set.Writer.Commit(t.Context(), &b))
	for _, topic := range []store.Topic{store.RowChanged, store.RestoredSet} {
		e.Must(e.Set.Signals.Publish(t.Context(), store.Signal{Topic: topic, ID: id}))
	}
	for now, want := range map[mayfly.Instant]int{id.Deadline(): 1, until - 1: 1, until: 0} {
		got, err := w.Nodes[0].Stories.Tray(t.Context(), reader, now)
		if err != nil || len(got.Slots) != want || want == 1 && got.Slots[0] != (story.Slot{Author: author, Newest: id, Ends: until, Until: until}) {
			t.Errorf("at %s: %+v, %v", now, got.Slots, err)
		}
	}
}

// A tray is a few reads whatever stands behind it: one for each ring, and few calls for
// all rows together. What the rings still have of stories that are held is judged by
// their rows.
func TestATrayReadsInFewCallsAndJudgesEveryStory(t *testing.T) {
	const authors, stories = 300, 10
	e, w := world(t, 1+authors)
	reader, newest := w.Users[0], map[mayfly.UserID]mayfly.ID{}
	for i, author := range w.Users[1:] {
		w.SetFollower(reader, author)
		for n := range stories {
			w.Now++
			id := w.Publish(author, mayfly.Everyone, 24*time.Hour)
			if i%3 == 0 && n > 2 {
				e.Hold(id)
			} else {
				newest[author] = id
			}
		}
	}
	calls := map[string]int{}
	e.Hooks.LedgerGet = func(_ context.Context, ids []mayfly.ID, do func() ([]store.Found, error)) ([]store.Found, error) {
		calls["rows"]++
		calls["row"] += len(ids)
		return do()
	}
	e.Hooks.RowsGet = func(_ context.Context, t store.Table, do func() ([][]byte, error)) ([][]byte, error) {
		calls["get "+t.String()]++
		return do()
	}
	var mu sync.Mutex // rings are read together
	e.Hooks.Range = func(_ context.Context, t store.Table, do func() ([]store.Row, error)) ([]store.Row, error) {
		mu.Lock()
		calls["range "+t.String()]++
		mu.Unlock()
		return do()
	}
	_, err := w.Nodes[1].Stories.Tray(t.Context(), w.Users[1], w.Now) // the gate reads the restored ids once for all
	e.Must(err)
	clear(calls)
	got, err := w.Nodes[1].Stories.Tray(t.Context(), reader, w.Now)
	if err != nil || len(got.Slots) != authors {
		t.Fatalf("%d slots, %v", len(got.Slots), err)
	}
	for _, s := range got.Slots {
		if s.Newest != newest[s.Author] {
			t.Errorf("the newest story of %s is %s, want %s", s.Author, s.Newest, newest[s.Author])
		}
	}
	t.Log(calls)
	if calls["rows"] > 3 || calls["row"] > authors*stories || calls["get following"] != 0 || calls["get relations"] > 1 || calls["get profiles"] != 1 ||
		calls["range rings"] != authors || calls["range following"] != 2 || calls["range relations"] != 1 || calls["range related"] != 1 || calls["range seen"] != 1 {
		t.Errorf("%v", calls)
	}
}

// Stories of an audience that the reader does not belong to are not read, so that the
// time of a tray does not tell of them (I18).
func TestATrayReadsNothingOfOtherAudiences(t *testing.T) {
	e, w := world(t, 3)
	reader, plain, hides := w.Users[0], w.Users[1], w.Users[2]
	for _, author := range []mayfly.UserID{plain, hides} {
		w.Follow(reader, author)
		w.Publish(author, mayfly.Followers, 6*time.Hour)
	}
	for range 20 {
		w.Publish(hides, mayfly.CloseFriends, 6*time.Hour)
	}
	var rows atomic.Int64
	e.Hooks.Range = func(_ context.Context, t store.Table, do func() ([]store.Row, error)) ([]store.Row, error) {
		found, err := do()
		if t == engine.Rings {
			rows.Add(int64(len(found)))
		}
		return found, err
	}
	if w.Compare(reader, "publish") != 2 || rows.Load() != 2*2 {
		t.Errorf("%d rows of rings were read for two trays of two slots", rows.Load())
	}
}

// A reader who follows more authors than a tray has gets those followed last, and the
// answer says so.
func TestATrayOfAReaderWhoFollowsVeryManyIsPartial(t *testing.T) {
	following := func(n int) story.Following {
		return func(_ context.Context, _ mayfly.UserID, after string, limit int) (page []account.Edge, next string, err error) {
			from := 0
			if after != "" {
				if _, err := fmt.Sscan(after, &from); err != nil {
					return nil, "", err
				}
			}
			for i := from; i < min(from+limit, n); i++ {
				page = append(page, account.Edge{User: user(fmt.Sprint(i)), State: account.Following, Since: start.Add(time.Duration(i) * time.Second)})
			}
			if from+limit < n {
				next = fmt.Sprint(from + limit)
			}
			return page, next, nil
		}
	}
	for n, want := range map[int]struct {
		first, last, partial bool
	}{
		2_000:  {true, true, false},
		2_001:  {false, true, true},
		10_001: {false, false, true}, // more than a tray chooses from
	} {
		e := open(t, func(o *settings) { o.Following = following(n) })
		for _, author := range []string{"0", fmt.Sprint(n - 1)} {
			d := e.Draft()
			d.Owner = user(author)
			e.Publish(d, e.clock())
		}
		got, err := e.stories.Tray(t.Context(), user("ben"), e.clock())
		e.Must(err)
		has := func(name string) bool {
			return slices.ContainsFunc(got.Slots, func(s story.Slot) bool { return s.Author == user(name) })
		}
		if got.Partial != want.partial || has("0") != want.first || has(fmt.Sprint(n-1)) != want.last {
			t.Errorf("%d: %+v", n, got)
		}
	}
}

func TestATrayThatCannotBeReadIsAnError(t *testing.T) {
	away := mayfly.Errorf(mayfly.Unavailable, "away")
	for _, table := range []store.Table{account.Follows, engine.Rings, story.Seen} {
		e, w := world(t, 2)
		w.Follow(w.Users[0], w.Users[1])
		w.Publish(w.Users[1], mayfly.Everyone, 6*time.Hour)
		e.Hooks.Range = func(_ context.Context, t store.Table, do func() ([]store.Row, error)) ([]store.Row, error) {
			if t == table {
				return nil, away
			}
			return do()
		}
		if got, err := w.Nodes[0].Stories.Tray(t.Context(), w.Users[0], w.Now); err == nil {
			t.Errorf("%s: %+v", table, got)
		}
	}
}
