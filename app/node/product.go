package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/engine/edge"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/logread"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
)

// Product is one product of a node. Start takes the list of them, so that a test
// can add one.
type Product struct {
	Name   string
	Items  []mayfly.Product // the types of item that belong to it
	Tables []store.Table    // its own tables; each has an erasure rule

	// Off reports whether the configuration switches the product off; nil is never. It
	// then has no routes, listeners, readers and hooks, and is neither started nor
	// stopped. Tables and erasure stay: what it stored before must still be erased.
	Off func(ProductOptions) bool

	// Open opens the product on the engine of n.
	Open func(ctx context.Context, n *Node) (Parts, error)
}

// Parts is what an opened product adds to a node. Every field may be zero.
type Parts struct {
	// Erase erases what the product keeps of a user outside of tables.
	Erase []accounterase.Part
	// Routes returns the routes for both listeners; its metrics go to the registry.
	Routes func(*prometheus.Registry) ([]httpapi.Route, error)
	// Listeners are for protocols other than HTTP.
	Listeners []Listener
	// Readers read the event log on nodes that walk. Now and Failed are set by the node.
	Readers []logread.Options
	// Acts are what reminders of the product ask for. They are done also while the
	// product is switched off.
	Acts remind.Acts
	// FirstRequest is called at the first authenticated request of a user that this
	// node sees since its start, and again for users it has forgotten. An error is
	// reported, the request goes on, and the next request calls it again.
	FirstRequest func(ctx context.Context, user mayfly.UserID, now mayfly.Instant) error
	// Verify checks an item of the product; it adds what it finds to the report.
	Verify func(ctx context.Context, r *verify.Report, item mayfly.Item, body store.FoundBody) error
	// VerifyStore checks what the product keeps beside items.
	VerifyStore func(ctx context.Context, r *verify.Report, now mayfly.Instant) error
	// Explain returns facts about an item of the product, for operators.
	Explain func(ctx context.Context, item mayfly.Item) ([]wire.Fact, error)
	// Released is called when the hold of an item of the product has ended, with the item
	// as it was held. It may not be called if the process ends.
	Released func(ctx context.Context, item mayfly.Item) error
	// Upkeep is called about once a minute on the node that does the upkeep, with the
	// confirmed time, also while the product is switched off.
	Upkeep func(ctx context.Context, now mayfly.Instant) error
	// Start is called when the node begins its work, Stop before its engine closes.
	Start func(ctx context.Context) error
	Stop  func(ctx context.Context) error
}

// Listener serves a protocol of a product on an address.
type Listener struct {
	Name, Address string
	Serve         func(ctx context.Context, l net.Listener) error
}

// Products returns every product of this module: what a node runs unless Start is
// given another list.
func Products() []Product { return []Product{Stories(), Pastes(), KV(), Posts()} }

// Tables returns every table of the engine, of accounts and of the products, also
// of those that are off: a store is opened with them. Without products it takes
// those of Products.
func Tables(products ...Product) []store.Table {
	if len(products) == 0 {
		products = Products()
	}
	all := slices.Concat(engine.Tables(), accounterase.Tables(), walk.Tables(), remind.Tables(), clock.Tables(), audit.Tables(), intake.Tables(), logread.Tables(), edge.Tables(), upload.Tables(), account.Tables())
	for _, p := range products {
		all = append(all, p.Tables...)
	}
	return all
}

// opened is a product with its parts.
type opened struct {
	Product
	Parts
}

// rememberedUsers is how many users a node remembers to have had a first request.
const rememberedUsers = 1 << 16

// openProducts opens the products on the engine.
func (n *Node) openProducts(ctx context.Context, products []Product) error {
	names := map[string]bool{}
	for _, p := range products {
		if p.Name == "" || names[p.Name] || p.Open == nil {
			return mayfly.Errorf(mayfly.Invalid, "product %q: a product has a name of its own and a function Open", p.Name)
		}
		names[p.Name] = true
		parts, err := p.Open(ctx, n)
		if err != nil {
			return fmt.Errorf("open product %s: %w", p.Name, err)
		}
		n.opened = append(n.opened, opened{p, parts})
		n.engine.accounts.Add(parts.Erase...)
	}
	n.firstRequests = otter.Must(&otter.Options[mayfly.UserID, struct{}]{MaximumSize: rememberedUsers})
	return nil
}

// on returns the products that are not switched off.
func (n *Node) on() (all []opened) {
	for _, p := range n.opened {
		if p.Off == nil || !p.Off(n.o.Products) {
			all = append(all, p)
		}
	}
	return all
}

