package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/deploy/varnish"
	"github.com/mayflyhq/mayfly/product/paste"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskfs"
)

// pasteTrial creates and reads pastes of 1 KiB over HTTP, with few and with many
// stored, in turns with rustypaste, if there is one, with a bare net/http server that
// answers from memory, and with a loop that only writes and syncs. Then it reads
// through Varnish, reads pages, and creates big pastes. Servers and clients share the
// machine.
type pasteTrial struct {
	httpTrial     // warm-up and length of one turn
	conns     int // connections
	edgeConns int // through Varnish
	rounds    int
	stored    []int // pastes in the servers: few, many and, if there is a third, more
	big       int   // bytes of a big paste
}

func pasteTrialOf(f benchForm) pasteTrial {
	t := pasteTrial{conns: 32, edgeConns: 8, rounds: 5, stored: []int{1_000, 100_000, 1_000_000}, big: 10 << 20}
	t.warm, t.lasts = 500*time.Millisecond, 2*time.Second
	if f == quickForm {
		t.rounds, t.stored = 3, []int{1_000, 20_000}
		t.warm, t.lasts = 100*time.Millisecond, 300*time.Millisecond
	}
	return t
}

// pasteSide is a server with pastes.
type pasteSide struct {
	url     string
	created int      // status of a request that creates
	paths   []string // of what is stored, as raw bytes
	bench   *httpBench
	stop    func() error

	reads, creates           pasteRates
	readsAlone, createsAlone []float64 // rates on one connection, in the comparison with a peer that has many
}

// pasteRates are the rates of the turns of one load on one side, and their latencies.
type pasteRates struct {
	perSecond, p50, p99 []float64
	latency             *hdrhistogram.Histogram
}

func (r *pasteRates) add(latency *hdrhistogram.Histogram, took time.Duration) {
	r.perSecond = append(r.perSecond, float64(latency.TotalCount())/took.Seconds())
	r.p50 = append(r.p50, float64(latency.ValueAtQuantile(50)))
	r.p99 = append(r.p99, float64(latency.ValueAtQuantile(99)))
	if r.latency == nil {
		r.latency = newLatencies()
	}
	r.latency.Merge(latency)
}

func (t pasteTrial) run(ctx context.Context, b *bench, folder string) (err error) {
	edge, err := varnish.FreeAddress()
	if err != nil {
		return err
	}
	var sides, peers []*pasteSide // those with many and more are open all the time
	defer func() {
		for _, s := range append(sides, peers...) {
			err = errors.Join(err, s.stop())
		}
	}()
	for _, stored := range t.stored[1:] {
		s, err := t.open(ctx, b, filepath.Join(folder, fmt.Sprint("pastes-", stored)), stored, edge)
		if err != nil {
			return err
		}
		sides = append(sides, s)
	}
	peer, err := startRustypaste(ctx, b.peers, filepath.Join(folder, "rustypaste"), t.stored[1])
	if err == nil {
		peers = []*pasteSide{peer}
	} else if err := b.withoutPeer(ctx, "the ratios to rustypaste are", err); err != nil {
		return err
	}
	if err := t.compare(ctx, b, folder, sides, peers); err != nil {
		return err
	}
	if err := t.edge(ctx, b, sides[0], edge); err != nil {
		return fmt.Errorf("edge: %w", err)
	}
	if err := t.pages(ctx, b, sides[0]); err != nil {
		return fmt.Errorf("pages: %w", err)
	}
	if err := t.createBig(ctx, b, sides[0]); err != nil {
		return fmt.Errorf("big pastes: %w", err)
	}
	b.addIO("paste", sides[0].bench.io())
	return nil
}

// pasteContent is a kibibyte of source text; no two with another number are the same.
func pasteContent(n uint64) []byte {
	line := fmt.Sprintf("func paste%016x(n int) (int, error) { return n * %d, nil } // in a file of its own\n", n, n%1000)
	return []byte(strings.Repeat(line, 1024/len(line)+1))[:1024]
}

