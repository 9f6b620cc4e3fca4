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

// Signals carries invalidations between the caches of the nodes of a cluster.
//
// One server keeps the roll: the nodes with the number of their last beat, and
// the number of the last signal. A node beats four times a lease. The beat comes
// back to it on the connection that signals come by, with the number that it has
// to have heard by then: that gives the lease, counted from when the beat was
// sent. A connection that is silently dead gives none; a gap in the numbers ends
// the epoch (trap 18).
//
// Publish numbers the signal, tells it and reads the roll in one deed. Each node
// of the roll acknowledges to the publisher; who does not within a lease has lost
// his by then, and is noted as lapsed, so that nobody waits for him again.
// Waiting one lease each time would need no roll and cost a second a signal; this
// takes 0.4–2 ms alone, 1–2 ms among 3 nodes and 2–5 ms among 10, all of them and
// a server that syncs every write on two busy cores:
//
//	go test -tags servers -run NONE -bench Publish ./store/redisstore
//
// What the roll forgets: see memory.lua. A publisher that meets a life of the
// server's memory for the first time waits a lease, for those who got theirs in
// another one.
//
// A publisher that is cut off cannot tell anybody. A publication that failed is a
// debt: the node stays silent until it has paid it by ending the life, and with
// it every epoch; and while a node of the roll is silent, nobody's lease is
// renewed, until it is forgotten after Forget, which ends the life too. Publish
// fails only once the debt is paid or the silence can be noticed, so that the
// lease that its caller then waits is enough.
//
// What the signals cannot carry: two masters that both take writes (set
// min-replicas-to-write where fail-overs happen) each tell their own half; and a
// node that cannot reach Redis for longer than Forget, or has not yet since its
// start, tells nobody. For the second the caller waits as long as anybody's cache
// may be old (store.CacheWait); with two masters a row may be shown that long.
type Signals struct {
	door    *door
	o       Options
	roll    string // its key
	scripts scripts
	node    nodeID
	acks    *acks
	hearing *hearing

	ear, beater, acker *loop.Loop

	away  atomic.Bool   // the last beat or publication failed
	debts atomic.Uint64 // publications that failed
	paid  atomic.Uint64 // up to which of them the life was ended
	spoke atomic.Int64  // elapsed time since which the others may find this node silent

	mu    sync.Mutex
	beats [keptBeats]sentBeat
	beat  uint64
	owed  map[nodeID]place // acknowledgements
	life  life             // the last one met
	metAt time.Duration    // when
	deaf  error            // why the ear heard nothing more, the last time

	handling    sync.Mutex // handlers run, come and go one at a time
	subscribers map[*subscription]func(store.Signal)
}

var _ store.Signals = (*Signals)(nil)

const keptBeats = 8

// sentBeat is a beat that has not come back yet, or has.
type sentBeat struct {
	number uint64
	at     time.Duration
}

// beatsPerLease: a beat may be lost, and another late, and the lease is kept.
const beatsPerLease = 4

func newSignals(d *door, o Options, roll string) *Signals {
	s := &Signals{
		door: d, o: o, roll: roll, scripts: newScripts(), node: nodeID(rand.Text()), acks: newAcks(), hearing: newHearing(o.Lease),
		owed: map[nodeID]place{}, subscribers: map[*subscription]func(store.Signal){},
	}
	s.spoke.Store(int64(-o.Lease)) // nobody counts on us yet
	pause := o.Lease / beatsPerLease
	ctx := context.Background()
	s.acker = loop.Start(ctx, loop.Options{Name: "redis acknowledge", First: time.Hour, Backoff: pause, BackoffMax: pause}, s.acknowledge)
	s.beater = loop.Start(ctx, loop.Options{Name: "redis beat", Every: pause, Jitter: 0.1, Backoff: pause, BackoffMax: pause, Failed: s.failed("beat")}, s.sendBeat)
	s.ear = loop.Start(ctx, loop.Options{Name: "redis listen", Backoff: pause / 4, BackoffMax: pause, Jitter: 0.2, Failed: s.failed("listen")}, s.listen)
	return s
}

// failed logs the first failure in a row: the others say the same.
func (s *Signals) failed(doing string) func(error, int) {
	return func(err error, inARow int) {
		level := slog.LevelDebug
		if inARow == 1 && !errors.Is(err, errNotConnected) {
			level = slog.LevelWarn
		}
		s.o.Logger.Log(context.Background(), level, "redis: no lease for caches", "doing", doing, "error", err)
	}
}

// rollOf is the key of the roll that the nodes share.
func rollOf(prefix string) string { return fmt.Sprintf("{%s:signals}", prefix) }

func (s *Signals) allChannel() string { return s.roll + ":1:all" }
func (s *Signals) ownChannel() string { return s.channelOf(s.node) }
func (s *Signals) now() time.Duration { return s.o.Elapsed() }
func (s *Signals) channelOf(node nodeID) string {
	return s.roll + ":1:node:" + string(node)
}

//go:embed memory.lua
var memoryLua string

//go:embed beat.lua
var beatLua string

//go:embed publish.lua
var publishLua string

//go:embed lapse.lua
var lapseLua string

//go:embed pay.lua
var payLua string

//go:embed leave.lua
var leaveLua string

//go:embed forget.lua
var forgetLua string

// scripts are the deeds of signals, each of which happens whole on one server.
type scripts struct{ beat, publish, lapse, pay, leave, forget *rueidis.Lua }

func newScripts() scripts {
	of := func(text string) *rueidis.Lua { return rueidis.NewLuaScript(memoryLua + text) }
	return scripts{beat: of(beatLua), publish: of(publishLua), lapse: of(lapseLua), pay: of(payLua), leave: of(leaveLua), forget: of(forgetLua)}
}
