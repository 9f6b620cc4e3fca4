package redisstore

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Signals implements store.Signals: it carries invalidations between the caches
// of the nodes of a cluster.
//
// Leases. One server keeps the member list: each node with the number of its last
// heartbeat, and the sequence number of the last signal. A node sends four
// heartbeats per lease. Redis sends the heartbeat back on the connection that
// carries the signals, together with the sequence number of the last signal. If
// the node has received every signal up to that number, it holds a lease, counted
// from when it sent the heartbeat. A dead connection therefore gives no lease, and
// a gap in the numbers ends the epoch (trap 18).
//
// Publishing. One script numbers the signal, sends it and reads the member list.
// Each member acknowledges to the publisher. A member that does not acknowledge
// within a lease has lost its lease by then; it is marked as lapsed, so that the
// next publishers do not wait for it. Without a member list each publication would
// have to wait a whole lease, a second. This one takes 0.4–2 ms with one node,
// 1–2 ms with 3 and 2–5 ms with 10, all on two busy cores together with a server
// that syncs every write:
//
//	go test -tags servers -run NONE -bench Publish ./store/redisstore
//
// Lost data. A generation is a period in which the server lost no data
// (memory.lua). A publisher that sees a new generation for the first time waits a
// lease, because members of the old one may still hold leases.
//
// Failed publications. A node whose publication failed sends no heartbeat until it
// has started a new generation, which ends every epoch. While a member is silent,
// no lease is renewed, until the member is removed after Forget, which starts a new
// generation too. Publish returns its error only when the new generation has
// started or the other nodes can have noticed the silence. From then on it is
// enough that the caller waits one lease.
//
// Limits of the protocol. Two masters that both accept writes each reach only
// their own nodes; set min-replicas-to-write where fail-overs happen, or an old row
// may be shown for store.CacheWait. A node that has not reached Redis since its
// start, or for longer than Forget, reaches no node: its caller waits
// store.CacheWait, after which no cache holds the old row.
type Signals struct {
	connection *connection
	o          Options
	members    string // key of the member list
	scripts    scripts
	node       nodeID
	acks       *acks
	tracker    *leaseTracker

	listener, beater, acker *loop.Loop

	unreachable     atomic.Bool   // the last heartbeat or publication failed
	failedPublishes atomic.Uint64 // how many publications failed
	resetUpTo       atomic.Uint64 // how many of them a new generation has followed
	silentFrom      atomic.Int64  // elapsed time from which other nodes may see this node as silent

	mu              sync.Mutex
	beats           [keptBeats]sentBeat
	beat            uint64
	owed            map[nodeID]position // acknowledgements to send
	generation      generation          // the last one seen
	generationSince time.Duration       // when it was first seen
	listenErr       error               // why the listener stopped the last time

	handling    sync.Mutex // held while handlers run, are added or removed
	subscribers map[*subscription]func(store.Signal)
}

var _ store.Signals = (*Signals)(nil)

const keptBeats = 8

// sentBeat is a heartbeat that was sent, whether or not it has come back.
type sentBeat struct {
	number uint64
	at     time.Duration
}

// beatsPerLease allows one heartbeat to be lost and another to be late without
// losing the lease.
const beatsPerLease = 4

func newSignals(cn *connection, o Options, members string) *Signals {
	s := &Signals{
		connection: cn, o: o, members: members, scripts: newScripts(), node: nodeID(rand.Text()), acks: newAcks(), tracker: newLeaseTracker(o.Lease),
		owed: map[nodeID]position{}, subscribers: map[*subscription]func(store.Signal){},
	}
	s.silentFrom.Store(int64(-o.Lease)) // this node is not a member yet
	pause := o.Lease / beatsPerLease
	ctx := context.Background()
	s.acker = loop.Start(ctx, loop.Options{Name: "redis acknowledge", First: time.Hour, Backoff: pause, BackoffMax: pause}, s.acknowledge)
	s.beater = loop.Start(ctx, loop.Options{Name: "redis beat", Every: pause, Jitter: 0.1, Backoff: pause, BackoffMax: pause, Failed: s.logFirst("beat")}, s.sendBeat)
	s.listener = loop.Start(ctx, loop.Options{Name: "redis listen", Backoff: pause / 4, BackoffMax: pause, Jitter: 0.2, Failed: s.logFirst("listen")}, s.listen)
	return s
}

// logFirst returns a function that logs the first of consecutive failures as a
// warning and the others at debug level.
func (s *Signals) logFirst(doing string) func(error, int) {
	return func(err error, inARow int) {
		level := slog.LevelDebug
		if inARow == 1 && !errors.Is(err, errNotConnected) {
			level = slog.LevelWarn
		}
		s.o.Logger.Log(context.Background(), level, "redis lease not renewed", "operation", doing, "error", err)
	}
}

// membersKey returns the key of the member list of a cluster.
func membersKey(prefix string) string { return fmt.Sprintf("{%s:signals}", prefix) }

func (s *Signals) allChannel() string { return s.members + ":1:all" }
func (s *Signals) ownChannel() string { return s.channelOf(s.node) }
func (s *Signals) now() time.Duration { return s.o.Elapsed() }
func (s *Signals) channelOf(node nodeID) string {
	return s.members + ":1:node:" + string(node)
}

//go:embed memory.lua
var memoryLua string

//go:embed beat.lua
var beatLua string

//go:embed publish.lua
var publishLua string

//go:embed lapse.lua
var lapseLua string

//go:embed reset.lua
var resetLua string

//go:embed leave.lua
var leaveLua string

//go:embed forget.lua
var forgetLua string

// scripts are the operations of Signals. Each runs atomically on one server.
type scripts struct{ beat, publish, lapse, reset, leave, forget *rueidis.Lua }

func newScripts() scripts {
	of := func(text string) *rueidis.Lua { return rueidis.NewLuaScript(memoryLua + text) }
	return scripts{beat: of(beatLua), publish: of(publishLua), lapse: of(lapseLua), reset: of(resetLua), leave: of(leaveLua), forget: of(forgetLua)}
}