// open opens a server of the product in folder with so many pastes.
func (t pasteTrial) open(ctx context.Context, b *bench, folder string, stored int, edge string) (_ *pasteSide, err error) {
	s, err := openHTTPBench(ctx, folder, func(c *config.Config) {
		c.Pastes.Anonymous, c.Pastes.Rate, c.Pastes.HourlyBytes = true, config.Rate{Count: math.MaxInt32, Per: time.Hour}, 1<<50
		c.Edge.Varnish, c.Edge.Secret = []string{"http://" + edge}, edgeSecret
	})
	if err != nil {
		return nil, err
	}
	side := &pasteSide{url: s.server.API(), created: http.StatusCreated, paths: make([]string, stored), bench: s, stop: func() error { return s.close(ctx) }}
	stage := b.progress.Begin("create what is stored", stored)
	defer stage.End()
	steady := func() mayfly.Instant { return s.server.Node.Clock().Read().Steady }
	g, filling := errgroup.WithContext(ctx)
	g.SetLimit(256)
	for n := 0; n < stored && filling.Err() == nil; n++ {
		g.Go(func() error {
			p, err := s.server.Node.Pastes().Create(filling, paste.Draft{Content: strings.NewReader(string(pasteContent(uint64(n))))}, steady)
			if err != nil {
				return err
			}
			side.paths[n] = "/raw/" + p.Item.ID.Short()
			stage.Add(1)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, errors.Join(err, side.stop())
	}
	return side, restUntil(ctx, b, s.io)
}

// compare measures reads and creates on all sides by turns. What has few pastes is
// opened anew for each round, because the round adds to it.
func (t pasteTrial) compare(ctx context.Context, b *bench, folder string, sides, peers []*pasteSide) error {
	few, fewPeer, bare, synced, together := &pasteSide{}, &pasteSide{}, &pasteSide{}, &pasteSide{}, &pasteSide{}
	for round := range t.rounds {
		err := t.round(ctx, b, filepath.Join(folder, fmt.Sprint("round-", round)), append([]*pasteSide{few, bare, synced, together}, sides...), append([]*pasteSide{fewPeer}, peers...))
		if err != nil {
			return err
		}
	}
	more := sides[len(sides)-1]
	growth := make([]float64, t.rounds)
	for i := range growth {
		growth[i] = more.creates.p50[i] / few.creates.p50[i]
	}
	b.report.add("paste.create_growth_ratio", median(growth))
	b.report.add("paste.create_bare_ratio", medianRatio(few.creates.perSecond, synced.creates.perSecond))
	b.report.add("paste.create_bare_parallel_ratio", medianRatio(few.creates.perSecond, together.creates.perSecond))
	b.report.add("paste.create_per_s", median(few.creates.perSecond))
	b.report.add("paste.create_p50_ms", float64(few.creates.latency.ValueAtQuantile(50))/1e6)
	b.report.add("paste.create_p99_ms", float64(few.creates.latency.ValueAtQuantile(99))/1e6)
	b.report.add("paste.raw_bare_ratio", medianRatio(few.reads.perSecond, bare.reads.perSecond))
	b.report.add("paste.raw_per_s", median(few.reads.perSecond))
	b.report.add("paste.raw_p99_ms", float64(few.reads.latency.ValueAtQuantile(99))/1e6)
	if len(peers) > 0 {
		b.report.add("paste.create_ratio", medianRatio(few.creates.perSecond, fewPeer.creates.perSecond))
		b.report.add("paste.raw_ratio", medianRatio(few.reads.perSecond, fewPeer.reads.perSecond))
		b.report.add("paste.create_rustypaste_per_s", median(fewPeer.creates.perSecond))
		b.report.add("paste.raw_rustypaste_per_s", median(fewPeer.reads.perSecond))
		b.report.add("paste.create_many_ratio", medianRatio(sides[0].createsAlone, peers[0].createsAlone))
		b.report.add("paste.raw_many_ratio", medianRatio(sides[0].readsAlone, peers[0].readsAlone))
	}
	return nil
}

// round measures one turn of everything. The first of ours are the product with few
// pastes, the bare server, and the synced writes by one loop and by many; the first of
// the peers, if there are others, is the peer with few.
func (t pasteTrial) round(ctx context.Context, b *bench, folder string, ours, peers []*pasteSide) (err error) {
	few, bare, synced, together := ours[0], ours[1], ours[2], ours[3]
	address, err := varnish.FreeAddress() // no edge is there
	if err != nil {
		return err
	}
	opened, err := t.open(ctx, b, folder, t.stored[0], address)
	if err != nil {
		return err
	}
	few.url, few.created, few.paths = opened.url, opened.created, opened.paths
	defer func() {
		if err = errors.Join(err, opened.stop()); err == nil && len(few.creates.perSecond) == t.rounds {
			err = reportRecord(b, filepath.Join(folder, "data"))
		}
	}()
	header, body, err := answerTo(few.url, getRequest(few.paths[0], ""), http.StatusOK)
	if err != nil {
		return err
	}
	server, err := startBareServer(http.StatusOK, header, body)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.close()) }()
	bare.url, bare.paths = server.url, few.paths
	all := append([]*pasteSide{few, bare}, ours[4:]...)
	if len(peers) > 1 {
		peer, err := startRustypaste(ctx, b.peers, folder+"-rustypaste", t.stored[0])
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, peer.stop()) }()
		peers[0].url, peers[0].created, peers[0].paths = peer.url, peer.created, peer.paths
		all = append(all, peers[0])
		for _, s := range []*pasteSide{ours[4], peers[1]} {
			if err := t.alone(ctx, s, b.seed); err != nil {
				return fmt.Errorf("with %d stored at %s: %w", len(s.paths), s.url, err)
			}
		}
	}
	reads := t
	reads.warm *= 4 // caches fill
	for _, s := range all {
		if err := reads.turn(ctx, b, s, "raw", &s.reads, s.reader(b.seed)); err != nil {
			return err
		}
	}
	for _, s := range slices.DeleteFunc(all, func(s *pasteSide) bool { return s == bare }) {
		if err := t.turn(ctx, b, s, "create", &s.creates, s.writer(b.seed+uint64(len(s.creates.p50)))); err != nil {
			return err
		}
	}
	if err := t.syncs(ctx, b, folder+"-synced", 1, &synced.creates); err != nil {
		return err
	}
	return t.syncs(ctx, b, folder+"-together", t.conns, &together.creates)
}

