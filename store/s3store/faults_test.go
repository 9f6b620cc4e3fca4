//go:build servers

package s3store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/faultnet"
)

// concerns reports whether the fault can damage a request.
func concerns(f faultnet.Fault, r *http.Request) bool {
	switch f {
	case faultnet.ShortRequest, faultnet.CorruptRequest:
		return r.ContentLength > 0
	case faultnet.CutReply, faultnet.ShortReply:
		return r.Method != http.MethodHead
	case faultnet.CorruptReply:
		return r.Method == http.MethodGet && r.URL.RawQuery == ""
	case faultnet.ErrorAsSuccess: // where S3 may answer so
		return r.Header.Get("X-Amz-Copy-Source") != "" || r.Method == http.MethodPost
	default:
		return true
	}
}

// faultTest is a tier behind a proxy, the same tier without it, and what must be in it.
type faultTest struct {
	*testing.T
	rng            *rand.Rand
	faulty, direct *Store
	cold, plain    *Store
	may            map[mayfly.BlobKey][][]byte // what a key may hold; a nil among them is nothing
	ok, failed     int
}

// At every rate of every fault an acknowledged write is there, a failed one left no
// part, and what is read without an error is what was written.
func TestEveryReportedResultIsTrueUnderNetworkFaults(t *testing.T) {
	o := quick(realServer(t))
	direct := connect(t, o)
	hot, cold := freshBucket(t, direct), freshBucket(t, direct)
	plainHot, plainCold := tier(t, direct, TierOptions{Bucket: hot}), tier(t, direct, TierOptions{Bucket: cold})
	rounds := 15
	if os.Getenv("MAYFLY_LONG") != "" {
		rounds = 300
	}
	rng := seeded(t)
	for f := faultnet.SlowDown; f < faultnet.Faults; f++ {
		for _, percent := range []int{1, 20, 50, 100} {
			chance, choice := rand.New(rand.NewPCG(rng.Uint64(), 1)), rand.New(rand.NewPCG(rng.Uint64(), 2))
			t.Run(fmt.Sprintf("%s at %d %%", f, percent), func(t *testing.T) {
				t.Parallel()
				var armed atomic.Bool
				p, address := faultnet.NewProxy(t, o.Endpoint, func(r *http.Request) faultnet.Fault {
					if !armed.Load() || !concerns(f, r) || chance.IntN(100) >= percent {
						return faultnet.Fine
					}
					return f
				})
				faulty := o
				faulty.Endpoint = address
				s := connect(t, faulty)
				x := &faultTest{
					T: t, rng: choice, direct: plainHot, plain: plainCold,
					faulty: tier(t, s, TierOptions{Bucket: hot}), cold: tier(t, s, TierOptions{Bucket: cold}),
					may: map[mayfly.BlobKey][][]byte{},
				}
				for range 2 {
					for _, size := range sizes() { // what is there before the trouble begins
						key, data := freshKey(), noise(choice, size)
						mustPut(t, x.faulty, key, data)
						x.may[key] = [][]byte{data}
					}
				}
				armed.Store(true)
				for n := 0; n < rounds || n < 20*rounds && percent == 100 && p.Hit() == 0; n++ { // few steps are of the kind that some faults concern
					x.step()
				}
				x.check()
				if percent == 100 && p.Hit() == 0 {
					t.Error("no fault took place")
				}
				storetest.Proof(t, "s3 faults", fmt.Sprintf("%s at %d %%", f, percent), fmt.Sprintf("%d requests, %d damaged, %d calls went well, %d failed", len(p.Requests()), p.Hit(), x.ok, x.failed))
			})
		}
	}
}

// sizes are of one request, of two blocks, of two parts.
func sizes() []int { return []int{0, 1, 5000, blockBytes + 5000, readAhead + 5000, minPart + 1000} }

// wentWell counts, and wants every error to have a kind.
func (x *faultTest) wentWell(err error) bool {
	if err == nil {
		x.ok++
		return true
	}
	x.failed++
	if !errors.Is(err, mayfly.Unavailable) && !errors.Is(err, mayfly.Corrupt) {
		x.Errorf("an error of the wire has the wrong kind: %v", err)
	}
	return false
}

