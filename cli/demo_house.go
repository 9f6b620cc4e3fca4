package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/config"
	"github.com/mayflyhq/mayfly/gate"
	"github.com/mayflyhq/mayfly/node"
	"github.com/mayflyhq/mayfly/profile"
	"github.com/mayflyhq/mayfly/store"
)

// house is a node on an embedded store that can be stopped and started while
// others ask it.
type house struct {
	mu     sync.RWMutex
	folder string
	open   func(config.Config) (*profile.Store, error)
	store  *profile.Store
	node   *node.Node
}

// demoConfig are the product's settings with every window of a life in seconds.
func demoConfig(folder string) config.Config {
	cfg := config.Default()
	cfg.Data = filepath.Join(folder, "data")
	cfg.Births.Timeout, cfg.Births.RemindAfter = 800*time.Millisecond, 500*time.Millisecond
	cfg.Walk.Cadence, cfg.Walk.Settle, cfg.Walk.Lateness = 100*time.Millisecond, time.Second, 500*time.Millisecond
	cfg.Ends.ArchiveAfter, cfg.Ends.ArchiveLateness = time.Second, 500*time.Millisecond
	return cfg
}

func (h *house) start(ctx context.Context) error {
	cfg := demoConfig(h.folder)
	tune(cfg)
	s, err := h.open(cfg)
	if err != nil {
		return err
	}
	o := node.FromConfig(cfg)
	o.Reclaim = s.Reclaim
	o.Restore.Timeout = time.Second // a restore may last for seconds only
	o.Gate.Relations = func(_ context.Context, owner, viewer mayfly.UserID) (mayfly.Relation, error) {
		if owner == ana() && viewer == ben() {
			return mayfly.CloseFriend, nil
		}
		return 0, nil
	}
	n, err := node.Start(ctx, s.Set, o)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	h.store, h.node = s, n
	return nil
}

func (h *house) close(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stop(ctx)
}

func (h *house) stop(ctx context.Context) error {
	if h.node == nil {
		return nil
	}
	err := errors.Join(h.node.Stop(ctx), h.store.Close())
	h.node, h.store = nil, nil
	return err
}

// restart stops and starts on the same folder while whoever asks waits, and says
// how long the start took.
func (h *house) restart(ctx context.Context) (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.stop(ctx); err != nil {
		return 0, fmt.Errorf("stop: %w", err)
	}
	start := time.Now()
	err := h.start(ctx)
	return time.Since(start), err
}

func (h *house) set() store.Set {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.store.Set
}

func (h *house) now() mayfly.Instant {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.node.Clock().Read().Steady
}

// ask asks the gate, by the clock's reading at that instant.
func (h *house) ask(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer) (mayfly.Instant, gate.Opened, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	now := h.node.Clock().Read().Now
	opened, err := h.node.Gate().Open(ctx, id, viewer, now)
	return now, opened, err
}
