package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// bareServer is net/http without the product: its handler reads the request,
// repeats the synced writes of the product, if there are any, and sends the bytes
// that the product answered with.
type bareServer struct {
	server *http.Server
	url    string
	served chan error
	file   atomic.Pointer[syncedFile] // nil if nothing is written
	record atomic.Pointer[[]byte]     // what a request writes
}

// startBareServer starts a server that answers as the product did.
func startBareServer(status int, header http.Header, body []byte) (*bareServer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &bareServer{url: "http://" + l.Addr().String(), served: make(chan error, 1)}
	s.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if f := s.file.Load(); f != nil {
			if err := f.write(*s.record.Load()); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		for name, values := range header {
			w.Header()[name] = values
		}
		w.WriteHeader(status)
		_, _ = w.Write(body) // the client notices
	})}
	go func() { s.served <- s.server.Serve(l) }()
	return s, nil
}

func (s *bareServer) close() error {
	err := s.server.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// bareAsker sends the same request again and again.
type bareAsker struct {
	conn    *httpConn
	request []byte
	want    int
}

func (a *bareAsker) next() []byte { return a.request }
func (a *bareAsker) ask() error   { return a.conn.do(a.request, a.want) }
func (a *bareAsker) close() error { return a.conn.close() }

// httpPair is an exchange with the product, repeated with a bare server.
type httpPair struct {
	what, title string
	askers      []httpAsker
	request     []byte // one that they send
	want        int    // status of the answer
	writes      bool
}

// compare measures the product and the bare server by turns, with as many
// connections and the same bytes in both directions.
func (t httpTrial) compare(ctx context.Context, b *bench, s *httpBench, folder string, p httpPair) (err error) {
	defer func() { err = errors.Join(err, closeAll(p.askers)) }()
	header, body, err := answerTo(s.server.API(), p.request, p.want)
	if err != nil {
		return err
	}
	server, err := startBareServer(p.want, header, body)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.close()) }()
	bareAskers, err := dialAll(server.url, len(p.askers), func(conn *httpConn, _ int) httpAsker {
		return &bareAsker{conn: conn, request: p.request, want: p.want}
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll(bareAskers)) }()
	turn, short := t, t
	turn.warm, turn.lasts = t.warm/baselineTurns, t.lasts/baselineTurns
	short.warm, short.lasts = turn.warm/2, turn.lasts/2
	all := newLatencies()
	var ours, bare []float64
	for range baselineTurns {
		before, start := syncedIO(s.server.Store.Meter), time.Now()
		latency, err := turn.measure(ctx, b, p.title, p.askers, func() {})
		if err != nil {
			return err
		}
		all.Merge(latency)
		perSecond := float64(latency.TotalCount()) / turn.lasts.Seconds()
		count := int64(perSecond * time.Since(start).Seconds()) // those of the warm-up too
		var writes *bareWrites
		if p.writes {
			w := newBareWrites(len(p.askers), syncedIO(s.server.Store.Meter).since(before), count)
			writes = &w
		}
		latency, err = short.measureBare(ctx, b, server, folder, bareAskers, writes)
		if err != nil {
			return fmt.Errorf("bare server: %w", err)
		}
		ours, bare = append(ours, perSecond), append(bare, float64(latency.TotalCount())/short.lasts.Seconds())
	}
	t.report(b, p.what, all)
	b.report.add("http."+p.what+"_ratio_bare", medianRatio(ours, bare))
	return nil
}

// measureBare lets the askers ask the bare server, which repeats the writes unless
// they are nil.
func (t httpTrial) measureBare(ctx context.Context, b *bench, s *bareServer, folder string, askers []httpAsker, writes *bareWrites) (latency *hdrhistogram.Histogram, err error) {
	if writes == nil {
		return t.measure(ctx, b, "bare server", askers, func() {})
	}
	f, err := openSyncedFile(filepath.Join(folder, "bare"), *writes)
	if err != nil {
		return nil, err
	}
	record := opaque(2, writes.bytes)
	s.record.Store(&record)
	s.file.Store(f)
	defer func() {
		s.file.Store(nil)
		err = errors.Join(err, f.close())
	}()
	return t.measure(ctx, b, "bare server", askers, f.leave)
}

// answerTo sends one request and returns the header and the body of the answer.
func answerTo(url string, request []byte, want int) (http.Header, []byte, error) {
	conn, err := dialHTTP(url)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = conn.close() }() // the answer has been read
	if _, err := conn.net.Write(request); err != nil {
		return nil, nil, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn.net), nil)
	if err != nil {
		return nil, nil, err
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(answer.Body); err != nil {
		return nil, nil, err
	}
	if answer.StatusCode != want {
		return nil, nil, fmt.Errorf("status %d instead of %d: %.300s", answer.StatusCode, want, body.Bytes())
	}
	answer.Header.Del("Date") // net/http sends its own
	return answer.Header, body.Bytes(), nil
}

func closeAll(askers []httpAsker) error {
	var err error
	for _, a := range askers {
		err = errors.Join(err, a.close())
	}
	return err
}
