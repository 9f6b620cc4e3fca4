package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/client"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/pace"
	"github.com/mayflyhq/mayfly/test/social"
)

// What a user unfollows, blocks, mutes, deletes, takes back or makes private, and what
// is held, is out of every home when the request is answered (F7).
func TestOverHTTPAHomeIsRightFromTheNextReadOn(t *testing.T) {
	pace.Slow(t, "it makes thousands of requests")
	h := openNode(t, nodeConfig())
	defer h.close()
	c := newCalls(t, h)
	users := map[int]*client.Client{}
	counts := social.Run(t, social.Clients{
		TB: t, Service: c.service, Operator: c.operator,
		Name:  func(user int) string { return fmt.Sprint("~user.", user) },
		Clock: func() mayfly.Instant { return mayfly.InstantOf(time.Now()) },
		Wait:  func() {},
		As: func(user int) *client.Client {
			if users[user] == nil {
				users[user] = c.client(fmt.Sprint("user.", user), "user", false)
			}
			return users[user]
		},
	}, fixture.Seeded(t), 40, 6, 500)
	t.Log(counts)
	storetest.Proof(t, "home over HTTP, read after each change", "changes", counts.Operations)
	storetest.Proof(t, "home over HTTP, read after each change", "stale or missing posts", counts.Wrong())
}
