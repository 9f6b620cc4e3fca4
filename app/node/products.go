package node

import (
	"context"
	"errors"

	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/store"
)

// Products are the rules of what stands on the engine.
type Products struct {
	Stories config.Stories
	Tokens  config.Tokens
	Rates   config.Rates
	// Key signs tokens and media URLs. Without it there are no accounts: nobody
	// follows anybody, and only the audience everyone is served.
	Key *account.Key
	// NewKey says that Key was changed on purpose: the other nodes get it too.
	NewKey bool
	// Presign lets users load and upload media at the store's own address where it
	// has one.
	Presign bool
}

// LoadKey loads the key that a configuration names, and makes it at first start:
// in the data folder unless another place is set.
func LoadKey(c config.Config) (*account.Key, error) {
	return account.LoadKey(keyFile(c))
}

// products are what stands on the engine.
type products struct {
	accounts *account.Accounts // nil without a key
	stories  *story.Stories
}

// Stories is the product.
func (n *Node) Stories() *story.Stories { return n.products.stories }

// Accounts knows who is who; nil on a node without a key.
func (n *Node) Accounts() *account.Accounts { return n.products.accounts }

// Key signs tokens and media URLs; nil on a node without one.
func (n *Node) Key() *account.Key { return n.o.Products.Key }

// open opens the engine and what stands on it.
func (n *Node) open(ctx context.Context) error {
	if key := n.o.Products.Key; key != nil && n.set.Time != nil {
		if err := sameKey(ctx, n.set.Rows, key.ID(), n.o.Products.NewKey); err != nil {
			return err
		}
	}
	if err := n.openAccounts(); err != nil {
		return err
	}
	if err := n.openEngine(ctx); err != nil {
		return err
	}
	return n.openStories(ctx)
}

// openAccounts comes before the gate, which asks them.
func (n *Node) openAccounts() (err error) {
	p := n.o.Products
	if p.Key == nil {
		return nil
	}
	o := account.Options{
		Rows: n.set.Rows, Signals: n.set.Signals, Limits: n.set.Limits, Key: p.Key,
		Issuer: p.Tokens.Issuer, Audience: p.Tokens.Audience, Home: p.Tokens.Home,
		Access: p.Tokens.Access, Refresh: p.Tokens.Refresh,
		Writes: store.Rate(p.Rates.Writes), Reads: store.Rate(p.Rates.Reads), Address: store.Rate(p.Rates.Address),
	}
	if p.Tokens.Trusted != "" {
		o.Trusted = account.Trusted{Issuer: p.Tokens.Trusted, File: p.Tokens.JWKSFile, URL: p.Tokens.JWKSURL, Every: p.Tokens.JWKSEvery}
	}
	if n.products.accounts, err = account.New(o); err != nil {
		return err
	}
	if n.o.Gate.Relations == nil {
		n.o.Gate.Relations = n.products.accounts.Relation
	}
	return nil
}

// openStories comes after the engine, which they stand on.
func (n *Node) openStories(ctx context.Context) error {
	e, rules := &n.engine, n.o.Products.Stories
	longest, err := rememberLongest(ctx, n.set.Rows, rules.Lifetimes)
	if err != nil {
		return err
	}
	n.products.stories, err = story.New(story.Options{
		Rows: n.set.Rows, Writer: n.set.Writer, Intake: e.intake, Gate: e.gate, Hydrate: e.hydrate, Erase: e.erase,
		Lifetimes: rules.Lifetimes, Longest: longest, Live: rules.Live, Media: mediaLimits(rules), MaxMedia: n.o.Intake.MaxMedia,
	})
	return err
}

func mediaLimits(c config.Stories) media.Limits {
	return media.Limits{Image: int64(c.MaxImage), Video: int64(c.MaxVideo), Pixels: c.MaxPixels}
}

// thumbnailLimits are tighter: what is decoded is in memory as a whole.
func thumbnailLimits(c config.Stories) media.Limits {
	limits := mediaLimits(c)
	if c.ThumbnailPixels != 0 {
		limits.Pixels = min(limits.Pixels, c.ThumbnailPixels)
	}
	return limits
}

// closeProducts ends what accounts, hydrate and gate do in the background.
func (n *Node) closeProducts() error {
	var errs []error
	if n.products.accounts != nil {
		n.products.accounts.Close()
	}
	if n.engine.hydrate != nil {
		n.engine.hydrate.Close()
	}
	if n.engine.gate != nil {
		errs = append(errs, n.engine.gate.Close())
	}
	return errors.Join(errs...)
}
