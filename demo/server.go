package demo

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/app/server"
	"github.com/mayflyhq/mayfly/engine/clock"
)

// host is the server of the demo. It can be stopped and started at the
// same address while others ask it.
type host struct {
	folder string
	open   func(config.Config) (*profile.Store, error)

	mu     sync.RWMutex
	server *server.Local
	clock  atomic.Pointer[clock.Clock]
	moves  atomic.Int64 // odd while it is stopped and started
}

// demoLifetimes are what an author may choose; the first is what a visitor gets.
func demoLifetimes() []mayfly.Lifetime {
	var all []mayfly.Lifetime
	for _, seconds := range []time.Duration{20, 3, 4, 5, 6, 7} {
		l, err := mayfly.LifetimeOf(seconds * time.Second)
		if err != nil {
			panic(err) // a constant of ours
		}
		all = append(all, l)
	}
	return all
}

// demoConfig are the product's settings with every window of a life in seconds,
// and rates for people who ask a thousand times as often.
func demoConfig(folder string) config.Config {
	cfg := config.Default()
	cfg.Data = filepath.Join(folder, "data")
	cfg.Listen.API, cfg.Listen.Admin, cfg.Listen.KV = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.Stories.Lifetimes = demoLifetimes()
	cfg.Pastes.Anonymous, cfg.Pastes.Lifetime, cfg.Pastes.ShortestLifetime = true, demoLifetimes()[0], demoLifetimes()[1]
	cfg.Feed.ShortestLifetime = demoLifetimes()[1]
	many := config.Rate{Count: math.MaxInt32, Per: time.Hour}
	cfg.Rates = config.Rates{Writes: many, Reads: many, AddressReads: many, AddressWrites: many}
	cfg.Births.Timeout, cfg.Births.RemindAfter = 800*time.Millisecond, 500*time.Millisecond
	cfg.Walk.Cadence, cfg.Walk.Settle, cfg.Walk.Lateness = 100*time.Millisecond, time.Second, 500*time.Millisecond
	cfg.Ends.ArchiveAfter, cfg.Ends.ArchiveLateness = demoWindow, 500*time.Millisecond
	return cfg
}

// demoWindow is how long after its deadline a story stays hot.
const demoWindow = time.Second

// start starts the server, and says how long it took.
func (h *host) start(ctx context.Context) (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.startLocked(ctx)
}

// startLocked starts it where it listened before.
func (h *host) startLocked(ctx context.Context) (time.Duration, error) {
	cfg := demoConfig(h.folder)
	if h.server != nil {
		cfg.Listen = h.server.Config.Listen
	}
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil { // the key is there, whatever the store is on
		return 0, err
	}
	began := time.Now()
	s, err := server.Start(ctx, cfg, server.LocalOptions{Open: h.open})
	if err != nil {
		return 0, err
	}
	s.Config.Listen.API, s.Config.Listen.Admin, s.Config.Listen.KV = strings.TrimPrefix(s.API(), "http://"), strings.TrimPrefix(s.Admin(), "http://"), s.KV()
	h.server = s
	h.clock.Store(s.Node.Clock())
	return time.Since(began), nil
}

func (h *host) stop(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.server.Stop(ctx)
}

// restart stops and starts the server; requests fail meanwhile.
func (h *host) restart(ctx context.Context) (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moves.Add(1)
	defer h.moves.Add(1)
	if err := h.server.Stop(ctx); err != nil {
		return 0, fmt.Errorf("stop: %w", err)
	}
	return h.startLocked(ctx)
}

// why is what ended the server, if something did; else err.
func (h *host) why(err error) error {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if broken := h.server.Err(); broken != nil {
		return mayfly.Wrap(mayfly.Unavailable, broken, "look at the disk of the folder for temporary files, and run it again")
	}
	return err
}

func (h *host) api() string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.server.API()
}

func (h *host) admin() string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.server.Admin()
}

// kv returns the address of the Redis protocol.
func (h *host) kv() string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.server.KV()
}

// rest stops the server and opens its store with a node that does nothing and does not
// listen, for a last look.
func (h *host) rest(ctx context.Context) (*server.Local, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.server.Stop(ctx); err != nil {
		return nil, fmt.Errorf("stop: %w", err)
	}
	s, err := server.Start(ctx, h.server.Config, server.LocalOptions{Open: h.open, Idle: true})
	if err != nil {
		return nil, err
	}
	h.server = s
	return s, nil
}

// isErased says whether nothing is left of an item's content.
func (h *host) isErased(ctx context.Context, id mayfly.ID) (bool, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	body, err := h.server.Store.Set.Ledger.Body(ctx, id)
	return err == nil && !body[0].Found, err
}

// ready says whether there is a clock to read.
func (h *host) ready() bool { return h.clock.Load() != nil }

// now is what the server's clock shows, which decides what is over.
func (h *host) now() mayfly.Instant { return h.clock.Load().Read().Now }

// token is an access token by the key of the folder.
func (h *host) token(user, scope string) (string, error) {
	return demoToken(demoConfig(h.folder), user, scope)
}

func demoToken(cfg config.Config, user, scope string) (string, error) {
	if scope == "" {
		return "", nil
	}
	t, err := node.MintToken(cfg, node.TokenRequest{User: user, Scope: scope, Lasts: 25 * time.Hour}, mayfly.InstantOf(time.Now()))
	return string(t), err
}

// meet makes everybody of the demonstration known to the server.
func (h *host) meet(ctx context.Context) (*people, error) {
	p, err := newPeople(h.api(), h.admin(), h.token)
	if err != nil {
		return nil, err
	}
	return p, p.relate(ctx)
}

// away says whether a failure is that no server was there, because it was stopped
// and started meanwhile.
func (h *host) away(moves int64, err error) bool {
	return noAnswer(err) && (moves%2 == 1 || h.moves.Load() != moves)
}
