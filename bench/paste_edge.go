package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/mayflyhq/mayfly/deploy/varnish"
)

// edgeSecret is the secret of purges, of which the trial sends none.
const edgeSecret = "a-secret-of-the-benchmark-only"

// edgeReader reads through Varnish, and tells what came from its cache.
type edgeReader struct {
	httpAsker
	conn   *httpConn
	hits   *hdrhistogram.Histogram
	misses int
}

func (r *edgeReader) ask() error {
	begun := time.Now()
	if err := r.httpAsker.ask(); err != nil {
		return err
	}
	if !r.conn.hit {
		r.misses++
		return nil
	}
	return r.hits.RecordValue(time.Since(begun).Nanoseconds())
}

// edge reads through Varnish: few pastes often, most of them rarely. The first turn
// fills the cache.
func (t pasteTrial) edge(ctx context.Context, b *bench, s *pasteSide, address string) (err error) {
	if _, err := exec.LookPath("varnishd"); err != nil {
		return b.withoutPeer(ctx, "the figures of the edge are", err)
	}
	v, err := varnish.Start(varnish.Options{Origin: s.url, Address: address, Secret: edgeSecret, Memory: "256m"})
	if err != nil {
		return b.withoutPeer(ctx, "the figures of the edge are", err)
	}
	defer func() { err = errors.Join(err, v.Stop()) }()
	hits, misses := newLatencies(), 0
	for turn := range 2 {
		var readers []*edgeReader
		askers, err := dialAll(v.URL, t.edgeConns, func(conn *httpConn, n int) httpAsker {
			random := rand.New(rand.NewPCG(b.seed, uint64(turn*t.edgeConns+n)))
			zipf := rand.NewZipf(random, 1.1, 1, uint64(len(s.paths)-1))
			next := &peerAsker{conn: conn, want: http.StatusOK, make: func([]byte) []byte { return getRequest(s.paths[zipf.Uint64()], "") }}
			r := &edgeReader{httpAsker: next, conn: conn, hits: newLatencies()}
			readers = append(readers, r)
			return r
		})
		if err != nil {
			return err
		}
		_, err = t.measure(ctx, b, "through Varnish", askers, func() {})
		if err := errors.Join(err, closeAll(askers)); err != nil {
			return err
		}
		if turn == 0 {
			continue
		}
		for _, r := range readers {
			hits.Merge(r.hits)
			misses += r.misses
		}
	}
	b.report.add("paste.edge_hit_p99_ms", float64(hits.ValueAtQuantile(99))/1e6)
	b.report.add("paste.edge_hit_share", float64(hits.TotalCount())/float64(hits.TotalCount()+int64(misses)))
	return nil
}

// pages reads pages with highlighting: some that are in the cache of pages, then
// each time another one.
func (t pasteTrial) pages(ctx context.Context, b *bench, s *pasteSide) error {
	warm := min(32, len(s.paths))
	for _, load := range []struct {
		figure string
		ids    int // that are read
	}{{"", warm}, {"paste.page_warm_per_s", warm}, {"paste.page_cold_per_s", len(s.paths)}} {
		var pages pasteRates
		err := t.turn(ctx, b, s, "pages", &pages, func(conn *httpConn, n int) httpAsker {
			next := n * load.ids / t.conns
			return &peerAsker{conn: conn, want: http.StatusOK, make: func([]byte) []byte {
				next = (next + 1) % load.ids
				return getRequest(strings.TrimPrefix(s.paths[next], "/raw")+".go", "Accept: text/html\r\n")
			}}
		})
		if err != nil {
			return err
		}
		if load.figure != "" {
			b.report.add(load.figure, pages.perSecond[0])
		}
	}
	return nil
}

// createBig creates big pastes over one connection.
func (t pasteTrial) createBig(ctx context.Context, b *bench, s *pasteSide) error {
	t.conns, t.warm, t.lasts = 1, 0, 2*t.lasts
	var rates pasteRates
	content := opaque(3, t.big)
	err := t.turn(ctx, b, s, "big pastes", &rates, func(conn *httpConn, _ int) httpAsker {
		return uniqueAsker(conn, rand.New(rand.NewPCG(b.seed, 1)), s.created, "application/octet-stream", nil, content, nil)
	})
	if err == nil {
		b.report.add("paste.create_10m_mib_s", rates.perSecond[0]*float64(t.big)/(1<<20))
	}
	return err
}
