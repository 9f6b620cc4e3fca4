package httpapi_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

const streamBodyTimeout = 5 * time.Second

// streamServer is a server in a bubble of testing/synctest, with one route that
// streams the events of a source that the test gives it.
type streamServer struct {
	*nodetest.Node
	api      *httpapi.API
	client   *http.Client
	registry *prometheus.Registry
	source   func(ctx context.Context, send func(httpapi.Event) bool) error
	stopped  chan struct{} // receives when the source has returned
}

func newStreamServer(t *testing.T, buffer int) *streamServer {
	t.Helper()
	s := &streamServer{registry: prometheus.NewRegistry(), stopped: make(chan struct{}, 10)}
	s.Node = nodetest.Start(t, nodetest.Options{Node: func(o *node.Options) { o.Source = nodetest.BubbleClock() }})
	route := httpapi.Route{
		Method: "GET", Pattern: "/v1/test/events", ID: "streamTest", Tag: "test", Product: "test", Summary: "Stream", Answers: httpapi.EventStream("Events."),
		Handle: func(c *httpapi.Call) error {
			return c.Stream(buffer, func(ctx context.Context, send func(httpapi.Event) bool) error {
				defer func() { s.stopped <- struct{}{} }()
				return s.source(ctx, send)
			})
		},
	}
	var err error
	s.api, err = httpapi.New(httpapi.Options{Accounts: s.Accounts(), Clock: s.Clock(), Routes: []httpapi.Route{route}, Registry: s.registry, BodyTimeout: streamBodyTimeout})
	s.Must(err)
	conns := make(chan net.Conn)
	server := &http.Server{Handler: s.api.Public()}
	go func() { _ = server.Serve(pipeListener{conns}) }()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		conns <- theirs
		return ours, nil
	}}
	s.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// pipeListener accepts the ends of pipes: unlike sockets they exist in a bubble.
type pipeListener struct{ conns chan net.Conn }

func (l pipeListener) Accept() (net.Conn, error) {
	if conn, ok := <-l.conns; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (l pipeListener) Close() error   { close(l.conns); return nil }
func (l pipeListener) Addr() net.Addr { return &net.UnixAddr{} }

// open opens the stream; tokenLifetime is that of ana's token, 0 for none.
func (s *streamServer) open(tokenLifetime time.Duration) *http.Response {
	s.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://test/v1/test/events", http.NoBody)
	s.Must(err)
	if tokenLifetime != 0 {
		token, err := s.Accounts().Mint(nodetest.User("ana"), "ana", []account.Scope{account.User}, tokenLifetime, s.Now())
		s.Must(err)
		r.Header.Set("Authorization", "Bearer "+string(token))
	}
	res, err := s.client.Do(r)
	s.Must(err)
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" || res.Header.Get("Cache-Control") != "private, no-store" {
		s.Fatalf("%d %v", res.StatusCode, res.Header)
	}
	return res
}

// linesOf reads a stream to its end and returns its lines, without the empty ones
// and the advice when to reconnect.
func linesOf(res *http.Response) []string {
	defer res.Body.Close()
	var lines []string
	for in := bufio.NewScanner(res.Body); in.Scan(); {
		if text := in.Text(); text != "" && text != "retry: 1000" {
			lines = append(lines, text)
		}
	}
	return lines
}

// wantEnded checks how often a stream has ended for a reason, and that none is
// open.
func (s *streamServer) wantEnded(reason string, times float64) {
	s.Helper()
	synctest.Wait()
	open := `# HELP mayfly_http_streams Open streams of events, by product.
# TYPE mayfly_http_streams gauge
mayfly_http_streams{product="test"} 0
`
	if err := testutil.GatherAndCompare(s.registry, strings.NewReader(open), "mayfly_http_streams"); err != nil {
		s.Error(err)
	}
	families, err := s.registry.Gather()
	s.Must(err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "mayfly_http_streams_ended_total" && m.GetLabel()[1].GetValue() == reason && m.GetCounter().GetValue() == times {
				return
			}
		}
	}
	s.Errorf("no %v streams ended for the reason %s", times, reason)
}

func untilDone(ctx context.Context, _ func(httpapi.Event) bool) error {
	<-ctx.Done()
	return nil
}

