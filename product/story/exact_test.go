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
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/product/story"
)

// route is a way to see something of a story: it answers whether viewer saw it.
type route struct {
	name string
	see  func(ctx context.Context, e *env, id mayfly.ID, viewer mayfly.Viewer, now mayfly.Instant) (bool, error)
}

func contains(stories []story.Story, id mayfly.ID) bool {
	for _, s := range stories {
		if s.Item.ID == id {
			return true
		}
	}
	return false
}

func routes() []route {
	return []route{
		{"open", func(ctx context.Context, e *env, id mayfly.ID, v mayfly.Viewer, now mayfly.Instant) (bool, error) {
			s, err := e.stories.Open(ctx, id, v, now)
			return err == nil && s.Item.ID == id, err
		}},
		{"medium", func(ctx context.Context, e *env, id mayfly.ID, v mayfly.Viewer, now mayfly.Instant) (bool, error) {
			m, err := e.stories.Medium(ctx, id, v, hydrate.Object{}, now)
			if err != nil {
				return false, err
			}
			n, err := io.Copy(io.Discard, m)
			return n == m.Size && n > 0, errors.Join(err, m.Close())
		}},
		{"rendition", func(ctx context.Context, e *env, id mayfly.ID, v mayfly.Viewer, now mayfly.Instant) (bool, error) {
			m, err := e.stories.Medium(ctx, id, v, hydrate.Object{Longest: 320}, now)
			if err != nil {
				return false, err
			}
			return m.Size > 0, m.Close()
		}},
		{"ring or archive", func(ctx context.Context, e *env, id mayfly.ID, v mayfly.Viewer, now mayfly.Instant) (bool, error) {
			ring, err := e.stories.Ring(ctx, user("ana"), v, now)
			if err != nil || contains(ring, id) || v.Moderator() || v.User() != user("ana") {
				return contains(ring, id), err
			}
			archived, _, err := e.stories.Archive(ctx, v.User(), story.Between{}, "", 0, now)
			return contains(archived, id), err
		}},
		{"view", func(ctx context.Context, e *env, id mayfly.ID, v mayfly.Viewer, now mayfly.Instant) (bool, error) {
			err := e.stories.View(ctx, id, v, now)
			return err == nil, err
		}},
	}
}

// life is what was done to a story before it is looked at: until when it serves
// is what it answers. What is hidden serves until 0.
type life struct {
	name string
	do   func(e *env, id mayfly.ID) (end mayfly.Instant)
	held bool
	gone bool // deleted
}

func lives() []life {
	deadline := func(id mayfly.ID) mayfly.Instant { return id.Deadline() }
	ended := func(e *env, id mayfly.ID) {
		e.at(id.Deadline().Add(time.Second))
		e.sweep(id)
	}
	return []life{
		{name: "born", do: func(e *env, id mayfly.ID) mayfly.Instant { return deadline(id) }},
		{name: "swept", do: func(e *env, id mayfly.ID) mayfly.Instant { ended(e, id); return deadline(id) }},
		{name: "cold", do: func(e *env, id mayfly.ID) mayfly.Instant {
			ended(e, id)
			e.at(id.Deadline().Add(2 * time.Hour))
			e.archive(id)
			return deadline(id)
		}},
		{name: "restored from hot", do: func(e *env, id mayfly.ID) mayfly.Instant {
			ended(e, id)
			return e.bringBack(id)
		}},
		{name: "restored from cold", do: func(e *env, id mayfly.ID) mayfly.Instant {
			ended(e, id)
			e.at(id.Deadline().Add(2 * time.Hour))
			e.archive(id)
			return e.bringBack(id)
		}},
		{name: "held", held: true, do: func(e *env, id mayfly.ID) mayfly.Instant {
			e.Must(e.restore.Hold(e.Context(), id, audit.Actor{Subject: "support"}, "a court says so", e.clock()))
			return deadline(id)
		}},
		{name: "deleted", gone: true, do: func(e *env, id mayfly.ID) mayfly.Instant {
			e.Must(e.stories.Delete(e.Context(), id, user("ana"), e.clock()))
			return deadline(id)
		}},
	}
}

