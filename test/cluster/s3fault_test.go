//go:build servers

package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// While S3 refuses, cuts, shortens, lies and loses its answers, stories are born,
// expire and are archived: nothing is cold whose copy was not verified, hot is kept
// until then, the backlog shows its age, and all is done when the weather is fair
// (L9, I1, I2, I14).
func TestNothingReachesColdUnverifiedWhateverS3Does(t *testing.T) {
	t.Parallel()
	w := newCluster(t, map[string]string{"retry.max_backoff": "5s"}) // what failed often waits longer and longer
	direct := w.open(w.config("watcher", nil))
	rng := seeded(t)
	place := w.servers.env["S3_BUCKET"] + "/" + w.name + "/cold"
	c := newCoast(t, w.servers.env["S3"], place, direct.Set.Cold, rng)
	nodes := []*process{}
	for _, name := range []string{"a", "b"} {
		nodes = append(nodes, w.start(name, map[string]string{"s3.endpoint": c.url, "s3.presign": "false"}))
	}
	people := w.begin(loadOptions{seed: rng.Uint64(), writers: 2, readers: 1, lifetimes: []string{"4s", "6s"}, pause: 60 * time.Millisecond, patience: 5 * time.Second})
	eyes := w.watch(direct)
	people.goOn(40, 20, time.Minute)
	eventually(t, time.Minute, "the first stories are cold", func() bool { return eyes.seen() > 5 })
	fair := oldest(nodes)

	for _, f := range []weather{
		{0.01, []fault{slowDown}},
		{0.3, []fault{slowDown}},
		{0.3, []fault{cutRequest, cutReply}},
		{0.3, []fault{shortReply, corruptReply}},
		{0.5, []fault{wrongCopy, corruptReply}},
		{0.3, []fault{lostReply, falseReply}},
		{0.4, []fault{slowDown, cutRequest, cutReply, shortReply, corruptReply, wrongCopy, lostReply, falseReply}},
	} {
		c.turn(f)
		time.Sleep(pick(time.Second, 20*time.Second))
		if f.share > 0.01 {
			eventually(t, 40*time.Second, "the archive has met each of them", func() bool { return c.met(f.faults, 3) })
		}
	}
	c.turn(weather{1, []fault{slowDown}})
	began, gone, before := time.Now(), eyes.seen(), oldest(nodes)
	worst := before
	eventually(t, time.Minute, "the backlog shows that it is older", func() bool {
		worst = max(worst, oldest(nodes))
		return worst > idleAge+5*time.Second
	})
	storetest.Proof(t, "S3 faults", "age of the backlog without S3 for "+time.Since(began).Round(time.Second).String(), fmt.Sprintf("%s, and %s before, %s in fair weather; cold meanwhile %d", worst, before, fair, eyes.seen()-gone))
	c.turn(weather{})
	people.finish()
	drained := eventually(t, 90*time.Second, "the backlog is worked off", func() bool {
		return eyes.seen() == len(w.record.all()) && oldest(nodes) < idleAge
	})
	end := w.audit()
	end.longer = 90 * time.Second
	end.close("S3 faults")
	eyes.close()
	storetest.Proof(t, "S3 faults", "requests and faults", fmt.Sprintf("%d, %v; at objects in cold %v", c.all, c.hit, c.ice))
	storetest.Proof(t, "S3 faults", "stories whose cold copy was read and hashed, looks at hot", fmt.Sprintf("%d, %d", eyes.seen(), eyes.hot))
	storetest.Proof(t, "S3 faults", "all cold after the last fault, those too that were born during it, within", drained.Round(100*time.Millisecond))
	if eyes.seen() < 40 || eyes.hot < 40 {
		t.Errorf("too little was tried: %d stories cold, %d looks at hot", eyes.seen(), eyes.hot)
	}
}

// idleAge is how old the backlog of an archive looks that has nothing to do: it stays
// behind the sweep's saved watermark, which settles and, where nothing passes, is
// written every ten seconds.
const idleAge = settleTime + 10*time.Second + time.Second

