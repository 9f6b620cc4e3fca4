package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/feedapi"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/logread"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/feed"
	"github.com/mayflyhq/mayfly/product/feed/text"
	"github.com/mayflyhq/mayfly/store"
)

// Posts returns the product of posts.
func Posts() Product {
	return Product{
		Name: feedapi.Product, Items: []mayfly.Product{mayfly.Post},
		Tables: feed.Tables(),
		Off:    func(o ProductOptions) bool { return o.Feed.Off },
		Open: func(_ context.Context, n *Node) (Parts, error) {
			e, rules, problem := &n.engine, n.o.Products.Feed, func(err error) { n.o.Problem("posts", err) }
			secret, err := secretFor(n.Key(), "mayfly feed cursors 1")
			if err != nil {
				return Parts{}, err
			}
			o := feed.Options{
				Rows: n.set.Rows, Writer: n.set.Writer, Uploads: e.uploads, Intake: e.intake, Gate: e.gate, Hydrate: e.hydrate, Erase: e.erase, Accounts: n.accounts,
				Secret: secret, Default: rules.Lifetime, Shortest: rules.ShortestLifetime, Longest: rules.LongestLifetime, Never: rules.Never, Hold: rules.Hold, Problem: problem,
			}
			if rules.BlocklistFile != "" {
				if o.Blocked, err = text.OpenBlocklist(rules.BlocklistFile, problem); err != nil {
					return Parts{}, err
				}
			}
			if n.posts, err = feed.New(o); err != nil {
				return Parts{}, err
			}
			return Parts{
				Routes: n.feedRoutes,
				Erase:  []accounterase.Part{{Name: "posts", Erase: n.posts.EraseUser, Left: n.posts.LeftOf}},
				Readers: []logread.Options{{Group: "posts", Streams: []mayfly.Stream{mayfly.Ends}, Handle: func(ctx context.Context, e mayfly.Event) error {
					return n.posts.Ended(ctx, e, n.clock.Read().Steady)
				}}},
				Upkeep: n.posts.FollowMarks, Released: func(ctx context.Context, item mayfly.Item) error {
					return n.posts.Released(ctx, item, n.clock.Read().Steady)
				},
				Start: func(ctx context.Context) error {
					n.posts.Start(n.running, func() mayfly.Instant { return n.clock.Read().Steady })
					return n.posts.Begin(ctx, n.clock.Read().Steady)
				},
				Stop:   n.posts.Stop,
				Verify: verifyPost, Explain: n.explainPost,
			}, nil
		},
	}
}

func (n *Node) feedRoutes(registry *prometheus.Registry) ([]httpapi.Route, error) {
	rules, media := n.o.Products.Feed, n.o.Products.Stories
	routes := feedapi.Routes(feedapi.Options{
		Posts: n.posts, LikeRate: account.Rate(rules.LikeRate), Key: n.Key(), URLs: media.URLs, Limits: mediaLimits(media), ThumbnailPixels: media.ThumbnailPixels,
	})
	if n.stories == nil || !media.Off {
		return routes, nil
	}
	uploads, err := n.storyRoutes(registry) // those of uploads and media
	return append(routes, uploads...), err
}

// openPostMedium opens an object of a post.
func (n *Node) openPostMedium(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, object hydrate.Object, now mayfly.Instant) (mayfly.Item, *hydrate.Opened, error) {
	p, m, err := n.posts.Medium(ctx, id, viewer, object, now)
	return p.Item, m, err
}

// Posts returns the product of posts; nil on a node without it.
func (n *Node) Posts() *feed.Feed { return n.posts }

// verifyPost checks that a post that serves can be shown.
func verifyPost(_ context.Context, r *verify.Report, item mayfly.Item, body store.FoundBody) error {
	if !body.Found || item.State == mayfly.Deleted {
		return nil
	}
	_, err := feed.Describe(item, body.Body)
	if errors.Is(err, mayfly.Corrupt) {
		r.Add(verify.Lost, "%s cannot be shown: %v", item.ID, err)
		return nil
	}
	return err
}

// explainPost returns facts about a post; nothing of its text.
func (n *Node) explainPost(ctx context.Context, item mayfly.Item) ([]wire.Fact, error) {
	bodies, err := n.set.Ledger.Body(ctx, item.ID)
	if err != nil || !bodies[0].Found {
		return nil, err
	}
	p, err := feed.Describe(item, bodies[0].Body)
	if err != nil {
		return nil, err
	}
	fact := func(name string, value any) wire.Fact {
		return wire.Fact{About: feedapi.Product, Name: name, Value: fmt.Sprint(value)}
	}
	facts := []wire.Fact{fact("kind", p.Kind)}
	if !p.About.IsZero() {
		facts = append(facts, fact("about", p.About))
	}
	return facts, nil
}
