//go:build servers

package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// The same random requests to both profiles, and every answer compared: status,
// headers and bytes, but for ids and signatures. Most of the time is spent waiting
// for the loops of both, so that several pairs play side by side in the long form.
func TestBothProfilesAnswerEveryQuestionAlike(t *testing.T) {
	t.Parallel()
	each := pick(2, 5) // of a kind, a seed
	seeds, pairs, requests := pick(1, 20), pick(1, 4), pick(150, 5000)
	first, err := strconv.ParseUint(os.Getenv("MAYFLY_SEED"), 10, 64)
	switch {
	case err == nil:
		seeds, pairs = 1, 1
	case os.Getenv("MAYFLY_SEED") != "":
		t.Fatalf("MAYFLY_SEED: %v", err)
	default:
		first = rand.Uint64() >> 16
	}
	began, done, played := time.Now(), map[string]int{}, 0
	var mu sync.Mutex
	t.Run("pairs", func(t *testing.T) {
		for n := range pairs {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				p := newPair(t, nil)
				for seed := first + uint64(n); seed < first+uint64(seeds); seed += uint64(pairs) {
					d := newDrama(p, seed)
					d.mustPlay(requests, each)
					mu.Lock()
					played += d.requests
					for kind, n := range d.done {
						done[kind] += n
					}
					mu.Unlock()
				}
			})
		}
	})
	least := played
	for _, k := range kinds() {
		if least = min(least, done[k.name]); done[k.name] < each*seeds {
			t.Errorf("%q was done %d times, and must be %d times", k.name, done[k.name], each*seeds)
		}
	}
	const proof = "both profiles"
	storetest.Proof(t, proof, "seeds, requests, each kind at least", fmt.Sprintf("%d, %d, %d", seeds, played, least))
	storetest.Proof(t, proof, "took", time.Since(began).Round(time.Second))
}

// mustPlay plays, and ends the test at the first difference.
func (d *drama) mustPlay(requests, each int) {
	d.Helper()
	if different := d.play(requests, each); different != "" {
		d.Fatalf("after %d requests of MAYFLY_SEED=%d the two differ: %s\n\tthe last requests:\n\t%s", d.requests, d.seed, different, strings.Join(d.last, "\n\t"))
	}
	d.Logf("MAYFLY_SEED=%d: %d requests, %d stories, %d accounts erased, %s waited for loops, steps of the archive done again: %d and %d; answers %v;%s",
		d.seed, d.requests, len(d.stories), d.guest, d.waited.Round(time.Second), d.embedded.claims.total(), d.cluster.claims.total(), d.status, d.count())
}

func newDrama(p *pair, seed uint64) *drama {
	return &drama{
		pair: p, seed: seed, rng: rand.New(rand.NewPCG(seed, 6)), done: map[string]int{}, status: map[int]int{}, patience: slowness * settledWithin,
	}
}

// play sends so many requests, each kind at least so many times if it is possible at all,
// and says what the first difference is; "" if there is none.
func (d *drama) play(requests, each int) string {
	all := kinds()
	for tries := 0; tries < 10*requests && (d.requests < requests || d.lacking(all, each) > 0); tries++ {
		k := d.pick(all)
		if requests-d.requests <= 2*d.lacking(all, each) && d.rng.IntN(2) == 0 { // the other half makes room for what is not possible yet
			k = d.rarest(all)
		}
		different, err := d.next(k)
		if err != nil {
			d.Fatalf("after %d requests of MAYFLY_SEED=%d: %v\n\tthe last requests:\n\t%s", d.requests, d.seed, err, strings.Join(d.last, "\n\t"))
		}
		if different != "" {
			return different
		}
	}
	return ""
}

// pick is a kind: one that was seldom done now and then, so that each comes.
func (d *drama) pick(all []kind) kind {
	k := all[d.rng.IntN(len(all))]
	switch {
	case d.rng.IntN(3) == 0:
		k = d.rarest(all)
	case k.name == "erase account":
		k = all[d.rng.IntN(len(all))] // it leaves less to look at
	case d.rng.IntN(12) == 0:
		k = kind{"publish", (*drama).publish}
	}
	return k
}

// lacking returns how many requests are left until each kind was sent so many times.
func (d *drama) lacking(all []kind, each int) (n int) {
	for _, k := range all {
		n += max(0, each-d.done[k.name])
	}
	return n
}

// rarest is one of the kinds that were done the fewest times. At random, because
// what is not possible yet stays rare.
func (d *drama) rarest(all []kind) kind {
	least := slices.MinFunc(all, func(a, b kind) int { return d.done[a.name] - d.done[b.name] })
	rare := slices.DeleteFunc(slices.Clone(all), func(k kind) bool { return d.done[k.name] > d.done[least.name]+1 })
	return rare[d.rng.IntN(len(rare))]
}

// The windows of a pair, by a clock that is moved by hand.
const (
	pairWindow = 30 * time.Second // from the end to the archive
	pairRemind = 20 * time.Second
	pairLive   = 6 // stories of one author
)

