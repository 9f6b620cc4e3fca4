//go:build servers

package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	auditlog "github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/store"
)

// Opens and rings that show nothing cost the same reads of the store, by number and
// kind, whatever the reason: on both profiles, by the contracts around their drivers
// (I18).
func TestARefusalCostsTheSameReadsOnBothProfiles(t *testing.T) {
	w := newCluster(t, nil)
	cfg := w.config("e", map[string]string{"profile": string(config.Embedded)})
	cfg.Data, cfg.Disk.Share, cfg.Disk.Floor = "data", 0, 0
	disk := vfs.NewMem()
	if err := disk.MkdirAll(cfg.Data, 0o755); err != nil {
		t.Fatal(err)
	}
	own, err := profile.EmbeddedOn(disk, cfg.Data, cfg, node.Tables())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.Close(); err != nil {
			t.Error(err)
		}
	})
	compareRefusals(t, "embedded", cfg, own.Set, w)
	clustered := w.config("a", nil)
	compareRefusals(t, "cluster", clustered, w.open(clustered).Set, w)
}

func compareRefusals(t *testing.T, name string, cfg config.Config, set store.Set, w *testCluster) {
	t.Helper()
	reads := &readCount{}
	set.Ledger, set.Rows = readLedger{set.Ledger, reads}, readRows{set.Rows, reads}
	o := node.FromConfig(cfg)
	o.Products.Key, o.Idle = w.key, true // no walk reads meanwhile
	n, err := node.Start(t.Context(), set, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	hidden, never := hideItems(t, n, set, 5), mayfly.UserOf("test", "never was")
	compared := 0
	for _, viewer := range []mayfly.Viewer{{}, mayfly.ViewerOf(refused())} {
		for round := range 3 { // the first finds no row in the cache
			for _, what := range []string{"open", "ring"} {
				var costs map[string][]string
				for range 3 { // a lease that is lost meanwhile costs other reads
					costs = map[string][]string{}
					for reason, items := range hidden {
						if reason == "blocked" && viewer.User().IsZero() {
							continue // an anonymous viewer is not
						}
						id, owner := items[0].ID, items[0].Owner
						if what == "ring" && reason == "never was" {
							owner = never
						}
						reads.reset()
						if what == "ring" {
							ring, err := n.Stories().Ring(t.Context(), owner, viewer, n.Clock().Read().Now)
							if err != nil || len(ring) > 0 {
								t.Fatalf("%s: %s: ring of %d, %v", name, reason, len(ring), err)
							}
						} else if _, err := n.Gate().Open(t.Context(), id, viewer, n.Clock().Read().Now); !errors.Is(err, mayfly.NotFound) {
							t.Fatalf("%s: %s: %v", name, reason, err)
						}
						cost := reads.String()
						costs[cost] = append(costs[cost], reason)
						compared++
					}
					if len(costs) == 1 {
						break
					}
				}
				t.Logf("%s: %s as user %t, round %d: %s", name, what, !viewer.User().IsZero(), round, slices.Collect(maps.Keys(costs)))
				if len(costs) != 1 {
					t.Errorf("%s: %s as user %t, round %d: the reads tell the reason: %v", name, what, !viewer.User().IsZero(), round, costs)
				}
			}
		}
	}
	t.Logf("%s: %d refusals compared", name, compared)
}

func refused() mayfly.UserID { return mayfly.UserOf("test", "refused") }

// hideItems makes stories that the refused user does not see, for each reason by an
// author of its own.
func hideItems(t *testing.T, n *node.Node, set store.Set, many int) map[string][]mayfly.Item {
	t.Helper()
	in, err := intake.New(set, intake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	lifetime, err := mayfly.LifetimeOf(10 * time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	hidden := map[string][]mayfly.Item{}
	now := func() mayfly.Instant { return n.Clock().Read().Now }
	for reason, audience := range map[string]mayfly.Audience{
		"blocked": mayfly.Everyone, "followers": mayfly.Followers, "close friends": mayfly.CloseFriends,
		"only the author": mayfly.OnlyAuthor, "held": mayfly.Everyone, "deleted": mayfly.Everyone,
	} {
		author := mayfly.UserOf("test", reason)
		if reason == "blocked" {
			must(n.Accounts().Relate(t.Context(), author, refused(), mayfly.Blocked|mayfly.Follower, 0, now()))
		}
		for range many {
			p, err := in.Publish(t.Context(), intake.Draft{Owner: author, Product: mayfly.Story, Fate: mayfly.Archive, Audience: audience, Lifetime: lifetime}, now())
			must(err)
			switch reason {
			case "held":
				must(n.Restore().Hold(t.Context(), p.Item.ID, auditlog.Actor{Subject: "eve"}, "case 9", now()))
			case "deleted":
				must(n.Stories().Delete(t.Context(), p.Item.ID, author, now()))
			}
			hidden[reason] = append(hidden[reason], p.Item)
		}
	}
	id, err := mayfly.NewID(now(), lifetime, 1, 1<<20)
	must(err)
	hidden["never was"] = []mayfly.Item{{ID: id}}
	return hidden
}

// readCount is what was read of a store since the last reset, in order.
type readCount struct {
	mu   sync.Mutex
	list []string
}

func (c *readCount) add(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, fmt.Sprintf(format, args...))
}

func (c *readCount) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = nil
}

func (c *readCount) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.list, ", ")
}

type readLedger struct {
	store.Ledger
	reads *readCount
}

func (l readLedger) Get(ctx context.Context, ids ...mayfly.ID) ([]store.Found, error) {
	l.reads.add("%d rows", len(ids))
	return l.Ledger.Get(ctx, ids...)
}

func (l readLedger) Body(ctx context.Context, ids ...mayfly.ID) ([]store.FoundBody, error) {
	l.reads.add("%d bodies", len(ids))
	return l.Ledger.Body(ctx, ids...)
}

type readRows struct {
	store.Rows
	reads *readCount
}

func (r readRows) Get(ctx context.Context, t store.Table, keys ...store.Key) ([][]byte, error) {
	r.reads.add("get %d of %s", len(keys), t)
	return r.Rows.Get(ctx, t, keys...)
}

func (r readRows) Range(ctx context.Context, t store.Table, of store.Range) ([]store.Row, error) {
	found, err := r.Rows.Range(ctx, t, of)
	r.reads.add("range of %s: %d", t, len(found))
	return found, err
}

func (r readRows) Ranges(ctx context.Context, t store.Table, all ...store.Range) ([][]store.Row, error) {
	return store.EachRange(ctx, r.Range, t, all)
}
