package main

import (
	"context"
	"fmt"
	"time"
)

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
