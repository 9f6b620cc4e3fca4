//go:build servers

package cluster

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/store/storetest"
)

// The same random requests to both profiles, and every answer compared: status,
// headers and bytes, but for ids and signatures. Most of the time is spent waiting
// for the loops of both, so that several pairs play side by side in the long form.
func TestBothProfilesAnswerEveryQuestionAlike(t *testing.T) {
	t.Parallel()
	const each = 5 // of a kind, a seed
	seeds, pairs, requests := pick(1, 20), pick(1, 4), pick(300, 5000)
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
	return &drama{pair: p, seed: seed, rng: rand.New(rand.NewPCG(seed, 6)), done: map[string]int{}, status: map[int]int{}}
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
