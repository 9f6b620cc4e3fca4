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
