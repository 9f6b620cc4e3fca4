package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/pasteapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/paste"
	"github.com/mayflyhq/mayfly/store"
)

// Pastes returns the product of pastes.
func Pastes() Product {
	return Product{
		Name: pasteapi.Product, Items: []mayfly.Product{mayfly.Paste},
		Tables: paste.Tables(),
		Off:    func(o ProductOptions) bool { return o.Pastes.Off },
		Open: func(_ context.Context, n *Node) (Parts, error) {
			e, rules := &n.engine, n.o.Products.Pastes
			secret, err := secretFor(n.Key(), "mayfly pastes 1")
			if err != nil {
				return Parts{}, err
			}
			n.pastes, err = paste.New(paste.Options{
				Rows: n.set.Rows, Writer: n.set.Writer, Uploads: e.uploads, Intake: e.intake, Gate: e.gate, Hydrate: e.hydrate, Erase: e.erase,
				Secret: secret, Anonymous: rules.Anonymous, Default: rules.Lifetime, Shortest: rules.ShortestLifetime, Longest: rules.LongestLifetime,
				Never: rules.Never, MaxSize: int64(rules.MaxSize), RemindAfter: n.o.Intake.RemindAfter, Problem: func(err error) { n.o.Problem("pastes", err) },
			})
			if err != nil {
				return Parts{}, err
			}
			pages := &pastePages{n: n}
			return Parts{
				Routes: pages.routes, Acts: remind.Acts{remind.Burn: n.pastes.Burn}, Verify: n.verifyPaste, Explain: n.explainPaste, Start: pages.start,
			}, nil
		},
	}
}

// Pastes returns the product of pastes; nil on a node without it.
func (n *Node) Pastes() *paste.Pastes { return n.pastes }

// secretFor returns the secret of a use, such as delete tokens; a node without a key
// serves no users and takes a random one.
func secretFor(key *account.Key, use string) ([]byte, error) {
	if key == nil {
		secret := make([]byte, 32)
		_, err := rand.Read(secret)
		return secret, err
	}
	return key.Derive(use)
}

// pastePages is the routes of pastes with the pages that they keep in memory.
type pastePages struct {
	n   *Node
	api atomic.Pointer[pasteapi.API] // nil until the node has an API
}

func (p *pastePages) routes(registry *prometheus.Registry) ([]httpapi.Route, error) {
	rules := p.n.o.Products.Pastes
	api, err := pasteapi.New(pasteapi.Options{
		Pastes: p.n.pastes, Host: rules.Host, Rate: account.Rate(rules.Rate), Bytes: account.Rate{Count: int(rules.HourlyBytes), Per: time.Hour}, Cache: int64(rules.PageCache),
	})
	if err != nil {
		return nil, fmt.Errorf("pastes: %w", err)
	}
	p.api.Store(api)
	return api.Routes, registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mayfly_paste_page_cache_bytes", Help: "Bytes of rendered pages and of small pastes in memory.",
	}, func() float64 { return float64(api.CachedBytes()) }))
}

// dropPagesEvery is how often pages of ended pastes are removed from memory.
const dropPagesEvery = 10 * time.Second

// start starts removing pages of ended pastes from memory, so that a quiet server
// holds nothing of them (P6).
func (p *pastePages) start(context.Context) error {
	p.n.startLoop("pages of pastes", dropPagesEvery, func(context.Context) error {
		if api := p.api.Load(); api != nil {
			api.DropEnded(p.n.clock.Read().Now)
		}
		return nil
	})
	return nil
}

// verifyPaste checks that a paste that serves can be shown.
func (n *Node) verifyPaste(ctx context.Context, r *verify.Report, item mayfly.Item, body store.FoundBody) error {
	if !body.Found || item.State == mayfly.Deleted {
		return nil
	}
	p, err := n.pastes.Describe(ctx, item, body.Body)
	switch {
	case errors.Is(err, mayfly.Corrupt):
		r.Add(verify.Lost, "%s cannot be shown: %v", item.ID, err)
	case err != nil:
		return err
	case p.Left < 0:
		r.Add(verify.Double, "%s was read %d times, and %d were allowed", item.ID, p.Reads-p.Left, p.Reads)
	}
	return nil
}

// explainPaste returns facts about a paste; nothing of its content or its title.
func (n *Node) explainPaste(ctx context.Context, item mayfly.Item) ([]wire.Fact, error) {
	bodies, err := n.set.Ledger.Body(ctx, item.ID)
	if err != nil || !bodies[0].Found {
		return nil, err
	}
	p, err := n.pastes.Describe(ctx, item, bodies[0].Body)
	if err != nil {
		return nil, err
	}
	fact := func(name string, value any) wire.Fact {
		return wire.Fact{About: pasteapi.Product, Name: name, Value: fmt.Sprint(value)}
	}
	facts := []wire.Fact{fact("size", p.Content.Size), fact("type", p.Content.Type), fact("password", p.Locked), fact("cached by the edge", p.Public())}
	if p.Reads > 0 {
		facts = append(facts, fact("reads allowed", p.Reads), fact("reads left", p.Left))
	}
	return facts, nil
}
