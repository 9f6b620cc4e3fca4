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

// down stops the servers of this state folder and removes their data; with --keep the
// data stays for the next up --keep.
func (r *runner) down(ctx context.Context) error {
	lock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	ctx = context.WithoutCancel(ctx) // Ctrl-C must not leave servers running
	st, err := r.load()
	if err != nil {
		return err
	}
	names := r.servers
	if len(names) == 0 {
		for _, s := range st.Servers {
			names = append(names, s.Name)
		}
	}
	if err := r.stopAll(ctx, st, names); err != nil || r.keep {
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
	return r.save(st)
}

// stopAll stops all nodes of the named servers in parallel and records which have
// ended.
func (r *runner) stopAll(ctx context.Context, st *state, names []string) error {
	const grace = 20 * time.Second // Cassandra drains in 3 s
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
				r.say("%s %d stopped in %s", s.Name, n.Number, seconds(began))
				n.Process = nil
			})
		}
	}
	all.Wait()
	return errors.Join(failed, r.save(st))
}

// kill ends one node with SIGKILL and keeps its data.
func (r *runner) kill(ctx context.Context) error {
	return r.withNode(ctx, func(st *state, s *server, n *node) error {
		if !n.running() {
			return fmt.Errorf("%s %d is not running", s.Name, n.Number)
		}
		if err := n.Process.kill(ctx); err != nil {
			return err
		}
		n.Process = nil
		r.say("%s %d killed", s.Name, n.Number)
		return r.save(st)
	})
}

// start restarts a killed node with its old command, ports and data.
func (r *runner) start(ctx context.Context) error {
	return r.withNode(ctx, func(st *state, s *server, n *node) error {
		if n.running() {
			return fmt.Errorf("%s %d is already running", s.Name, n.Number)
		}
		began := time.Now()
		if err := r.startNode(st, s, n); err != nil {
			return err
		}
		if err := r.await(ctx, *s, []node{*n}); err != nil {
			return err
		}
		r.say("%s %d answers again, %s after the start", s.Name, n.Number, seconds(began))
		return nil
	})
}

// withNode calls do with the chosen node, under the lock of the state folder.
func (r *runner) withNode(ctx context.Context, do func(*state, *server, *node) error) error {
	lock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	st, err := r.load()
	if err != nil {
		return err
	}
	s := st.find(r.servers[0])
	if s == nil {
		return fmt.Errorf("%s is not up in %s", r.servers[0], r.folder)
	}
	if r.node < 1 || r.node > len(s.Nodes) {
		return fmt.Errorf("%s has nodes 1 to %d", s.Name, len(s.Nodes))
	}
	return do(st, s, &s.Nodes[r.node-1])
}
