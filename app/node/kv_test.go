package node_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/product/kv"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

// lyingKV lists an entry that it cannot read, and one past its expiry.
type lyingKV struct{ store.KV }

func (s lyingKV) Scan(ctx context.Context, sp store.KVSpace, now mayfly.Instant, prefix, after string, limit int) ([]store.KVEntry, string, error) {
	page, next, err := s.KV.Scan(ctx, sp, now, prefix, after, limit)
	for i := range page {
		page[i].Expiry = now
	}
	return append(page, store.KVEntry{Key: "lost", Found: true}), next, err
}

// kvNode starts a node with the key-value store, in which ana has a namespace with one
// entry.
func kvNode(t *testing.T, entries store.KV) (n *nodetest.Node, key mayfly.Secret) {
	t.Helper()
	n = nodetest.Start(t, nodetest.Options{
		Config: func(c *config.Config) { c.Listen.KV = "127.0.0.1:0" },
		Wrap:   func(s *store.Set) { s.KV = entries },
	})
	_, key, err := n.KV().Create(t.Context(), fixture.Ana(), "cache", n.KV().Defaults(), n.Now())
	n.Must(err)
	s, err := n.KV().OpenOwned(t.Context(), fixture.Ana(), "cache")
	n.Must(err)
	_, err = s.Apply(t.Context(), n.Clock().Read(), kv.Group{Ops: []kv.Op{{Key: "k", Action: kv.Set, Value: []byte("v")}}})
	n.Must(err)
	return n, key
}

func TestErasingAnAccountDropsItsNamespaces(t *testing.T) {
	entries := storetest.NewKVModel()
	n, _ := kvNode(t, entries)
	s, err := n.KV().OpenOwned(t.Context(), fixture.Ana(), "cache")
	n.Must(err)
	left, err := n.AccountErase().Scan(t.Context(), fixture.Ana())
	n.Must(err)
	if left.Count == 0 {
		t.Error("the proof of zero references does not see the namespace")
	}
	receipt, err := n.AccountErase().Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "asked to", n.Now())
	n.Must(err)
	if receipt.Rows["kv"] != 1 {
		t.Errorf("the receipt counts %d namespaces", receipt.Rows["kv"])
	}
	stats, err := entries.Stats(t.Context(), store.KVSpace{Name: s.ID()}, n.Now())
	n.Must(err)
	if stats.Keys != 0 {
		t.Errorf("%d entries are left", stats.Keys)
	}
	left, err = n.AccountErase().Scan(t.Context(), fixture.Ana())
	n.Must(err)
	if left.Count != 0 {
		t.Errorf("left after the erasure: %v", left.Examples)
	}
}

// afterEmptyRange calls a function once after a range of a table was empty.
type afterEmptyRange struct {
	store.Rows
	table store.Table
	do    func()
}

func (r *afterEmptyRange) Range(ctx context.Context, t store.Table, at store.Range) ([]store.Row, error) {
	rows, err := r.Rows.Range(ctx, t, at)
	if do := r.do; t == r.table && len(rows) == 0 && do != nil {
		r.do = nil
		do()
	}
	return rows, err
}

// The owner makes a namespace after the first pass has looked for namespaces, and before
// it removes rows of tables.
func TestANamespaceMadeDuringTheErasureOfItsOwnerGoesWithTheSecondPass(t *testing.T) {
	rows := &afterEmptyRange{table: kv.Owned}
	n := nodetest.Start(t, nodetest.Options{Wrap: func(s *store.Set) {
		s.KV = storetest.NewKVModel()
		rows.Rows, s.Rows = s.Rows, rows
	}})
	var key mayfly.Secret
	rows.do = func() {
		var err error
		_, key, err = n.KV().Create(t.Context(), fixture.Ana(), "cache", n.KV().Defaults(), n.Now())
		n.Must(err)
	}
	_, err := n.AccountErase().Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "asked to", n.Now())
	n.Must(err)
	if key == "" {
		t.Fatal("no namespace was made")
	}
	n.Machine.Advance(time.Minute)
	_, err = n.AccountErase().RunDue(t.Context(), n.Now())
	n.Must(err)
	if _, _, err := n.KV().Open(t.Context(), "cache", key.Reveal()); !errors.Is(err, mayfly.Unauthenticated) {
		t.Errorf("the key opens the namespace of an erased account: %v", err)
	}
	left, err := n.AccountErase().Scan(t.Context(), fixture.Ana())
	n.Must(err)
	if left.Count != 0 {
		t.Errorf("left after the erasure: %v", left.Examples)
	}
}

