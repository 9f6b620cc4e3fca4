package resp

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/kv"
)

// Options are the settings of a Server. KV and Read are required.
type Options struct {
	KV       *kv.KV
	Read     func() clock.Reading // the node's clock
	Open     func() error         // why clients are not served now; nil: they always are
	Accounts *account.Accounts    // verifies tokens; nil: only keys of namespaces are accepted

	Clients int           // connections at most; default 10,000
	Idle    time.Duration // a connection without a command for so long is closed; default 5 min
	Output  int           // bytes of answers that wait for a slow client; default 1 MiB
	Memory  int64         // bytes of requests and answers of all connections; default 256 MiB
	Stalled time.Duration // a client that takes no byte for so long is closed; default 30 s
	Drain   time.Duration // how long a stop waits for commands under way; default 10 s
	Risky   bool          // KEYS and FLUSHDB are allowed

	Version string
	Log     *slog.Logger
}

func (o Options) withDefaults() Options {
	duration := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if o.Clients == 0 {
		o.Clients = 10_000
	}
	if o.Output == 0 {
		o.Output = 1 << 20
	}
	if o.Memory == 0 {
		o.Memory = 256 << 20
	}
	duration(&o.Idle, 5*time.Minute)
	duration(&o.Stalled, 30*time.Second)
	duration(&o.Drain, 10*time.Second)
	if o.Open == nil {
		o.Open = func() error { return nil }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Server serves the Redis protocol.
type Server struct {
	o        Options
	commands map[string]*command
	budget   *Budget
	cursors  *cursors
	started  time.Time

	accepted atomic.Int64 // connections since the start; the last client id
	executed atomic.Int64 // commands since the start
	leaving  atomic.Bool

	buffers, works sync.Pool // what connections use while their clients are not silent

	mu     sync.Mutex
	conns  map[*conn]struct{}
	shares map[string]*share
	done   sync.WaitGroup
}

// NewServer returns a server.
func NewServer(o Options) (*Server, error) {
	if o.KV == nil || o.Read == nil {
		return nil, mayfly.Errorf(mayfly.Invalid, "resp: the key-value store and the clock are required")
	}
	o = o.withDefaults()
	return &Server{
		o: o, commands: commandTable(o.Risky), budget: NewBudget(o.Memory), cursors: newCursors(), started: time.Now(), conns: map[*conn]struct{}{}, shares: map[string]*share{},
		buffers: sync.Pool{New: newReadBuffer}, works: sync.Pool{New: newWork},
	}, nil
}

// Connections returns how many clients are connected.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Commands returns how many commands were executed since the start.
func (s *Server) Commands() int64 { return s.executed.Load() }

// Serve accepts connections until ctx ends. Then it lets commands under way finish,
// sends their answers and closes the connections.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	stopped := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stopped()
	sweeping, ended := context.WithCancel(ctx)
	defer ended()
	go s.sweep(sweeping)
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				s.drain()
				return nil
			}
			if temporary := net.Error(nil); errors.As(err, &temporary) && temporary.Timeout() {
				continue
			}
			s.drain()
			return err
		}
		s.start(context.WithoutCancel(ctx), c)
	}
}

// start serves a connection, or refuses it if there are too many.
func (s *Server) start(ctx context.Context, nc net.Conn) {
	s.mu.Lock()
	if len(s.conns) >= s.o.Clients {
		s.mu.Unlock()
		_ = nc.SetWriteDeadline(time.Now().Add(time.Second)) // the client may read it or not
		_, _ = nc.Write([]byte("-ERR max number of clients reached\r\n"))
		_ = nc.Close()
		return
	}
	c := newConn(s, nc, s.accepted.Add(1))
	s.conns[c] = struct{}{}
	s.done.Add(1)
	s.mu.Unlock()
	go c.serve(ctx, func() {
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		s.done.Done()
	})
}

// drain ends the connections: each after the commands that it has read, all within
// Options.Drain.
func (s *Server) drain() {
	s.leaving.Store(true)
	s.each(func(c *conn) { _ = c.nc.SetReadDeadline(time.Now()) })
	done := make(chan struct{})
	go func() {
		s.done.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(s.o.Drain):
		s.each(func(c *conn) { _ = c.nc.Close() })
		<-done
	}
}

// share is the part of the memory that the connections to the namespaces of one owner
// take at most, so that they leave some to others.
type share struct {
	*Budget
	owner string
	conns int
}

// shareOf is what part of the memory a share is. The largest answer of one command takes
// half of that.
const shareOf = 2

// joinShare returns the share of the owner of a namespace for a connection, which leaves
// it at its end.
func (s *Server) joinShare(space *kv.Space) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	owner := space.Owner()
	one := s.shares[owner]
	if one == nil {
		one = &share{Budget: s.budget.NewShare(s.o.Memory / shareOf), owner: owner}
		s.shares[owner] = one
	}
	one.conns++
	return one
}

// leaveShare forgets a share that no connection has any more.
func (s *Server) leaveShare(one *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.conns--; one.conns == 0 {
		delete(s.shares, one.owner)
	}
}

func (s *Server) each(do func(*conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		do(c)
	}
}

// addressOf returns the address of a client.
func addressOf(nc net.Conn) netip.Addr {
	at, err := netip.ParseAddrPort(nc.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}