func (x *faultTest) anyKey() (mayfly.BlobKey, bool) {
	keys := make([]mayfly.BlobKey, 0, len(x.may))
	for key, held := range x.may {
		if len(held) == 1 && held[0] != nil { // known for sure
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	if len(keys) == 0 {
		return "", false
	}
	return keys[x.rng.IntN(len(keys))], true
}

func (x *faultTest) step() {
	key, there := x.anyKey()
	if !there || x.rng.IntN(4) == 0 {
		x.put(freshKey())
		return
	}
	switch x.rng.IntN(8) {
	case 0:
		x.put(key)
	case 1:
		x.copy(key)
	case 2:
		x.delete(key)
	case 3:
		x.list(key)
	case 4:
		x.stat(key)
	default:
		x.read(key)
	}
}

func (x *faultTest) put(key mayfly.BlobKey) {
	data := noise(x.rng, sizes()[x.rng.IntN(len(sizes()))])
	old := x.may[key]
	if old == nil {
		old = [][]byte{nil}
	}
	o, err := x.faulty.Put(x.Context(), key, bytes.NewReader(data))
	if x.wentWell(err) {
		x.may[key] = [][]byte{data}
		if o != (store.Object{Key: key, Size: int64(len(data)), SHA256: sha256.Sum256(data)}) {
			x.Errorf("put answers %+v", o)
		}
		x.holds(x.direct, key, data)
		return
	}
	x.may[key] = append(slices.Clone(old), data)
}

// holds reads without the proxy and checks that acknowledged writes are there.
func (x *faultTest) holds(tier store.Blobs, key mayfly.BlobKey, want []byte) {
	data, o, err := readAll(x.Context(), tier, key, store.Span{})
	if err != nil || !bytes.Equal(data, want) || o.SHA256 != sha256.Sum256(want) {
		x.Errorf("%s was acknowledged and holds %d bytes, want %d: %v", key, len(data), len(want), err)
	}
}

func (x *faultTest) copy(key mayfly.BlobKey) {
	as := freshKey()
	if _, err := x.faulty.CopyTo(x.Context(), x.cold, key, as); x.wentWell(err) {
		x.holds(x.plain, as, x.may[key][0])
		return
	}
	if data, _, err := readAll(x.Context(), x.plain, as, store.Span{}); !errors.Is(err, mayfly.NotFound) && (err != nil || !bytes.Equal(data, x.may[key][0])) {
		x.Errorf("a copy that failed left %d bytes, %v", len(data), err)
	}
}

func (x *faultTest) delete(key mayfly.BlobKey) {
	if !x.wentWell(x.faulty.Delete(x.Context(), key)) {
		x.may[key] = append(x.may[key], nil)
		return
	}
	delete(x.may, key)
	if _, err := x.direct.Stat(x.Context(), key); !errors.Is(err, mayfly.NotFound) {
		x.Errorf("what was deleted is there: %v", err)
	}
}

func (x *faultTest) list(key mayfly.BlobKey) {
	listed, err := x.faulty.List(x.Context(), key, key+"z", 10)
	if want := []store.Listed{{Key: key, Size: int64(len(x.may[key][0]))}}; x.wentWell(err) && !slices.Equal(listed, want) {
		x.Errorf("listed %v, want %v", listed, want)
	}
}

func (x *faultTest) stat(key mayfly.BlobKey) {
	o, err := x.faulty.Stat(x.Context(), key)
	if data := x.may[key][0]; x.wentWell(err) && (o.Size != int64(len(data)) || o.SHA256 != sha256.Sum256(data)) {
		x.Errorf("stat answers %+v", o)
	}
}

func (x *faultTest) read(key mayfly.BlobKey) {
	data := x.may[key][0]
	span, want := store.Span{}, data
	if len(data) > 0 && x.rng.IntN(2) == 0 {
		span.Offset = x.rng.Int64N(int64(len(data)))
		span.Length = x.rng.Int64N(int64(len(data)))
		want = data[span.Offset:]
		if span.Length > 0 {
			want = want[:min(int64(len(want)), span.Length)]
		}
	}
	got, o, err := readAll(x.Context(), x.faulty, key, span)
	if x.wentWell(err) && (!bytes.Equal(got, want) || o.SHA256 != sha256.Sum256(data)) {
		x.Errorf("%+v of %s was read wrong without an error", span, key)
	}
	if err != nil && len(got) >= len(want) && len(want) > 0 {
		x.Errorf("%d of %d bytes were handed out although %v", len(got), len(want), err)
	}
}

// check checks that failed calls left one of the allowed contents, as a whole.
func (x *faultTest) check() {
	for key, may := range x.may {
		data, _, err := readAll(context.Background(), x.direct, key, store.Span{})
		if errors.Is(err, mayfly.NotFound) {
			data, err = nil, nil
		}
		if err != nil || !slices.ContainsFunc(may, func(m []byte) bool { return (m == nil) == (data == nil) && bytes.Equal(m, data) }) {
			x.Errorf("%s holds %d bytes (%v), which was never written as a whole", key, len(data), err)
		}
	}
}
