//go:build servers

package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/faultnet"
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

// fault is what happens to one request to S3.
type fault string

const (
	slowDown     fault = "503"                     // and the server sees nothing
	cutRequest   fault = "cut while it is sent"    // the server sees a length that never comes
	lostReply    fault = "success, reply lost"     // it has happened, and the connection is cut
	cutReply     fault = "cut in the answer"       // in the middle of it
	shortReply   fault = "truncated body"          // half of the answer, as if it were all
	corruptReply fault = "200 with wrong bytes"    // one byte is changed
	wrongCopy    fault = "a copy of wrong bytes"   // 200, and what lies in cold is not what lay in hot
	falseReply   fault = "200 with an error in it" // and nothing has happened
)

// onTheWire is the fault of the proxy; a wrong copy passes it, see coast.copied.
func (f fault) onTheWire() faultnet.Fault {
	return map[fault]faultnet.Fault{
		slowDown: faultnet.SlowDown, cutRequest: faultnet.CutRequest, lostReply: faultnet.LostReply, cutReply: faultnet.CutReply,
		shortReply: faultnet.ShortReply, corruptReply: faultnet.CorruptReply, falseReply: faultnet.ErrorAsSuccess,
	}[f]
}

// weather is what a share of the requests meets.
type weather struct {
	share  float64
	faults []fault
}

// coast stands before the S3 server of some nodes and makes its weather.
type coast struct {
	testing.TB
	cold   store.Blobs // past the weather
	prefix string      // of objects in cold, in a URL
	url    string

	mu  sync.Mutex
	rng *rand.Rand
	now weather
	hit map[fault]int // that took place
	ice map[fault]int // of those, at objects in cold
	all int
}

func newCoast(t testing.TB, endpoint, place string, cold store.Blobs, rng *rand.Rand) *coast {
	t.Helper()
	c := &coast{TB: t, cold: cold, prefix: "/" + place + "/", rng: rng, hit: map[fault]int{}, ice: map[fault]int{}}
	var proxy *faultnet.Proxy
	proxy, c.url = faultnet.NewProxy(t, endpoint, func(r *http.Request) faultnet.Fault {
		f := c.draw(r)
		if f == wrongCopy {
			r.Header.Set(wrongCopyHeader, "yes")
		}
		return f.onTheWire()
	})
	proxy.Alter(c.copied)
	return c
}

// wrongCopyHeader marks a request whose copy is to be spoiled.
const wrongCopyHeader = "X-Mayfly-Test-Wrong-Copy"

// copied spoils the object that a marked request has copied to cold.
func (c *coast) copied(res *http.Response) error {
	if res.Request.Header.Get(wrongCopyHeader) == "" || res.StatusCode/100 != 2 {
		return nil
	}
	if err := c.spoil(mayfly.BlobKey(strings.TrimPrefix(res.Request.URL.Path, c.prefix))); err != nil {
		c.Errorf("spoil %s: %v", res.Request.URL.Path, err)
	}
	return nil
}

// turn changes the weather.
func (c *coast) turn(w weather) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = w
}

// draw says what a request meets; "" is nothing.
func (c *coast) draw(r *http.Request) fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all++
	if len(c.now.faults) == 0 || c.rng.Float64() >= c.now.share {
		return ""
	}
	f := c.now.faults[c.rng.IntN(len(c.now.faults))]
	inCold := strings.HasPrefix(r.URL.Path, c.prefix)
	switch {
	case f == wrongCopy && (!inCold || r.Header.Get("X-Amz-Copy-Source") == ""),
		f == corruptReply && (r.Method != http.MethodGet || r.URL.RawQuery != ""),
		f == falseReply && r.Header.Get("X-Amz-Copy-Source") == "" && r.Method != http.MethodPost, // where S3 may answer so
		f == cutRequest && r.ContentLength < 2:
		return ""
	}
	c.hit[f]++
	if inCold {
		c.ice[f]++
	}
	return f
}

// met says whether each of some faults has met so many requests for objects in
// cold; nothing is sent there that could be cut.
func (c *coast) met(faults []fault, times int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range faults {
		if c.ice[f] < times && (f != cutRequest || c.hit[f] < times) {
			return false
		}
	}
	return true
}

// spoil replaces an object in cold by one with another byte in it.
func (c *coast) spoil(key mayfly.BlobKey) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	content, err := readAll(ctx, c.cold, key)
	if err != nil || len(content) == 0 {
		return err
	}
	content[len(content)/2] ^= 1
	_, err = c.cold.Put(ctx, key, bytes.NewReader(content))
	return err
}

func readAll(ctx context.Context, from store.Blobs, key mayfly.BlobKey) ([]byte, error) {
	r, _, err := from.Open(ctx, key, store.Span{})
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(r)
	if closed := r.Close(); err == nil {
		err = closed
	}
	return content, err
}

// S3 hangs while stories fall due for the archive: connections stand and nothing
// answers. No story is parked for it, hard expiry goes on, and all are cold soon
// after S3 is back (L9, L10).
func TestAnS3ThatHangsIsWaitedFor(t *testing.T) {
	t.Parallel()
	const proof = "S3 hangs"
	r := seeded(t)
	w := newClusterOn(t, servers(t).beside(t, "s3"), newName(), nil)
	t.Cleanup(func() {
		if err := w.query("DROP KEYSPACE IF EXISTS "+w.name, func(*gocql.Iter) {}); err != nil {
			t.Log(err)
		}
	})
	nodes := []*process{w.start("a", nil), w.start("b", nil)}
	l := w.begin(loadOptions{seed: r.Uint64(), writers: 3, readers: 1, lifetimes: []string{"4s", "6s"}, pause: unhurried, patience: time.Minute, nodes: nodes})
	l.goOn(60, 20, time.Minute)
	parked := func() (n int) {
		for _, p := range nodes {
			n += p.parked()
		}
		return n
	}
	before := parked()

	thaw := w.servers.freeze(t, "s3", 1)
	from := time.Now()
	time.Sleep(pick(15*time.Second, time.Minute))
	thaw()
	until := time.Now()
	due := 0
	for _, n := range w.record.all() {
		if at := n.deadline.Add(archiveIn); at.After(from) && at.Before(until) {
			due++
		}
	}
	l.goOn(10, 10, 30*time.Second)
	l.finish()
	drained := eventually(t, time.Minute, "the backlog is worked off", func() bool { return oldest(nodes) < idleAge })
	after := parked()
	end := w.audit()
	end.longer = time.Minute
	end.close(proof)
	storetest.Proof(t, proof, "hung for, fell due meanwhile, parked for it, backlog worked off after",
		fmt.Sprintf("%s, %d, %d, %s", until.Sub(from).Round(time.Millisecond), due, after-before, drained.Round(time.Millisecond)))
	if after > before {
		t.Errorf("%d stories were parked", after-before)
	}
	if due < 20 {
		t.Errorf("%d stories that fell due tell nothing", due)
	}
}
