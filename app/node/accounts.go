package node

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
)

// ProductOptions are the settings of accounts and products.
type ProductOptions struct {
	Stories config.Stories
	Pastes  config.Pastes
	KV      config.KV
	Feed    config.Feed
	Listen  config.Listen
	Tokens  config.Tokens
	Rates   config.Rates
	// Alone says that no other node publishes to the same store.
	Alone bool
	// Key signs tokens and media URLs. Without it there are no accounts and no
	// relations, and only the audience everyone is served.
	Key *account.Key
	// NewKey says that Key was changed on purpose and that the other nodes have it too.
	NewKey bool
	// Presign gives users URLs to load and upload media at the store itself, where it
	// has an address for that.
	Presign bool
}

// LoadKey loads the key that a configuration names; by default it is in the data
// folder. It makes one if there is none.
func LoadKey(c config.Config) (*account.Key, error) {
	return account.LoadKey(keyFile(c))
}

// Accounts returns the accounts; nil on a node without a key.
func (n *Node) Accounts() *account.Accounts { return n.accounts }

// Key returns the key that signs tokens and media URLs; nil on a node without one.
func (n *Node) Key() *account.Key { return n.o.Products.Key }

// open opens accounts, the engine and the products.
func (n *Node) open(ctx context.Context, products []Product) error {
	if key := n.o.Products.Key; key != nil && n.set.Time != nil {
		if err := sameKey(ctx, n.set.Rows, key.ID(), n.o.Products.NewKey); err != nil {
			return err
		}
	}
	if err := n.openEdge(); err != nil {
		return err
	}
	if n.o.Gate.Elapsed == nil {
		n.o.Gate.Elapsed = func() time.Duration { return n.o.Source.Read().Boot } // counts the time in which the machine was suspended
	}
	if err := n.openAccounts(ctx); err != nil {
		return err
	}
	if err := n.openEngine(ctx); err != nil {
		return err
	}
	return n.openProducts(ctx, products)
}

// openAccounts opens the accounts. It comes before the gate, which reads relations.
func (n *Node) openAccounts(ctx context.Context) (err error) {
	p := n.o.Products
	if p.Key == nil {
		return nil
	}
	o := account.Options{
		Rows: n.set.Rows, Signals: n.set.Signals, Limits: n.set.Limits, Key: p.Key,
		Issuer: p.Tokens.Issuer, Audience: p.Tokens.Audience, Home: p.Tokens.Home,
		Access: p.Tokens.Access, Refresh: p.Tokens.Refresh, Elapsed: n.o.Gate.Elapsed,
		Shrink: func(ctx context.Context, small io.Writer, image io.Reader, longest int) (string, error) {
			return n.engine.hydrate.Shrink(ctx, small, image, longest)
		},
		Writes: store.Rate(p.Rates.Writes), Follows: store.Rate(p.Rates.Follows), Reads: store.Rate(p.Rates.Reads), AddressReads: store.Rate(p.Rates.AddressReads), AddressWrites: store.Rate(p.Rates.AddressWrites),
	}
	if n.edge != nil {
		o.Purge = n.edge.Owner
	}
	if p.Tokens.Trusted != "" {
		o.Trusted = account.Trusted{Issuer: p.Tokens.Trusted, File: p.Tokens.JWKSFile, URL: p.Tokens.JWKSURL, Every: p.Tokens.JWKSEvery}
		for _, scope := range p.Tokens.TrustedScopes {
			o.Trusted.Scopes = append(o.Trusted.Scopes, account.Scope(scope))
		}
	}
	if n.accounts, err = account.New(ctx, o); err != nil {
		return err
	}
	if n.o.Gate.Relations == nil {
		n.o.Gate.Relations = n.accounts.RelationsOf
	}
	return nil
}

// closeEngine stops the background work of accounts, hydrate and gate.
func (n *Node) closeEngine() error {
	var errs []error
	if n.accounts != nil {
		errs = append(errs, n.accounts.Close())
	}
	if n.closeEdge != nil {
		n.closeEdge()
	}
	if n.engine.hydrate != nil {
		n.engine.hydrate.Close()
	}
	if n.engine.gate != nil {
		errs = append(errs, n.engine.gate.Close())
	}
	return errors.Join(errs...)
}