func TestAStreamSendsEventsInOrderAndEndsWithItsSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreamServer(t, 10)
		s.source = func(_ context.Context, send func(httpapi.Event) bool) error {
			send(httpapi.Event{ID: "1", Name: "born", Data: "a"})
			send(httpapi.Event{ID: "2\nevent: forged", Data: "b\r\nc"})
			send(httpapi.Event{Data: "ended", End: s.Now()}) // what it contains has ended
			send(httpapi.Event{Data: "ends later", End: s.Now() + 1})
			return nil
		}
		want := []string{"id: 1", "event: born", "data: a", "id: 2event: forged", "data: b", "data: c", "data: ends later", "event: end", "data: complete"}
		if got := linesOf(s.open(0)); !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		s.wantEnded("complete", 1)
	})
}

func TestAnIdleStreamSendsHeartbeatsAndEndsWithTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreamServer(t, 1)
		s.source = untilDone
		begun := time.Now()
		got := linesOf(s.open(50 * time.Second))
		want := []string{": heartbeat", ": heartbeat", ": heartbeat", "event: end", "data: token"} // one each 15 s
		if at := time.Since(begun); !slices.Equal(got, want) || at != 50*time.Second {
			t.Errorf("%q after %s", got, at)
		}
		<-s.stopped
		s.wantEnded("token", 1)
	})
}

func TestAStreamSendsNothingAfterItsTokenWasDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreamServer(t, 1)
		more := make(chan struct{})
		s.source = func(ctx context.Context, send func(httpapi.Event) bool) error {
			send(httpapi.Event{Data: "first"})
			<-more
			send(httpapi.Event{Data: "second"})
			<-ctx.Done()
			return nil
		}
		res := s.open(time.Hour)
		synctest.Wait()
		s.Must(s.Accounts().Revoke(t.Context(), strings.TrimPrefix(res.Request.Header.Get("Authorization"), "Bearer "), s.Now()))
		close(more)
		if got := linesOf(res); !slices.Equal(got, []string{"data: first", "event: end", "data: token"}) {
			t.Errorf("%q", got)
		}
		<-s.stopped
		s.wantEnded("token", 1)
	})
}

func TestADrainEndsEveryStreamAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreamServer(t, 1)
		s.source = untilDone
		first, second := s.open(0), s.open(time.Hour)
		begun := time.Now()
		s.api.Drain()
		s.api.Drain() // again does nothing
		for _, res := range []*http.Response{first, second, s.open(0)} {
			if got := linesOf(res); !slices.Equal(got, []string{"event: end", "data: drain"}) {
				t.Errorf("%q", got)
			}
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("it took %s", took)
		}
		s.wantEnded("drain", 3)
	})
}

func TestAClientThatReadsTooSlowlyIsCutOffWhenItsBufferIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreamServer(t, 4)
		refused := make(chan int, 1)
		s.source = func(_ context.Context, send func(httpapi.Event) bool) error {
			for n := 0; ; n++ {
				if !send(httpapi.Event{Data: strings.Repeat("x", 16<<10)}) {
					refused <- n
					return nil
				}
				synctest.Wait() // until the server waits for the client, which reads nothing
			}
		}
		begun := time.Now()
		res := s.open(0)
		<-s.stopped
		if n := <-refused; n < 4 || n > 6 {
			t.Errorf("%d events were accepted with a buffer of 4", n)
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("it was cut off after %s", took)
		}
		s.wantEnded("slow", 1)
		_ = res.Body.Close()
	})
}

func TestAClientThatTakesTooLongForOneEventIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreamServer(t, 4)
		s.source = func(ctx context.Context, send func(httpapi.Event) bool) error {
			send(httpapi.Event{Data: strings.Repeat("x", 16<<10)})
			<-ctx.Done()
			return nil
		}
		begun := time.Now()
		res := s.open(0)
		<-s.stopped
		if took := time.Since(begun); took < streamBodyTimeout || took > 2*streamBodyTimeout {
			t.Errorf("it was cut off after %s", took)
		}
		s.wantEnded("slow", 1)
		_ = res.Body.Close()
	})
}

func TestAStreamEndsWhenItsClientGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreamServer(t, 1)
		s.source = untilDone
		if err := s.open(0).Body.Close(); err != nil {
			t.Fatal(err)
		}
		<-s.stopped
		s.wantEnded("client", 1)
	})
}
