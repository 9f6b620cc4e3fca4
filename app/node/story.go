package node

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/storyapi"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/product/story"
)

// Stories returns the product of stories.
func Stories() Product {
	return Product{
		Name: storyapi.Product, Items: []mayfly.Product{mayfly.Story, mayfly.Entry},
		Tables: story.Tables(),
		Open: func(ctx context.Context, n *Node) (Parts, error) {
			e, rules := &n.engine, n.o.Products.Stories
			longest, err := rememberLongest(ctx, n.set.Rows, rules.Lifetimes)
			if err != nil {
				return Parts{}, err
			}
			n.stories, err = story.New(story.Options{
				Rows: n.set.Rows, Writer: n.set.Writer, Uploads: e.uploads, Intake: e.intake, Gate: e.gate, Hydrate: e.hydrate, Erase: e.erase,
				Lifetimes: rules.Lifetimes, Longest: longest, Live: rules.Live,
			})
			return Parts{Routes: n.storyRoutes}, err
		},
	}
}

// Stories returns the product of stories; nil on a node without it.
func (n *Node) Stories() *story.Stories { return n.stories }

func (n *Node) storyRoutes(registry *prometheus.Registry) ([]httpapi.Route, error) {
	rules := n.o.Products.Stories
	return storyapi.Routes(storyapi.Options{
		Stories: n.stories, Key: n.Key(), URLs: rules.URLs, ArchiveURLs: rules.ArchiveURLs, Presign: n.o.Products.Presign,
		Limits: mediaLimits(rules), ThumbnailPixels: rules.ThumbnailPixels, Registry: registry,
	})
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
