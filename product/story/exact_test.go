package story_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/product/story"
)

// door is a way to see something of a story: it answers whether viewer saw it.
type door struct {
	name string
	see  func(ctx context.Context, h *house, id mayfly.ID, viewer mayfly.Viewer, now mayfly.Instant) (bool, error)
}

func contains(stories []story.Story, id mayfly.ID) bool {
	for _, s := range stories {
		if s.Item.ID == id {
			return true
		}
	}
	return false
}

func doors() []door {
	return []door{
		{"open", func(ctx context.Context, h *house, id mayfly.ID, v mayfly.Viewer, now mayfly.Instant) (bool, error) {
			s, err := h.stories.Open(ctx, id, v, now)
			return err == nil && s.Item.ID == id, err
		}},
		{"medium", func(ctx context.Context, h *house, id mayfly.ID, v mayfly.Viewer, now mayfly.Instant) (bool, error) {
			m, err := h.stories.Medium(ctx, id, v, story.Object{}, now)
			if err != nil {
				return false, err
			}
			n, err := io.Copy(io.Discard, m)
			return n == m.Size && n > 0, errors.Join(err, m.Close())
		}},
		{"rendition", func(ctx context.Context, h *house, id mayfly.ID, v mayfly.Viewer, now mayfly.Instant) (bool, error) {
			m, err := h.stories.Medium(ctx, id, v, story.Object{Longest: 320}, now)
			if err != nil {
				return false, err
			}
			return m.Size > 0, m.Close()
		}},
		{"ring or archive", func(ctx context.Context, h *house, id mayfly.ID, v mayfly.Viewer, now mayfly.Instant) (bool, error) {
			ring, err := h.stories.Ring(ctx, user("ana"), v, now)
			if err != nil || contains(ring, id) || v.Moderator() || v.User() != user("ana") {
				return contains(ring, id), err
			}
			archived, _, err := h.stories.Archive(ctx, v.User(), story.Between{}, "", 0, now)
			return contains(archived, id), err
		}},
		{"view", func(ctx context.Context, h *house, id mayfly.ID, v mayfly.Viewer, now mayfly.Instant) (bool, error) {
			err := h.stories.View(ctx, id, v, now)
			return err == nil, err
		}},
	}
}

// life is what was done to a story before it is looked at: until when it serves
// is what it answers. What is hidden serves until 0.
type life struct {
	name string
	do   func(h *house, id mayfly.ID) (end mayfly.Instant)
	held bool
	gone bool // deleted
}

func lives() []life {
	deadline := func(id mayfly.ID) mayfly.Instant { return id.Deadline() }
	ended := func(h *house, id mayfly.ID) {
		h.at(id.Deadline().Add(time.Second))
		h.sweep(id)
	}
	return []life{
		{name: "born", do: func(h *house, id mayfly.ID) mayfly.Instant { return deadline(id) }},
		{name: "swept", do: func(h *house, id mayfly.ID) mayfly.Instant { ended(h, id); return deadline(id) }},
		{name: "cold", do: func(h *house, id mayfly.ID) mayfly.Instant {
			ended(h, id)
			h.at(id.Deadline().Add(2 * time.Hour))
			h.archive(id)
			return deadline(id)
		}},
		{name: "restored from hot", do: func(h *house, id mayfly.ID) mayfly.Instant {
			ended(h, id)
			return h.bringBack(id)
		}},
		{name: "restored from cold", do: func(h *house, id mayfly.ID) mayfly.Instant {
			ended(h, id)
			h.at(id.Deadline().Add(2 * time.Hour))
			h.archive(id)
			return h.bringBack(id)
		}},
		{name: "held", held: true, do: func(h *house, id mayfly.ID) mayfly.Instant {
			h.must(h.restore.Hold(h.Context(), id, "support", "a court says so", h.clock()))
			return deadline(id)
		}},
		{name: "deleted", gone: true, do: func(h *house, id mayfly.ID) mayfly.Instant {
			h.must(h.stories.Delete(h.Context(), id, user("ana"), h.clock()))
			return deadline(id)
		}},
	}
}

func (h *house) bringBack(id mayfly.ID) mayfly.Instant {
	h.Helper()
	until := h.clock().Add(3 * time.Hour)
	_, err := h.restore.Item(h.Context(), restore.Request{ID: id, Until: until, By: "support", Reason: "expired by mistake"}, h.clock())
	h.must(err)
	return until
}

// eyes are who looks, and what they may see of whom while it serves.
type eyes struct {
	name     string
	viewer   mayfly.Viewer
	relation mayfly.Relation
}

func cast() []eyes {
	of := func(name string, r mayfly.Relation) eyes { return eyes{name, mayfly.ViewerOf(user(name)), r} }
	return []eyes{
		of("ana", 0), of("follower", mayfly.Follower), of("close friend", mayfly.CloseFriend), of("both", mayfly.Follower|mayfly.CloseFriend),
		of("blocked", mayfly.Follower|mayfly.CloseFriend|mayfly.Blocked), of("stranger", 0),
		{"anonymous", mayfly.Viewer{}, 0},
		{"moderator", mayfly.ModeratorOf(user("moderator")), 0},
	}
}

