// Package probe is a toy product: it counts the stories that each user has
// published, from the event log. It shows that a product is added to a node by one
// entry of the list, and that routes, readers, erasure and its proof follow from
// what the product declares.
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
	"github.com/mayflyhq/mayfly/engine/logread"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Name is the name of the product.
const Name = "probe"

// Probe counts births by user, each event once. It is safe for concurrent use.
type Probe struct {
	Committed loop.Signal[mayfly.Stream] // tells a test that events were handled

	mu       sync.Mutex
	seen     map[mayfly.EventKey]mayfly.UserID
	greeted  map[mayfly.UserID]int
	Started  bool
	Stopped  bool
	HookFail error // what the hook on first requests returns
}

// New returns an empty probe.
func New() *Probe {
	return &Probe{Committed: loop.NewSignal[mayfly.Stream](), seen: map[mayfly.EventKey]mayfly.UserID{}, greeted: map[mayfly.UserID]int{}}
}

// Births is the answer of the probe's route.
type Births struct {
	Births int `json:"births"`
}

// Product returns the entry for the list of products.
func (p *Probe) Product(off bool) node.Product {
	return node.Product{Name: Name, Off: off, Open: func(context.Context, *node.Node) (node.Parts, error) {
		return node.Parts{
			Erase:        []accounterase.Part{{Name: Name, Erase: p.erase, Left: p.left}},
			Routes:       p.routes,
			Readers:      []logread.Options{{Group: Name, Handle: p.handle, Streams: []mayfly.Stream{mayfly.Births}, Committed: p.Committed}},
			FirstRequest: p.greet,
			Explain: func(_ context.Context, item mayfly.Item) ([]wire.Fact, error) {
				return []wire.Fact{{About: Name, Name: "owner", Value: item.Owner.String()}}, nil
			},
			Start: func(context.Context) error { p.Started = true; return nil },
			Stop:  func(context.Context) error { p.Stopped = true; return nil },
		}, nil
	}}
}

func (p *Probe) routes(*prometheus.Registry) ([]httpapi.Route, error) {
	return []httpapi.Route{{
		Method: http.MethodGet, Pattern: "/v1/me/births", ID: "countBirths", Tag: Name, Product: Name,
		Summary: "How many stories I have published", Scopes: []account.Scope{account.User}, Limit: httpapi.ReadLimit,
		Answers: httpapi.Answers[Births](http.StatusOK, "The number."),
		Handle: func(c *httpapi.Call) error {
			return c.JSON(http.StatusOK, Births{Births: p.Count(c.Caller.User)})
		},
	}}, nil
}

func (p *Probe) handle(_ context.Context, e mayfly.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[e.Key()] = e.Owner
	return nil
}

func (p *Probe) greet(_ context.Context, user mayfly.UserID, _ mayfly.Instant) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.greeted[user]++
	return p.HookFail
}

// Count returns how many births of a user the probe knows.
func (p *Probe) Count(user mayfly.UserID) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, owner := range p.seen {
		if owner == user {
			n++
		}
	}
	return n
}

// Greeted returns how often the hook on first requests was called for a user.
func (p *Probe) Greeted(user mayfly.UserID) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.greeted[user]
}

func (p *Probe) erase(_ context.Context, user mayfly.UserID, _ mayfly.Instant) (erased int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, owner := range p.seen {
		if owner == user {
			delete(p.seen, key)
			erased++
		}
	}
	return erased, nil
}

func (p *Probe) left(_ context.Context, user mayfly.UserID) (int, error) { return p.Count(user), nil }
