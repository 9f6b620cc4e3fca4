package node

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/storyapi"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/store"
)

// Stories returns the product of stories.
func Stories() Product {
	return Product{
		Name: storyapi.Product, Items: []mayfly.Product{mayfly.Story, mayfly.Entry},
		Tables: story.Tables(),
		Off:    func(o ProductOptions) bool { return o.Stories.Off },
		Open: func(ctx context.Context, n *Node) (Parts, error) {
			e, rules := &n.engine, n.o.Products.Stories
			longest, err := rememberLongest(ctx, n.set.Rows, rules.Lifetimes)
			if err != nil {
				return Parts{}, err
			}
			o := story.Options{
				Rows: n.set.Rows, Writer: n.set.Writer, Uploads: e.uploads, Intake: e.intake, Gate: e.gate, Hydrate: e.hydrate, Erase: e.erase,
				Lifetimes: rules.Lifetimes, Longest: longest, Live: rules.Live, Alone: n.o.Products.Alone,
				Node: n.o.Name, Problem: func(err error) { n.o.Problem("stories", err) },
			}
			if n.accounts != nil {
				o.Following = n.accounts.Following
			}
			n.stories, err = story.New(o)
			if err != nil {
				return Parts{}, err
			}
			return Parts{
				Routes: n.storyRoutes, Acts: remind.Acts{remind.Count: n.stories.FinishViews},
				Start: func(context.Context) error {
					n.stories.Start(n.running)
					return nil
				},
				Stop: n.stories.Stop,
			}, nil
		},
	}
}

// Stories returns the product of stories; nil on a node without it.
func (n *Node) Stories() *story.Stories { return n.stories }

func (n *Node) storyRoutes(registry *prometheus.Registry) ([]httpapi.Route, error) {
	rules := n.o.Products.Stories
	o := storyapi.Options{
		Stories: n.stories, Key: n.Key(), URLs: rules.URLs, ArchiveURLs: rules.ArchiveURLs, Presign: n.o.Products.Presign,
		Limits: mediaLimits(rules), ThumbnailPixels: rules.ThumbnailPixels, Registry: registry, Off: rules.Off,
	}
	if n.posts != nil && !n.o.Products.Feed.Off {
		o.Others = append(o.Others, storyapi.Other{For: "post", Reserve: n.posts.Reserve, Open: n.openPostMedium})
	}
	return storyapi.Routes(o)
}

func mediaLimits(c config.Stories) media.Limits {
	return media.Limits{Image: int64(c.MaxImage), Video: int64(c.MaxVideo), Pixels: c.MaxPixels}
}

// thumbnailLimits are tighter: an image that is decoded is in memory as a whole.
func thumbnailLimits(c config.Stories) media.Limits {
	limits := mediaLimits(c)
	if c.ThumbnailPixels != 0 {
		limits.Pixels = min(limits.Pixels, c.ThumbnailPixels)
	}
	return limits
}

// rememberLongest stores and returns the longest lifetime that stories of this store
// were ever allowed, with the given ones. It is durable before a story is published:
// stories live on when the operator shortens the list, and rings and the live limit
// must still find them (ST1, ST4).
func rememberLongest(ctx context.Context, rows store.Rows, allowed []mayfly.Lifetime) (time.Duration, error) {
	var longest time.Duration
	for _, l := range allowed {
		if l.Valid() && l != mayfly.Never { // others are refused when stories are opened
			longest = max(longest, l.Duration())
		}
	}
	key := store.Key{Partition: "stories", Clustering: "longest"}
	current, err := store.Update(ctx, rows, engine.Settings, key, 0, func(old []byte) ([]byte, error) {
		if known, err := readLongest(old); err != nil || known >= longest {
			return old, err
		}
		return longestBytes(longest), nil
	})
	if err != nil {
		return 0, fmt.Errorf("remember the longest lifetime: %w", err)
	}
	return readLongest(current)
}

const longestFormat = 1

func longestBytes(d time.Duration) []byte {
	return binary.BigEndian.AppendUint64([]byte{longestFormat}, uint64(d.Milliseconds()))
}

// readLongest reads the row of the longest lifetime; 0 if there is none.
func readLongest(b []byte) (time.Duration, error) {
	if b == nil {
		return 0, nil
	}
	if len(b) != 1+8 || b[0] != longestFormat {
		return 0, mayfly.Errorf(mayfly.Corrupt, "the longest lifetime cannot be read: %x", b)
	}
	return time.Duration(binary.BigEndian.Uint64(b[1:])) * time.Millisecond, nil
}
