// Package probe is a toy product: it counts the stories that each user has
// published, from the event log, in a table of its own. It shows that a product is
// added to a node by one entry of the list: the matrix of routes, account erasure
// and its proof follow from what the product declares.
package probe

import (
	"context"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/logread"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Name is the name of the product.
const Name = "probe"

// Table returns the declaration of the probe's table: user, item → nothing.
func Table() store.Declaration {
	return store.Declaration{
		Name: "probe_births", Number: 230, Purpose: "user → ids of the stories that the probe has counted",
		Mode: store.Plain, Erasure: store.PartitionIsUser,
	}
}

// Probe counts births by user, each event once. It is safe for concurrent use.
type Probe struct {
	Committed loop.Signal[mayfly.Stream] // tells a test that events were handled

	table store.Table
	store store.Set
	gate  *gate.Gate

	mu       sync.Mutex
	greeted  map[mayfly.UserID]int
	Started  bool
	Stopped  bool
	HookFail error // what the hook on first requests returns
}

// New returns a probe with the table of a declaration: Table(), or one that is
// wrong on purpose.
func New(d store.Declaration) *Probe {
	return &Probe{Committed: loop.NewSignal[mayfly.Stream](), table: store.DeclareTable(d), greeted: map[mayfly.UserID]int{}}
}

// Births is the answer of the route about the caller.
type Births struct {
	Births int `json:"births"`
}

// Birth is the answer of the route about an item.
type Birth struct {
	Owner mayfly.UserID  `json:"owner"`
	At    mayfly.Instant `json:"at"`
}

// Product returns the entry for the list of products.
func (p *Probe) Product(off bool) node.Product {
	return node.Product{
		Name: Name, Off: func(node.ProductOptions) bool { return off }, Tables: []store.Table{p.table},
		Open: func(_ context.Context, n *node.Node) (node.Parts, error) {
			p.store, p.gate = n.Store(), n.Gate()
			return node.Parts{
				Erase:        []accounterase.Part{{Name: Name, Erase: p.forget, Left: p.left}},
				Routes:       p.routes,
				Readers:      []logread.Options{{Group: Name, Handle: p.handle, Streams: []mayfly.Stream{mayfly.Births}, Committed: p.Committed}},
				FirstRequest: p.greet,
				Explain: func(_ context.Context, item mayfly.Item) ([]wire.Fact, error) {
					return []wire.Fact{{About: Name, Name: "owner", Value: item.Owner.String()}}, nil
				},
				Start: func(context.Context) error { p.Started = true; return nil },
				Stop:  func(context.Context) error { p.Stopped = true; return nil },
			}, nil
		},
	}
}

func (p *Probe) routes(*prometheus.Registry) ([]httpapi.Route, error) {
	return []httpapi.Route{{
		Method: http.MethodGet, Pattern: "/v1/me/births", ID: "countBirths", Tag: Name, Product: Name,
		Summary: "How many stories I have published", Scopes: []account.Scope{account.User}, Limit: httpapi.ReadLimit,
		Answers: httpapi.Answers[Births](http.StatusOK, "The number."),
		Handle: func(c *httpapi.Call) error {
			n, err := p.Count(c.Context(), c.Caller.User)
			if err != nil {
				return err
			}
			return c.JSON(http.StatusOK, Births{Births: n})
		},
	}, {
		Method: http.MethodGet, Pattern: "/v1/births/{id}", ID: "getBirth", Tag: Name, Product: Name,
		Summary: "When a story was published", Limit: httpapi.ReadLimit, Problems: []int{http.StatusNotFound, http.StatusGone},
		Answers: httpapi.Answers[Birth](http.StatusOK, "Its birth."),
		Handle:  p.getBirth,
	}, {
		Method: http.MethodGet, Pattern: "/v1/births", ID: "describeBirths", Tag: Name, Product: Name,
		Summary: "What a birth is", Limit: httpapi.ReadLimit,
		Answers: httpapi.Answers[wire.Fact](http.StatusOK, "What it is."),
		Handle: func(c *httpapi.Call) error {
			return c.JSON(http.StatusOK, wire.Fact{About: Name, Name: "birth", Value: "the publishing of a story"})
		},
	}}, nil
}

func (p *Probe) getBirth(c *httpapi.Call) error {
	id, err := c.ItemID("id")
	if err != nil {
		return err
	}
	opened, err := p.gate.Open(c.Context(), id, c.Caller.Viewer(), c.Now)
	if err != nil {
		return err
	}
	return c.Deliver(http.StatusOK, Birth{Owner: opened.Item.Owner, At: id.Birth()})
}

// handle counts a birth. An event that comes twice writes the same row.
func (p *Probe) handle(ctx context.Context, e mayfly.Event) error {
	var b store.Batch
	b.Put(p.table, store.Key{Partition: string(e.Owner[:]), Clustering: string(e.ID[:])}, []byte{1}, 0)
	return p.store.Writer.Commit(ctx, &b)
}

func (p *Probe) greet(_ context.Context, user mayfly.UserID, _ mayfly.Instant) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.greeted[user]++
	return p.HookFail
}

// Count returns how many births of a user the probe has counted, up to 1000.
func (p *Probe) Count(ctx context.Context, user mayfly.UserID) (int, error) {
	rows, err := p.store.Rows.Range(ctx, p.table, store.Range{Partition: string(user[:]), Limit: 1000})
	return len(rows), err
}

// Greeted returns how often the hook on first requests was called for a user. The
// probe keeps that in memory, not in its table.
func (p *Probe) Greeted(user mayfly.UserID) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.greeted[user]
}

func (p *Probe) forget(_ context.Context, user mayfly.UserID, _ mayfly.Instant) (erased int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	erased = p.greeted[user]
	delete(p.greeted, user)
	return erased, nil
}

func (p *Probe) left(_ context.Context, user mayfly.UserID) (int, error) { return p.Greeted(user), nil }