// Listeners returns the listeners that the products need.
func (n *Node) Listeners() (all []Listener) {
	for _, p := range n.on() {
		all = append(all, p.Listeners...)
	}
	return all
}

// productRoutes returns the routes of the products.
func (n *Node) productRoutes(registry *prometheus.Registry) (all []httpapi.Route, err error) {
	for _, p := range n.on() {
		if p.Routes == nil {
			continue
		}
		routes, err := p.Routes(registry)
		if err != nil {
			return nil, fmt.Errorf("routes of product %s: %w", p.Name, err)
		}
		all = append(all, routes...)
	}
	return all, nil
}

// firstRequest calls the products' hooks when a user is new to this node.
func (n *Node) firstRequest(ctx context.Context, user mayfly.UserID, now mayfly.Instant) {
	if _, known := n.firstRequests.GetIfPresent(user); known {
		return
	}
	var errs []error
	for _, p := range n.on() {
		if p.FirstRequest == nil {
			continue
		}
		if err := p.FirstRequest(ctx, user, now); err != nil {
			errs = append(errs, fmt.Errorf("first request, product %s: %w", p.Name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		n.o.Problem("first request", err)
		return
	}
	n.firstRequests.Set(user, struct{}{})
}

// startProducts starts the products and, on a node that walks, their readers of
// the log and that of the edge.
func (n *Node) startProducts(ctx context.Context) error {
	for _, p := range n.on() {
		if p.Start != nil {
			if err := p.Start(ctx); err != nil {
				return fmt.Errorf("start product %s: %w", p.Name, err)
			}
		}
		if !n.walks() {
			continue
		}
		for _, o := range p.Readers {
			if err := n.startReader(o); err != nil {
				return fmt.Errorf("product %s: %w", p.Name, err)
			}
		}
	}
	if n.edge != nil && n.walks() {
		return n.startReader(n.edge.Reader())
	}
	return nil
}

// startReader starts a reader of the log.
func (n *Node) startReader(o logread.Options) error {
	o.Now = func() mayfly.Instant { return n.clock.Read().Steady }
	o.Failed = func(stream mayfly.Stream, err error, _ int) { n.o.Problem("reader "+o.Group, err) }
	r, err := logread.New(n.set, o)
	if err != nil {
		return err
	}
	r.Start(n.running)
	n.readers = append(n.readers, r)
	return nil
}

// stopProducts stops readers and products, the last one first.
func (n *Node) stopProducts(ctx context.Context) error {
	var errs []error
	for _, r := range n.readers {
		errs = append(errs, r.Stop(ctx))
	}
	on := n.on()
	for i := len(on) - 1; i >= 0; i-- {
		if on[i].Stop != nil {
			errs = append(errs, on[i].Stop(ctx))
		}
	}
	return errors.Join(errs...)
}

// Lags returns how many events wait for each reader of the log on this node.
func (n *Node) Lags() (all []logread.Lag) {
	for _, r := range n.readers {
		all = append(all, r.Lags()...)
	}
	return all
}

// of returns the product that an item belongs to.
func (n *Node) of(item mayfly.Item) (opened, bool) {
	for _, p := range n.opened {
		for _, product := range p.Items {
			if product == item.Product {
				return p, true
			}
		}
	}
	return opened{}, false
}

// released tells the product of an item that its hold has ended.
func (n *Node) released(ctx context.Context, item mayfly.Item) {
	p, found := n.of(item)
	if !found || p.Released == nil {
		return
	}
	if err := p.Released(ctx, item); err != nil {
		n.o.Problem("released", fmt.Errorf("%s: %w", item.ID, err))
	}
}

// VerifyItem checks an item by the rules of its product, for verify.Options.Each.
func (n *Node) VerifyItem(ctx context.Context, r *verify.Report, item mayfly.Item, body store.FoundBody) error {
	if p, found := n.of(item); found && p.Verify != nil {
		return p.Verify(ctx, r, item, body)
	}
	return nil
}

// verifyStores checks what the products keep beside items.
func (n *Node) verifyStores(ctx context.Context, r *verify.Report, now mayfly.Instant) error {
	for _, p := range n.opened {
		if p.VerifyStore == nil {
			continue
		}
		if err := p.VerifyStore(ctx, r, now); err != nil {
			return fmt.Errorf("verify product %s: %w", p.Name, err)
		}
	}
	return nil
}

// lookAtProduct adds what the item's product says about it.
func (n *Node) lookAtProduct(ctx context.Context, c *inquiry) error {
	p, found := n.of(c.item)
	if !c.found || !found || p.Explain == nil {
		return nil
	}
	facts, err := p.Explain(ctx, c.item)
	c.facts = append(c.facts, facts...)
	return err
}
