package node

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/product/feed"
)

// checkedAtOnce is how many users or posts one call of CheckFeed looks at, about.
const checkedAtOnce = 100

// CheckFeed compares a part of the follow edges with their other direction and with the
// counts of users, and then of likes, reposts and replies with the counts of posts. It
// begins at a cursor, "" at first.
func (d AdminOperations) CheckFeed(ctx context.Context, cursor string, now mayfly.Instant) (out wire.FeedCheck, err error) {
	if d.n.accounts == nil || d.n.posts == nil {
		return out, noFeed()
	}
	const users, posts = "u", "p"
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	part, from := users, ""
	if len(raw) > 0 {
		part, from = string(raw[:1]), string(raw[1:])
	}
	var next string
	switch {
	case err != nil || part != users && part != posts:
		return out, mayfly.Errorf(mayfly.Invalid, "invalid cursor").WithHint("send next of the answer before, unchanged")
	case part == users:
		if out.Users, out.Differences, next, err = d.n.accounts.VerifyAll(ctx, from, checkedAtOnce); next == "" {
			part = posts
		}
	default:
		if out.Posts, out.Differences, next, err = d.n.posts.VerifyAll(ctx, from, checkedAtOnce, now); next == "" {
			part = ""
		}
	}
	if err != nil {
		return wire.FeedCheck{}, err
	}
	if out.Differences == nil {
		out.Differences = []string{}
	}
	out.Next = base64.RawURLEncoding.EncodeToString([]byte(part + next))
	return out, nil
}

func noFeed() error {
	return mayfly.Errorf(mayfly.Unsupported, "this node has no feed").WithHint("ask a node that has a key, and on which feed.off is not set")
}

// References looks for everything that names a user, which is nothing once the user is
// erased (F11).
func (d AdminOperations) References(ctx context.Context, user mayfly.UserID) (wire.References, error) {
	left, err := d.n.AccountErase().Scan(ctx, user)
	return wire.References{Count: left.Count, Examples: append([]string{}, left.Examples...), Held: left.Held, Unowned: left.Unowned}, err
}

// movedAtOnce is how many edges and posts move in side by side: writes of several are
// synced together.
const movedAtOnce = 16

// ImportFeed has follow edges and posts of another product move in. What moves in again
// changes nothing. What is refused is said, and the rest moves in.
func (d AdminOperations) ImportFeed(ctx context.Context, in wire.FeedImport, by audit.Actor, now func() mayfly.Instant) (out wire.FeedImported, err error) {
	if d.n.accounts == nil || d.n.posts == nil {
		return out, noFeed()
	}
	out = wire.FeedImported{Edges: make([]wire.Moved, len(in.Edges)), Posts: make([]wire.Moved, len(in.Posts))}
	detail := fmt.Sprintf("%d edges, %d posts", len(in.Edges), len(in.Posts))
	entry := audit.Entry{Actor: by, Verb: audit.MoveIn, Reason: in.Reason, Detail: detail}
	if err := d.n.posts.Begin(ctx, now()); err != nil { // on a folder that was never served
		return out, err
	}
	err = d.n.engine.audit.Do(ctx, entry, now(), func() (string, error) {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(movedAtOnce)
		for i, e := range in.Edges {
			g.Go(func() error { return refusal(&out.Edges[i], d.moveEdge(ctx, e, now())) })
		}
		for i, p := range in.Posts {
			g.Go(func() error { return refusal(&out.Posts[i], d.movePost(ctx, p, &out.Posts[i], now)) })
		}
		return detail, g.Wait()
	})
	return out, err
}

// refusal notes why something does not move in; an error that would meet the others,
// too, is returned.
func refusal(m *wire.Moved, err error) error {
	for _, kind := range []mayfly.Kind{mayfly.Invalid, mayfly.TooLarge, mayfly.NotFound, mayfly.Gone, mayfly.Conflict, mayfly.Denied, mayfly.Unsupported} {
		if errors.Is(err, kind) {
			m.Refused = err.Error()
			return nil
		}
	}
	return err
}

func (d AdminOperations) moveEdge(ctx context.Context, e wire.FollowEdge, now mayfly.Instant) error {
	reader, err := d.n.accounts.UserNamed(e.Reader)
	if err != nil {
		return err
	}
	author, err := d.n.accounts.UserNamed(e.Author)
	if err != nil {
		return err
	}
	return d.n.accounts.Relate(ctx, author, reader, mayfly.Follower, 0, now)
}

func (d AdminOperations) movePost(ctx context.Context, p wire.OldPost, m *wire.Moved, now func() mayfly.Instant) error {
	author, err := d.n.accounts.UserNamed(p.Author)
	if err != nil {
		return err
	}
	if p.BornAt <= 0 || p.BornAt > now() {
		return mayfly.Errorf(mayfly.Invalid, "born_at is missing, or in the future").WithHint("say when the post was published there, such as 2024-05-01T12:00:00Z")
	}
	draft := feed.Draft{Author: author, Text: p.Text, Lifetime: p.Lifetime, Born: p.BornAt, Source: p.Source}
	for from, into := range map[*mayfly.ID]*mayfly.ID{p.ReplyTo: &draft.ReplyTo, p.Quote: &draft.Quote} {
		if from != nil {
			*into = *from
		}
	}
	var made feed.Post
	if p.RepostOf == nil {
		made, err = d.n.posts.Publish(ctx, draft, now)
	} else if p.Text != "" || p.ReplyTo != nil || p.Quote != nil {
		err = mayfly.Errorf(mayfly.Invalid, "a repost has neither a text nor another post").WithHint("quote the post to add a text")
	} else {
		made, err = d.n.posts.RepostOld(ctx, *p.RepostOf, draft, now)
	}
	if err == nil {
		m.ID, m.Again = &made.Item.ID, made.Again
	}
	return err
}
