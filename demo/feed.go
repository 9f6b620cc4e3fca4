package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store/loop"
)

// postLasts is the lifetime of a post, so that the server is restarted meanwhile.
const postLasts = 5 * time.Second

// createPosts has ana and ben post, and their follower read a home with both. It returns
// a post of ana's that ends.
func (d *demo) createPosts(ctx context.Context) (wire.Post, error) {
	p := d.people
	post := func(who person, in wire.NewPost) (wire.Post, error) {
		made, err := who.act.CreatePost(ctx, in, "demo-"+in.Text)
		if err != nil {
			return made, fmt.Errorf("%s posts: %w", who.name, err)
		}
		return made, loop.Rest(ctx, 5*time.Millisecond) // posts of one millisecond have no order
	}
	stays, err := post(p.ana, wire.NewPost{Text: "good morning #sea"})
	if err != nil {
		return wire.Post{}, err
	}
	ends, err := post(p.ana, wire.NewPost{Text: "gone in a moment", Lifetime: postLasts.String()})
	if err != nil {
		return wire.Post{}, err
	}
	quote, err := post(p.ben, wire.NewPost{Text: "so says ana", Quote: &stays.ID})
	if err != nil {
		return wire.Post{}, err
	}
	if err := p.follower.act.Like(ctx, stays.ID, true); err != nil {
		return wire.Post{}, err
	}
	d.sayOfPost("ana posts %q, and %q for %s; ben quotes her", stays.Text, ends.Text, postLasts)
	if err := d.wantHome(ctx, p.follower, "who follows both", quote.ID, ends.ID, stays.ID); err != nil {
		return wire.Post{}, err
	}
	if err := d.wantHome(ctx, p.stranger, "who follows neither"); err != nil {
		return wire.Post{}, err
	}
	if err := p.follower.act.Unfollow(ctx, "~ben"); err != nil {
		return wire.Post{}, err
	}
	if err := d.wantHome(ctx, p.follower, "who has just unfollowed ben", ends.ID, stays.ID); err != nil {
		return wire.Post{}, err
	}
	return ends, p.service.act.AddFollower(ctx, "~ben", "~follower") // stories for followers are for them again
}

// wantHome reads a home, which must have these posts, newest first. Others are a leak if
// they should not be there, and lost if they should.
func (d *demo) wantHome(ctx context.Context, who person, which string, want ...mayfly.ID) error {
	home, err := who.act.Home(ctx, "", 0)
	if err != nil {
		return fmt.Errorf("%s reads the home: %w", who.name, err)
	}
	var got []mayfly.ID
	for _, p := range home.Posts {
		got = append(got, p.ID)
	}
	word := verify.Lost
	if len(got) > len(want) {
		word = verify.Leak
	}
	if !slices.Equal(got, want) {
		d.count.Add(word, "the home of %s, %s, has %v instead of %v", who.name, which, got, want)
	}
	d.sayOfPost("the home of %s, %s, has %d posts", who.name, which, len(got))
	return nil
}

// seePost reads a home until after the end of a post that is in it, over a restart of the
// server.
func (d *demo) seePost(ctx context.Context, p wire.Post) error {
	w := &window{end: p.BornAt.Add(postLasts)}
	reader := onlooker{person: d.people.follower, permitted: true}
	for left := w.end.Sub(d.host.now()); left > -lookAfter; left = w.end.Sub(d.host.now()) {
		e, err := d.ask(func() error {
			home, err := reader.ask.Home(ctx, "", 0)
			if err == nil && !slices.ContainsFunc(home.Posts, func(in wire.Post) bool { return in.ID == p.ID }) {
				err = mayfly.NotFound
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("a home: %w", err)
		}
		w.note(e)
		d.judge(w, reader, "post of ana in a home", e)
		if err := loop.Rest(ctx, pauseBefore(w.end.Sub(d.host.now()))); err != nil {
			return err
		}
	}
	d.sayOfPost("%q was in the home for a request at %s, and left out first at %s", p.Text, offset(w.lastServed.Load(), w.end), offset(w.firstRefused.Load(), w.end))
	return nil
}

func (d *demo) sayOfPost(format string, args ...any) {
	d.say("%5.1f s  post: %s", time.Since(d.began).Seconds(), fmt.Sprintf(format, args...))
}