func TestVerifyLooksAtTheKeyValueStore(t *testing.T) {
	n, _ := kvNode(t, storetest.NewKVModel())
	found, err := n.AdminOperations().Verify(t.Context(), false, nil, n.Now())
	n.Must(err)
	if !found.Clean() {
		t.Errorf("a store in order: %s", found.Faults())
	}
	n, _ = kvNode(t, lyingKV{storetest.NewKVModel()})
	found, err = n.AdminOperations().Verify(t.Context(), false, nil, n.Now())
	n.Must(err)
	if found.Count(verify.Lost) != 1 || found.Count(verify.Late) != 1 {
		t.Errorf("a store that lies: %s", found.Faults())
	}
}

func TestANodeServesTheRedisProtocolAndExpiresByItsClock(t *testing.T) {
	n, key := kvNode(t, storetest.NewKVModel())
	listeners := n.Listeners()
	if len(listeners) != 1 {
		t.Fatalf("%d listeners", len(listeners))
	}
	l, err := net.Listen("tcp", listeners[0].Address)
	n.Must(err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- listeners[0].Serve(ctx, l) }()
	c, err := net.Dial("tcp", l.Addr().String())
	n.Must(err)
	defer c.Close()
	n.Must(c.SetDeadline(time.Now().Add(time.Minute)))
	in := bufio.NewReader(c)
	ask := func(want, command string) {
		t.Helper()
		_, err := fmt.Fprintf(c, "%s\r\n", command)
		n.Must(err)
		if got, err := in.ReadString('\n'); err != nil || got != want+"\r\n" {
			t.Errorf("%.8s: got %q, %v, want %q", command, got, err, want)
		}
	}
	ask("+OK", "AUTH cache "+key.Reveal())
	ask("+OK", "SET k w PX 1000")
	n.Machine.Advance(999 * time.Millisecond)
	ask(":1", "PTTL k")
	n.Machine.Advance(time.Millisecond)
	ask(":-2", "PTTL k")
	n.Machine.Step(24 * time.Hour)
	var doubt clock.Reading
	if doubt = n.Clock().Read(); doubt.Confirmed {
		t.Fatal("a step of a day is confirmed")
	}
	ask("-TRYAGAIN "+doubt.Err.Error(), "SET k w")
	cancel()
	n.Must(<-ended)
}

func TestNamespacesOfTheConfigurationAreMadeAtTheStartAndOperatorsMakeTheirKeys(t *testing.T) {
	n := nodetest.Start(t, nodetest.Options{
		Config: func(c *config.Config) { c.KV.Namespaces, c.KV.Quota = []string{"cache", "jobs"}, 1000 },
		Node:   func(o *node.Options) { o.Idle = false },
	})
	by := audit.Actor{Subject: "ben"}
	made, err := n.AdminOperations().AddKVKey(t.Context(), "cache", by, "a program", n.Now())
	n.Must(err)
	s, _, err := n.KV().Open(t.Context(), "cache", made.Key)
	n.Must(err)
	if s.Settings().Quota != 1000 {
		t.Errorf("the quota is %d", s.Settings().Quota)
	}
	if _, _, err := n.KV().Open(t.Context(), "jobs", made.Key); !errors.Is(err, mayfly.Unauthenticated) {
		t.Errorf("the key of another namespace: %v", err)
	}
	n.Must(n.AdminOperations().RemoveKVKey(t.Context(), "cache", made.ID, by, "replaced", n.Now()))
	if _, _, err := n.KV().Open(t.Context(), "cache", made.Key); !errors.Is(err, mayfly.Unauthenticated) {
		t.Errorf("a key that was removed: %v", err)
	}
	_, key, err := n.KV().Create(t.Context(), fixture.Ana(), "anas", n.KV().Defaults(), n.Now())
	n.Must(err)
	if _, err := n.AdminOperations().AddKVKey(t.Context(), "anas", by, "curious", n.Now()); !errors.Is(err, mayfly.NotFound) {
		t.Errorf("an operator got a key of a user's namespace (%d bytes): %v", len(key.Reveal()), err)
	}
	status, err := n.AdminOperations().KVStatus(t.Context())
	n.Must(err)
	if status.Namespaces != 3 {
		t.Errorf("%d namespaces", status.Namespaces)
	}
}