// turn measures one load on one side.
func (t pasteTrial) turn(ctx context.Context, b *bench, s *pasteSide, what string, into *pasteRates, asker func(*httpConn, int) httpAsker) (err error) {
	askers, err := dialAll(s.url, t.conns, asker)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll(askers)) }()
	if err := t.add(ctx, b, what, into, askers); err != nil {
		return fmt.Errorf("%s at %s: %w", what, s.url, err)
	}
	return nil
}

// add measures until something was answered, which a busy machine may not do in a short
// turn.
func (t pasteTrial) add(ctx context.Context, b *bench, what string, into *pasteRates, askers []httpAsker) error {
	all, took := newLatencies(), time.Duration(0)
	for all.TotalCount() == 0 {
		latency, err := t.measure(ctx, b, what, askers, func() {})
		if err != nil {
			return err
		}
		all.Merge(latency)
		took += t.lasts
	}
	into.add(all, took)
	return nil
}

// alone reads and creates on one connection: with 100,000 files a request takes
// rustypaste so long that it closes other connections.
func (t pasteTrial) alone(ctx context.Context, s *pasteSide, seed uint64) error {
	for _, load := range []struct {
		asker func(*httpConn, int) httpAsker
		into  *[]float64
	}{{s.reader(seed), &s.readsAlone}, {s.writer(seed + uint64(len(s.createsAlone))), &s.createsAlone}} {
		askers, err := dialAll(s.url, 1, load.asker)
		if err != nil {
			return err
		}
		n, start := 0, time.Now()
		for ; err == nil && ctx.Err() == nil && (n == 0 || time.Since(start) < t.lasts); n++ {
			err = askers[0].ask()
		}
		*load.into = append(*load.into, float64(n)/time.Since(start).Seconds())
		if err := errors.Join(err, ctx.Err(), closeAll(askers)); err != nil {
			return err
		}
	}
	return nil
}