// may is the rule in other words than the gate's: what the viewer gets.
func may(l life, e eyes, audience string, ended bool) bool {
	switch {
	case l.gone:
		return false
	case e.name == "moderator":
		return true
	case l.held:
		return false
	case e.name == "ana":
		return true
	case ended || e.name == "blocked":
		return false
	case audience == "everyone":
		return true
	case audience == "followers":
		return e.relation&mayfly.Follower != 0
	default:
		return e.relation&mayfly.CloseFriend != 0
	}
}

func seed(t *testing.T) *rand.Rand {
	t.Helper()
	n := rand.Uint64()
	if text := os.Getenv("MAYFLY_SEED"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("MAYFLY_SEED=%d", n)
	return rand.New(rand.NewPCG(n, 0))
}

// Every door, for everybody, around the end of every life, at the millisecond:
// nothing is seen late, nothing is refused early, and who is refused is told no
// more than the id tells.
func TestEveryDoorIsExactAtTheMillisecond(t *testing.T) {
	random := seed(t)
	var looks, late, early, leaks int
	for _, audience := range []string{"everyone", "followers", "close_friends"} {
		for _, l := range lives() {
			h := open(t)
			for _, e := range cast() {
				h.relate(user("ana"), e.viewer.User(), e.relation)
			}
			h.at(genesis + mayfly.Instant(random.IntN(90_000)))
			d := h.draft()
			d.Audience, d.Lifetime = audience, []string{"6h", "12h", "24h", "48h"}[random.IntN(4)]
			id := h.publish(d).Item.ID
			born := h.clock()
			end := l.do(h, id)
			instants := []mayfly.Instant{end - 1, end, end + 1, end - 1 - mayfly.Instant(random.IntN(1_000)), end + mayfly.Instant(random.IntN(100_000_000))}
			if end == id.Deadline() {
				instants = append(instants, born)
			} else { // between its first end and its restoring nobody looked
				instants = append(instants, h.clock()+1)
			}
			for _, now := range instants {
				for _, e := range cast() {
					for _, door := range doors() {
						saw, err := door.see(t.Context(), h, id, e.viewer, now)
						if door.name == "ring or archive" && e.name == "moderator" && now >= end {
							continue // a ring is of live stories, whoever looks
						}
						looks++
						want := may(l, e, audience, now >= end)
						what := fmt.Sprintf("%s, %s, %s by %s at end%+d: saw %t (%v)", l.name, audience, door.name, e.name, now-end, saw, err)
						switch {
						case saw && !want && now >= end:
							late++
							t.Errorf("LATE %s", what)
						case saw && !want:
							leaks++
							t.Errorf("LEAK %s", what)
						case !saw && want:
							early++
							t.Errorf("EARLY %s", what)
						case !saw && door.name != "ring or archive" && err != map[bool]error{true: mayfly.Gone, false: mayfly.NotFound}[id.ExpiredAt(now)]:
							leaks++
							t.Errorf("LEAK %s", what)
						case err != nil && door.name == "ring or archive":
							t.Error(what)
						}
					}
				}
			}
		}
	}
	t.Logf("%d looks: %d LATE, %d EARLY, %d LEAK", looks, late, early, leaks)
	if looks < 3_000 {
		t.Errorf("only %d looks", looks)
	}
}

func TestWhatNeverWasIsRefusedLikeWhatIsHidden(t *testing.T) {
	h := open(t)
	day, err := mayfly.LifetimeOf(24 * time.Hour)
	h.must(err)
	id, err := mayfly.NewID(genesis, day, user("ana").Trace(), 42)
	h.must(err)
	for _, now := range []mayfly.Instant{id.Deadline() - 1, id.Deadline()} {
		want := error(mayfly.NotFound)
		if now >= id.Deadline() {
			want = mayfly.Gone
		}
		for _, e := range cast() {
			for _, door := range doors() {
				if saw, err := door.see(t.Context(), h, id, e.viewer, now); door.name != "ring or archive" && err != want || saw {
					t.Errorf("%s by %s: %t, %v", door.name, e.name, saw, err)
				}
			}
			if _, _, _, err := h.stories.Viewers(t.Context(), id, e.viewer, "", 0, now); err != want {
				t.Errorf("viewers by %s: %v", e.name, err)
			}
			if err := h.stories.Delete(t.Context(), id, e.viewer.User(), now); err != want {
				t.Errorf("delete by %s: %v", e.name, err)
			}
			if _, err := h.stories.Reshare(t.Context(), id, e.viewer.User(), story.Change{}, "", func() mayfly.Instant { return now }); err != want {
				t.Errorf("reshare by %s: %v", e.name, err)
			}
		}
	}
}