func (e *env) bringBack(id mayfly.ID) mayfly.Instant {
	e.Helper()
	until := e.clock().Add(3 * time.Hour)
	_, err := e.restore.Item(e.Context(), restore.Request{ID: id, Until: until, By: audit.Actor{Subject: "support"}, Reason: "expired by mistake"}, e.clock())
	e.Must(err)
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
func may(l life, who eyes, audience string, ended bool) bool {
	switch {
	case l.gone:
		return false
	case who.name == "moderator":
		return true
	case l.held:
		return false
	case who.name == "ana":
		return true
	case ended || who.name == "blocked":
		return false
	case audience == "everyone":
		return true
	case audience == "followers":
		return who.relation&mayfly.Follower != 0
	default:
		return who.relation&mayfly.CloseFriend != 0
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

// Every route, for everybody, around the end of every life, at the millisecond:
// nothing is seen late, nothing is refused early, and a refused viewer learns no
// more than the id tells.
func TestEveryRouteIsExactAtTheMillisecond(t *testing.T) {
	random := seed(t)
	var looks, late, early, leaks int
	for _, audience := range []string{"everyone", "followers", "close_friends"} {
		for _, l := range lives() {
			e := open(t)
			for _, who := range cast() {
				e.relate(user("ana"), who.viewer.User(), who.relation)
			}
			e.at(start + mayfly.Instant(random.IntN(90_000)))
			d := e.draft()
			d.Audience, d.Lifetime = audience, []string{"6h", "12h", "24h", "48h"}[random.IntN(4)]
			id := e.publish(d).Item.ID
			born := e.clock()
			end := l.do(e, id)
			instants := []mayfly.Instant{end - 1, end, end + 1, end - 1 - mayfly.Instant(random.IntN(1_000)), end + mayfly.Instant(random.IntN(100_000_000))}
			if end == id.Deadline() {
				instants = append(instants, born)
			} else { // between its first end and its restoring there were no reads
				instants = append(instants, e.clock()+1)
			}
			for _, now := range instants {
				for _, who := range cast() {
					for _, route := range routes() {
						saw, err := route.see(t.Context(), e, id, who.viewer, now)
						if route.name == "ring or archive" && who.name == "moderator" && now >= end {
							continue // a ring has live stories only, for every viewer
						}
						looks++
						want := may(l, who, audience, now >= end)
						what := fmt.Sprintf("%s, %s, %s by %s at end%+d: saw %t (%v)", l.name, audience, route.name, who.name, now-end, saw, err)
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
						case !saw && route.name != "ring or archive" && err != map[bool]error{true: mayfly.Gone, false: mayfly.NotFound}[id.ExpiredAt(now)]:
							leaks++
							t.Errorf("LEAK %s", what)
						case err != nil && route.name == "ring or archive":
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
	e := open(t)
	day, err := mayfly.LifetimeOf(24 * time.Hour)
	e.Must(err)
	id, err := mayfly.NewID(start, day, user("ana").Trace(), 42)
	e.Must(err)
	for _, now := range []mayfly.Instant{id.Deadline() - 1, id.Deadline()} {
		want := error(mayfly.NotFound)
		if now >= id.Deadline() {
			want = mayfly.Gone
		}
		for _, who := range cast() {
			for _, route := range routes() {
				if saw, err := route.see(t.Context(), e, id, who.viewer, now); route.name != "ring or archive" && err != want || saw {
					t.Errorf("%s by %s: %t, %v", route.name, who.name, saw, err)
				}
			}
			if _, _, _, err := e.stories.Viewers(t.Context(), id, who.viewer, "", 0, now); err != want {
				t.Errorf("viewers by %s: %v", who.name, err)
			}
			if err := e.stories.Delete(t.Context(), id, who.viewer.User(), now); err != want {
				t.Errorf("delete by %s: %v", who.name, err)
			}
			if _, err := e.stories.Reshare(t.Context(), id, who.viewer.User(), story.Change{}, "", func() mayfly.Instant { return now }); err != want {
				t.Errorf("reshare by %s: %v", who.name, err)
			}
		}
	}
}