var archiveAge = regexp.MustCompile(`(?m)^mayfly_archive_age_seconds ([0-9.e+-]+)$`)

// oldest is the age of what waits longest for the archive, as the nodes show it.
func oldest(nodes []*process) time.Duration {
	var most time.Duration
	for _, p := range nodes {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, p.admin+"/metrics", nil)
		if err != nil {
			p.Fatal(err)
		}
		res, err := p.http.Do(req)
		if err != nil {
			p.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		if err = errors.Join(err, res.Body.Close()); err != nil {
			p.Fatal(err)
		}
		found := archiveAge.FindSubmatch(text)
		if found == nil {
			p.Fatalf("%s says nothing of the age of its backlog", p.name)
		}
		seconds, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil {
			p.Fatal(err)
		}
		most = max(most, time.Duration(seconds*float64(time.Second)))
	}
	return most.Round(10 * time.Millisecond)
}

// eyes look at rows and media past the weather, all the while.
type eyes struct {
	*testCluster
	store *profile.Store
	stop  context.CancelFunc
	done  sync.WaitGroup

	mu   sync.Mutex
	cold map[mayfly.ID]bool
	hot  int
}

func (w *testCluster) watch(direct *profile.Store) *eyes {
	ctx, stop := context.WithCancel(context.Background())
	e := &eyes{testCluster: w, store: direct, stop: stop, cold: map[mayfly.ID]bool{}}
	e.done.Go(func() {
		for ctx.Err() == nil {
			if err := e.look(ctx); err != nil && ctx.Err() == nil {
				w.Errorf("look: %v", err)
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	w.Cleanup(e.close)
	return e
}

func (e *eyes) close() {
	e.stop()
	e.done.Wait()
}

func (e *eyes) seen() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.cold)
}

// look looks at every story that it has not seen cold yet.
func (e *eyes) look(ctx context.Context) error {
	notes := slices.DeleteFunc(e.record.all(), func(n *note) bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.cold[n.id]
	})
	for _, n := range notes[:min(len(notes), 60)] { // the oldest
		item, err := e.row(ctx, n.id)
		if err != nil {
			return err
		}
		if item.State == mayfly.Cold {
			if err := e.same(ctx, n, item, true); err != nil {
				e.Errorf("%s is cold, and its copy is not what was published: %v", n.id, err)
			}
			e.mu.Lock()
			e.cold[n.id] = true
			e.mu.Unlock()
			continue
		}
		if err := e.same(ctx, n, item, false); err != nil {
			again, lost := e.row(ctx, n.id)
			if lost != nil {
				return lost
			}
			if again.Keys.Cold == 0 || e.same(ctx, n, again, true) != nil {
				return fmt.Errorf("%s is %s, and hot is not kept: %w", n.id, again.State, err)
			}
		}
		e.mu.Lock()
		e.hot++
		e.mu.Unlock()
	}
	return ctx.Err()
}

func (e *eyes) row(ctx context.Context, id mayfly.ID) (mayfly.Item, error) {
	found, err := e.store.Set.Ledger.Get(ctx, id)
	if err != nil {
		return mayfly.Item{}, err
	}
	if !found[0].Found {
		return mayfly.Item{}, fmt.Errorf("%s was acknowledged, and has no row", id)
	}
	return found[0].Item, nil
}

// same says whether the one medium of a story is what was published.
func (e *eyes) same(ctx context.Context, n *note, item mayfly.Item, cold bool) error {
	tier, generation := e.store.Set.Hot, item.Keys.Hot
	if cold {
		tier, generation = e.store.Set.Cold, item.Keys.Cold
	}
	content, err := readAll(ctx, tier, item.MediaKey(generation, 0))
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != n.sum {
		return fmt.Errorf("%d bytes with the hash %x", len(content), sum)
	}
	return nil
}