func pairSettings() map[string]string {
	return map[string]string{
		"stories.lifetimes": "60s,30s,120s,600s", "stories.live": fmt.Sprint(pairLive), "s3.presign": "false", "cassandra.timeout": "20s",
		"births.timeout": "10s", "births.remind_after": pairRemind.String(),
		"walk.interval": "250ms", "walk.settle": "15s", "walk.lateness": "100ms",
		"ends.archive_after": pairWindow.String(), "ends.archive_lateness": "100ms", "ends.reconcile": "5m",
	}
}

// pair is the product twice: one node on the embedded store, and two on real
// servers. All go by one clock, which stands still while a question is asked.
type pair struct {
	*testing.T
	clock    *clock.Manual
	now      mayfly.Instant
	embedded *side
	cluster  *side
}

// newPair starts both. change, if there is one, is done to the store of the cluster
// before its nodes get it.
func newPair(t *testing.T, change func(*store.Set)) *pair {
	t.Helper()
	w := newCluster(t, pairSettings())
	p := &pair{T: t}
	p.now = mayfly.InstantOf(time.Now().Add(-10 * 24 * time.Hour)) // a broker refuses events from the future
	p.clock = clock.NewManual(p.now)
	p.clock.Synchronise(true)
	real := clock.System()
	by := profile.Time{
		Now:     func() mayfly.Instant { return mayfly.InstantOf(time.Unix(0, p.clock.Source().Read().Wall)) },
		Elapsed: func() time.Duration { return real.Read().Boot },
	}
	cfg := w.config("e", map[string]string{"profile": string(config.Embedded)})
	cfg.Data, cfg.Disk.Share, cfg.Disk.Floor = "data", 0, 0
	cfg.Walk.Cadence = 50 * time.Millisecond
	disk := vfs.NewMem()
	if err := disk.MkdirAll(cfg.Data, 0o755); err != nil {
		t.Fatal(err)
	}
	own, err := profile.EmbeddedOn(disk, cfg.Data, cfg, node.Tables())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.closed(own.Close()) })
	mine, theirs := newClaims(), newClaims()
	own.Set.Ledger = mine.watch(own.Set.Ledger)
	p.embedded = newSide("embedded", w.key, mine, p.start(cfg, own.Set, w.key))
	var nodes []handlers
	for _, name := range []string{"a", "b"} {
		cfg := w.config(name, nil)
		st := w.openBy(cfg, by)
		st.Set.Time = nil // the servers' clocks are not moved by hand
		st.Set.Ledger = theirs.watch(st.Set.Ledger)
		if change != nil {
			change(&st.Set)
		}
		nodes = append(nodes, p.start(cfg, st.Set, w.key))
	}
	p.cluster = newSide("cluster", w.key, theirs, nodes...)
	return p
}

func (p *pair) closed(err error) {
	if err != nil {
		p.Error(err)
	}
}

// start starts a node by the clock that is moved by hand.
func (p *pair) start(cfg config.Config, set store.Set, key *account.Key) handlers {
	p.Helper()
	o := node.FromConfig(cfg)
	o.Source, o.Products.Key = p.clock.Source(), key
	o.Walk.Lease = time.Hour // by the clock that leaps
	o.Problem = func(loop string, err error) {
		if !errors.Is(err, context.Canceled) {
			p.Logf("%s: %s: %v", filepath.Base(cfg.Data), loop, err)
		}
	}
	n, err := node.Start(context.Background(), set, o)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { p.closed(n.Stop(context.Background())) })
	api, err := n.API(node.ServeOptions{Listen: cfg.Listen, Version: "test"})
	if err != nil {
		p.Fatal(err)
	}
	return handlers{public: api.Public(), admin: api.Admin()}
}

// pass lets time pass.
func (p *pair) pass(d time.Duration) {
	p.clock.Advance(d)
	p.now = p.now.Add(d)
}

// ask asks both sides, and says what of their answers differs; "" if nothing does.
func (p *pair) ask(q question) (reply, string, error) {
	one, err := p.embedded.ask(q, p.now)
	if err != nil {
		return reply{}, "", err
	}
	two, err := p.cluster.ask(q, p.now)
	if err != nil {
		return reply{}, "", err
	}
	if one.status == two.status && fmt.Sprint(one.header) == fmt.Sprint(two.header) && one.body == two.body {
		return one, "", nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n\tembedded: %s\n\tcluster:  %s", q, one, two)
	if at := firstDifference(one.body, two.body); at >= 0 {
		fmt.Fprintf(&text, "\n\tbodies part at byte %d: %.120q, %.120q", at, one.body[min(at, len(one.body)):], two.body[min(at, len(two.body)):])
	}
	return one, text.String(), nil
}

func firstDifference(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	if len(a) != len(b) {
		return min(len(a), len(b))
	}
	return -1
}
