//go:build servers

package cluster

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/faultnet"
)

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
