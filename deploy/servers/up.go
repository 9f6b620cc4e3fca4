package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// up starts what does not run yet. If one does not come up, what this run started
// is stopped again; its logs stay.
func (h *house) up(ctx context.Context) error {
	lock, err := h.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	st, err := h.load()
	if err != nil {
		return err
	}
	if err := h.onlyNew(st); err != nil {
		return err
	}
	if err := h.provide(ctx); err != nil {
		return err
	}
	libs := map[string]string{}
	for _, name := range h.servers {
		if libs[name], err = h.have(ctx, name); err != nil {
			return err
		}
	}
	if err := h.bring(ctx, st, libs); err != nil {
		return err
	}
	return h.env()
}

// onlyNew takes out of the order what runs already as it is ordered.
func (h *house) onlyNew(st *state) error {
	var left []string
	for _, name := range h.servers {
		s := st.find(name)
		if s == nil || !s.running() {
			left = append(left, name)
			continue
		}
		if s.Secure != h.secure || name == "cassandra" && (len(s.Nodes) != h.nodes || s.Heap != h.heap) {
			return fmt.Errorf("%s runs already, with other settings: down it first, or take another --state", name)
		}
		for _, n := range s.Nodes {
			if !n.running() {
				return fmt.Errorf("%s runs without node %d: start %s %d brings it back", name, n.Number, name, n.Number)
			}
		}
		h.say("%s runs already", name)
	}
	h.servers = left
	return nil
}

// bring starts all the servers, then waits for them.
func (h *house) bring(ctx context.Context, st *state, libs map[string]string) (err error) {
	ports := &ports{folder: filepath.Join(h.cache.folder, "ports")}
	defer ports.close()
	defer func() {
		if err != nil {
			err = errors.Join(err, h.stopAll(context.WithoutCancel(ctx), st, h.servers))
		}
	}()
	began := map[string]time.Time{}
	for _, name := range h.servers {
		s, err := h.make(ctx, st, name, libs[name], ports)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		began[name] = time.Now()
		for i := range s.Nodes {
			if err := h.begin(st, s, &s.Nodes[i]); err != nil {
				return err
			}
		}
	}
	return h.awaitAll(ctx, st, began)
}

// awaitAll waits for all the servers at once; the first that fails ends the wait.
func (h *house) awaitAll(ctx context.Context, st *state, began map[string]time.Time) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var all sync.WaitGroup
	for _, name := range h.servers {
		s := *st.find(name)
		all.Go(func() {
			if err := h.await(ctx, s, s.Nodes); err != nil {
				fail(err)
				return
			}
			h.say("%s %s answers at %s, %s after the start", name, s.Version, strings.Join(s.all(), ", "), seconds(began[name]))
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// make lays a server out: ports, secrets, configuration. With --keep it
// is the one of the last run again, on its data.
func (h *house) make(ctx context.Context, st *state, name, lib string, p *ports) (*server, error) {
	r, _ := recipeOf(name)
	s := st.find(name)
	var err error
	if s == nil || !h.keep {
		if s, err = h.layOut(r, st, name, p); err != nil {
			return nil, err
		}
	} else if s.Secure != h.secure || name == "cassandra" && len(s.Nodes) != h.nodes {
		return nil, errors.New("the kept data is of a server with other settings: leave out --keep")
	}
	s.Heap = h.heap
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Command, err = r.prepare(ctx, *s, *n, lib); err != nil {
			return nil, err
		}
	}
	return s, h.save(st)
}

func (h *house) layOut(r recipe, st *state, name string, p *ports) (*server, error) {
	folder := filepath.Join(h.folder, name)
	if err := os.RemoveAll(folder); err != nil {
		return nil, err
	}
	nodes, err := r.place(h.order, p)
	if err != nil {
		return nil, err
	}
	for i := range nodes {
		nodes[i].Number = i + 1
		nodes[i].Folder = filepath.Join(folder, strconv.Itoa(i+1))
		if err := os.MkdirAll(nodes[i].Folder, 0o700); err != nil {
			return nil, err
		}
	}
	s := server{Name: name, Version: r.version(), Secure: h.secure, Nodes: nodes}
	if err := makeSecrets(&s, time.Now()); err != nil {
		return nil, err
	}
	return st.put(s), nil
}

// begin starts one node and writes it down at once.
func (h *house) begin(st *state, s *server, n *node) error {
	p, err := spawn(*n)
	if err != nil {
		return fmt.Errorf("start %s %d: %w", s.Name, n.Number, err)
	}
	n.Process = p
	return h.save(st)
}

// await returns when the nodes answer and, if they are all of the server, have
// settled. A node that dies meanwhile ends the wait with the end of its log.
func (h *house) await(ctx context.Context, s server, nodes []node) error {
	const most = 4 * time.Minute // on a busy machine; 20 s on a quiet one
	r, _ := recipeOf(s.Name)
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	began, told := time.Now(), time.Now()
	for {
		err := ask(ctx, r, s, nodes)
		if err == nil {
			return nil
		}
		for _, n := range nodes {
			if !n.running() {
				return fmt.Errorf("%s %d ended instead of answering; the end of %s:\n%s", s.Name, n.Number, n.log(), logEnd(n))
			}
		}
		if rest(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("%s does not answer after %s: %w; the end of %s:\n%s", s.Name, seconds(began), err, nodes[0].log(), logEnd(nodes[0]))
		}
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			h.say("%s: waiting, %s: %v", s.Name, seconds(began), err)
		}
	}
}

func ask(ctx context.Context, r recipe, s server, nodes []node) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, n := range nodes {
		if err := r.reach(ctx, s, n); err != nil {
			return fmt.Errorf("node %d: %w", n.Number, err)
		}
	}
	for _, n := range s.Nodes {
		if !n.running() {
			return nil // some are down on purpose: what is there cannot be whole
		}
	}
	return r.settle(ctx, s)
}

func logEnd(n node) string {
	text, err := os.ReadFile(n.log())
	if err != nil {
		return err.Error()
	}
	return lastLines(string(text), 15)
}