func TestANodeOfAClusterServesKeysOfOneSlot(t *testing.T) {
	n := nodetest.Start(t, nodetest.Options{
		Config: func(c *config.Config) { c.Listen.KV, c.KV.Namespaces = "127.0.0.1:0", []string{"cache"} },
		Node:   func(o *node.Options) { o.Products.Alone = false },
		Wrap:   func(s *store.Set) { s.KV = storetest.KVClusterModel{KVModel: storetest.NewKVModel()} },
	})
	if l := n.Listeners(); len(l) != 1 {
		t.Fatalf("it has %d listeners", len(l))
	}
	n.Must(n.KV().EachSpace(t.Context(), func(s *kv.Space) error {
		if s.OneSlot("a", "b") == nil || s.OneSlot("{a}1", "{a}2") != nil {
			t.Errorf("namespace %s does not know its slots", s.Name)
		}
		return nil
	}))
}

// The configuration may not import products, and has the rule for names of its own.
func TestTheConfigurationAcceptsTheNamesThatANamespaceCanHave(t *testing.T) {
	accepted := 0
	for _, name := range []string{
		"cache", "a", "0", "a.b-c_d", strings.Repeat("a", 64),
		"", ".a", "-a", "_a", "Cache", "a b", "a/b", "a\x00", "a\n", "ä", strings.Repeat("a", 65),
	} {
		c := config.Default()
		c.Data, c.KV.Namespaces = "data", []string{name}
		inConfig, inProduct := c.Validate(), kv.CheckName(name)
		if (inConfig == nil) != (inProduct == nil) {
			t.Errorf("%q: the configuration says %v, the product %v", name, inConfig, inProduct)
		}
		if inProduct == nil {
			accepted++
		}
	}
	if accepted != 5 {
		t.Errorf("%d names are accepted, want 5", accepted)
	}
}

// busyKV calls a function before the first read of one key.
type busyKV struct {
	store.KV
	before func()
}

func (s *busyKV) Get(ctx context.Context, sp store.KVSpace, now mayfly.Instant, keys ...string) ([]store.KVEntry, error) {
	if do := s.before; do != nil && len(keys) == 1 {
		s.before = nil
		do()
	}
	return s.KV.Get(ctx, sp, now, keys...)
}

func TestVerifyOfAServerThatIsWrittenToFindsNothingLost(t *testing.T) {
	for name, change := range map[string]func(other *kv.KV, s *kv.Space, at clock.Reading) error{
		"the key is deleted": func(_ *kv.KV, s *kv.Space, at clock.Reading) error {
			_, err := s.Apply(t.Context(), at, kv.Group{Ops: []kv.Op{{Key: "k", Action: kv.Delete}}})
			return err
		},
		"the namespace is removed by another node": func(other *kv.KV, _ *kv.Space, _ clock.Reading) error {
			return other.Remove(t.Context(), fixture.Ana(), "cache")
		},
	} {
		t.Run(name, func(t *testing.T) {
			entries := &busyKV{KV: storetest.NewKVModel()}
			n, _ := kvNode(t, entries)
			other, err := kv.New(kv.Options{Rows: n.Set.Rows, Store: entries.KV})
			n.Must(err)
			s, err := n.KV().OpenOwned(t.Context(), fixture.Ana(), "cache")
			n.Must(err)
			entries.before = func() { n.Must(change(other, s, n.Clock().Read())) }
			found, err := n.AdminOperations().Verify(t.Context(), false, nil, n.Now())
			n.Must(err)
			if entries.before != nil {
				t.Error("nothing was changed during the verification")
			}
			if !found.Clean() {
				t.Errorf("a store in order: %s", found.Faults())
			}
		})
	}
}