// reader returns askers that read what is stored.
func (s *pasteSide) reader(seed uint64) func(*httpConn, int) httpAsker {
	return func(conn *httpConn, n int) httpAsker {
		random := rand.New(rand.NewPCG(seed, uint64(n)))
		return &peerAsker{conn: conn, want: http.StatusOK, make: func([]byte) []byte { return getRequest(s.paths[random.IntN(len(s.paths))], "") }}
	}
}

func getRequest(path, header string) []byte {
	return []byte("GET " + path + " HTTP/1.1\r\nHost: bench\r\n" + header + "\r\n")
}

// writer returns askers that create pastes as curl -F file=@n.txt does.
func (s *pasteSide) writer(seed uint64) func(*httpConn, int) httpAsker {
	return func(conn *httpConn, n int) httpAsker {
		random := rand.New(rand.NewPCG(seed, uint64(n)))
		part := "--" + formEdge + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"n.txt\"\r\nContent-Type: text/plain\r\n\r\n"
		return uniqueAsker(conn, random, s.created, "multipart/form-data; boundary="+formEdge, []byte(part), pasteContent(0), []byte(formEnd))
	}
}

// uniqueAsker sends a request that creates a paste again and again, each time with
// other bytes at the beginning of the content.
func uniqueAsker(conn *httpConn, random *rand.Rand, want int, typ string, before, content, after []byte) httpAsker {
	head := fmt.Sprintf("POST / HTTP/1.1\r\nHost: bench\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", typ, len(before)+len(content)+len(after), before)
	request := slices.Concat([]byte(head), content, after)
	return &peerAsker{conn: conn, want: want, make: func([]byte) []byte {
		copy(request[len(head):], fmt.Appendf(nil, "%016x", random.Uint64()))
		return request
	}}
}

// twoSyncs is what durability costs without a product: it writes and syncs the
// content, then a record, in files of its own.
type twoSyncs struct {
	content, record *syncedFile
	bytes           []byte
}

func (a *twoSyncs) next() []byte { return a.bytes }

func (a *twoSyncs) ask() error {
	if err := a.content.write(a.bytes); err != nil {
		return err
	}
	return a.record.write(a.bytes[:maxPasteRecord])
}

func (a *twoSyncs) close() error { return errors.Join(a.content.close(), a.record.close()) }

// maxPasteRecord is how many bytes the record of a paste may have.
const maxPasteRecord = 200

// syncs measures so many loops of twoSyncs at once.
func (t pasteTrial) syncs(ctx context.Context, b *bench, folder string, loops int, into *pasteRates) (err error) {
	var all []httpAsker
	defer func() { err = errors.Join(err, closeAll(all)) }()
	for n := range loops {
		a := &twoSyncs{bytes: pasteContent(uint64(n))}
		for name, f := range map[string]**syncedFile{"content": &a.content, "record": &a.record} {
			if *f, err = openSyncedFile(filepath.Join(folder, fmt.Sprint(name, n)), bareWrites{writers: 1, syncs: 1}); err != nil {
				return err
			}
		}
		all = append(all, a)
	}
	return t.add(ctx, b, "two syncs", into, all)
}

// reportRecord reads the store of a stopped server and reports the largest record of
// a paste: the values of its row and its body (docs/format-pebble.md).
func reportRecord(b *bench, data string) (err error) {
	db, err := pebble.Open(filepath.Join(data, "ledger"), &pebble.Options{ReadOnly: true, Logger: diskfs.Logger(store.NewFuse(), slog.New(slog.DiscardHandler))})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte("i"), UpperBound: []byte("j")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	largest := 0
	for rows.First(); rows.Valid(); rows.Next() {
		id := mayfly.ID(rows.Key()[len(rows.Key())-16:])
		body, closer, err := db.Get(append([]byte("b"), id[:]...))
		if err != nil {
			return fmt.Errorf("body of %s: %w", id, err)
		}
		largest = max(largest, len(rows.Value())+len(body))
		if err := closer.Close(); err != nil {
			return err
		}
	}
	b.report.add("paste.record_bytes", float64(largest))
	return nil
}
