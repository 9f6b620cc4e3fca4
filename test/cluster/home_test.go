//go:build servers

package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/client"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/social"
)

// Of two nodes one changes something and the other shows the home right after it: it is
// what a plain model of the same operations says (F5, F7).
func TestAHomeAtOneNodeIsRightAsSoonAsTheOtherHasAnswered(t *testing.T) {
	t.Parallel()
	random := seeded(t)
	w := reusedCluster(t, servers(t))
	nodes := []*process{w.start("a", nil), w.start("b", nil)}
	made := func(url, name string, scope account.Scope) *client.Client {
		c, err := client.New(url, client.Options{Token: w.token(name, scope), HTTP: w.http})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	clients, asked, suffix := map[string]*client.Client{}, 0, newName()
	name := func(user int) string { return fmt.Sprintf("user-%d-%s", user, suffix) }
	c := social.Run(t, social.Clients{
		TB: t, Service: made(nodes[0].api, "service", account.Service), Operator: made(nodes[1].admin, "operator", account.Moderator),
		Name:  func(user int) string { return mayfly.HomeUserOf(issuer, name(user)).String() },
		Clock: func() mayfly.Instant { return mayfly.InstantOf(time.Now()) },
		Wait:  func() {},
		As: func(user int) *client.Client {
			asked++ // another node than for the call before
			url := nodes[asked%2].api
			if clients[url+name(user)] == nil {
				clients[url+name(user)] = made(url, name(user), account.User)
			}
			return clients[url+name(user)]
		},
	}, random, pick(40, 200), 4, pick(200, 2000))
	t.Log(c)
	storetest.Proof(t, "home at two nodes, read after each change", "changes", c.Operations)
	storetest.Proof(t, "home at two nodes, read after each change", "pages", c.Pages)
	storetest.Proof(t, "home at two nodes, read after each change", "stale or missing posts", c.Wrong())
}
