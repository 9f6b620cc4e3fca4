package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// down stops what this state folder started and removes its data; with --keep
// the data stays for the next up --keep.
func (h *house) down(ctx context.Context) error {
	lock, err := h.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	ctx = context.WithoutCancel(ctx) // an impatient Ctrl-C leaves no server behind
	st, err := h.load()
	if err != nil {
		return err
	}
	names := h.servers
	if len(names) == 0 {
		for _, s := range st.Servers {
			names = append(names, s.Name)
		}
	}
	if err := h.stopAll(ctx, st, names); err != nil || h.keep {
		return err
	}
	for _, name := range names {
		if s := st.find(name); s != nil {
			if err := os.RemoveAll(s.folder()); err != nil {
				return err
			}
			st.remove(name)
		}
	}
	return h.save(st)
}

// stopAll stops the nodes of the named servers, all at once, and writes down
// which have ended.
func (h *house) stopAll(ctx context.Context, st *state, names []string) error {
	const grace = 20 * time.Second // Cassandra drains in three
	var all sync.WaitGroup
	var one sync.Mutex
	var failed error
	for i := range st.Servers {
		s := &st.Servers[i]
		if !slices.Contains(names, s.Name) {
			continue
		}
		for j := range s.Nodes {
			n := &s.Nodes[j]
			if n.Process == nil {
				continue
			}
			all.Go(func() {
				began := time.Now()
				if err := n.Process.stop(ctx, grace); err != nil {
					one.Lock()
					defer one.Unlock()
					failed = errors.Join(failed, fmt.Errorf("stop %s %d: %w", s.Name, n.Number, err))
					return
				}
				h.say("%s %d stopped in %s", s.Name, n.Number, seconds(began))
				n.Process = nil
			})
		}
	}
	all.Wait()
	return errors.Join(failed, h.save(st))
}

// kill ends one node as a power cut would end its process. Its data stays.
func (h *house) kill(ctx context.Context) error {
	return h.withNode(ctx, func(st *state, s *server, n *node) error {
		if !n.running() {
			return fmt.Errorf("%s %d does not run", s.Name, n.Number)
		}
		if err := n.Process.kill(ctx); err != nil {
			return err
		}
		n.Process = nil
		h.say("%s %d is killed", s.Name, n.Number)
		return h.save(st)
	})
}

// start brings a node back that was killed, with the command, ports and data that
// it had.
func (h *house) start(ctx context.Context) error {
	return h.withNode(ctx, func(st *state, s *server, n *node) error {
		if n.running() {
			return fmt.Errorf("%s %d runs already", s.Name, n.Number)
		}
		began := time.Now()
		if err := h.begin(st, s, n); err != nil {
			return err
		}
		if err := h.await(ctx, *s, []node{*n}); err != nil {
			return err
		}
		h.say("%s %d answers again, %s after the start", s.Name, n.Number, seconds(began))
		return nil
	})
}

func (h *house) withNode(ctx context.Context, do func(*state, *server, *node) error) error {
	lock, err := h.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	st, err := h.load()
	if err != nil {
		return err
	}
	s := st.find(h.servers[0])
	if s == nil {
		return fmt.Errorf("%s is not up in %s", h.servers[0], h.folder)
	}
	if h.node < 1 || h.node > len(s.Nodes) {
		return fmt.Errorf("%s has nodes 1 to %d", s.Name, len(s.Nodes))
	}
	return do(st, s, &s.Nodes[h.node-1])
}
