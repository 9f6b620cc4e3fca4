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

// up starts the servers that do not run yet. If one of them fails to start, up stops
// all that it started and keeps their logs.
func (r *runner) up(ctx context.Context) error {
	lock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	st, err := r.load()
	if err != nil {
		return err
	}
	if err := r.skipRunning(st); err != nil {
		return err
	}
	if err := r.ensureTools(ctx); err != nil {
		return err
	}
	libs := map[string]string{}
	for _, name := range r.servers {
		if libs[name], err = r.ensureSoftware(ctx, name); err != nil {
			return err
		}
	}
	if err := r.startAll(ctx, st, libs); err != nil {
		return err
	}
	return r.env()
}

// skipRunning removes servers from the list that already run with these options.
func (r *runner) skipRunning(st *state) error {
	var left []string
	for _, name := range r.servers {
		s := st.find(name)
		if s == nil || !s.running() {
			left = append(left, name)
			continue
		}
		if s.Secure != r.secure || name == "cassandra" && (len(s.Nodes) != r.nodes || s.Heap != r.heap || s.NoHints != r.noHints) {
			return fmt.Errorf("%s already runs with other options; stop it with down, or use another --state", name)
		}
		for _, n := range s.Nodes {
			if !n.running() {
				return fmt.Errorf("%s runs without node %d; start it with: start %s %d", name, n.Number, name, n.Number)
			}
		}
		r.say("%s already runs", name)
	}
	r.servers = left
	return nil
}

// startAll starts all servers, then waits for them.
func (r *runner) startAll(ctx context.Context, st *state, libs map[string]string) (err error) {
	ports := &ports{folder: filepath.Join(r.cache.folder, "ports")}
	defer ports.close()
	defer func() {
		if err != nil {
			err = errors.Join(err, r.stopAll(context.WithoutCancel(ctx), st, r.servers))
		}
	}()
	began := map[string]time.Time{}
	for _, name := range r.servers {
		s, err := r.prepareServer(ctx, st, name, libs[name], ports)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		began[name] = time.Now()
		for i := range s.Nodes {
			if err := r.startNode(st, s, &s.Nodes[i]); err != nil {
				return err
			}
		}
	}
	return r.awaitAll(ctx, st, began)
}

// awaitAll waits for all the servers at once; the first that fails ends the wait.
func (r *runner) awaitAll(ctx context.Context, st *state, began map[string]time.Time) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var all sync.WaitGroup
	for _, name := range r.servers {
		s := *st.find(name)
		all.Go(func() {
			if err := r.await(ctx, s, s.Nodes); err != nil {
				fail(err)
				return
			}
			r.say("%s %s answers at %s, %s after the start", name, s.Version, strings.Join(s.all(), ", "), seconds(began[name]))
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// prepareServer chooses ports and secrets and writes the configuration. With --keep it
// reuses those of the last run, with its data.
func (r *runner) prepareServer(ctx context.Context, st *state, name, lib string, p *ports) (*server, error) {
	rec, _ := recipeOf(name)
	s := st.find(name)
	var err error
	if s == nil || !r.keep {
		if s, err = r.createServer(rec, st, name, p); err != nil {
			return nil, err
		}
	} else if s.Secure != r.secure || name == "cassandra" && len(s.Nodes) != r.nodes {
		return nil, errors.New("the kept data belongs to a server with other options; omit --keep")
	}
	s.Heap, s.NoHints = r.heap, r.noHints
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Command, err = rec.prepare(ctx, *s, *n, lib); err != nil {
			return nil, err
		}
	}
	return s, r.save(st)
}

// createServer makes an empty server with new ports and secrets.
func (r *runner) createServer(rec recipe, st *state, name string, p *ports) (*server, error) {
	folder := filepath.Join(r.folder, name)
	if err := os.RemoveAll(folder); err != nil {
		return nil, err
	}
	nodes, err := rec.allocate(r.options, p)
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
	s := server{Name: name, Version: rec.version(), Secure: r.secure, Nodes: nodes}
	if err := makeSecrets(&s, time.Now()); err != nil {
		return nil, err
	}
	return st.put(s), nil
}

// startNode starts one node and records it at once.
func (r *runner) startNode(st *state, s *server, n *node) error {
	p, err := startProcess(*n)
	if err != nil {
		return fmt.Errorf("start %s %d: %w", s.Name, n.Number, err)
	}
	n.Process = p
	return r.save(st)
}

// await returns when the nodes answer and, if all nodes of the server run, when they
// have formed a cluster. If a node ends, the error contains the end of its log.
func (r *runner) await(ctx context.Context, s server, nodes []node) error {
	const most = 4 * time.Minute // a busy machine needs it; an idle one takes 20 s
	rec, _ := recipeOf(s.Name)
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	began, reported := time.Now(), time.Now()
	for {
		err := probe(ctx, rec, s, nodes)
		if err == nil {
			return nil
		}
		for _, n := range nodes {
			if !n.running() {
				return fmt.Errorf("%s %d ended instead of answering; the end of %s:\n%s", s.Name, n.Number, n.log(), logEnd(n))
			}
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("%s does not answer after %s: %w; the end of %s:\n%s", s.Name, seconds(began), err, nodes[0].log(), logEnd(nodes[0]))
		}
		if time.Since(reported) > 10*time.Second {
			reported = time.Now()
			r.say("%s: waiting, %s: %v", s.Name, seconds(began), err)
		}
	}
}

// probe asks each node once, and then whether they have formed a cluster.
func probe(ctx context.Context, rec recipe, s server, nodes []node) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, n := range nodes {
		if err := rec.ping(ctx, s, n); err != nil {
			return fmt.Errorf("node %d: %w", n.Number, err)
		}
	}
	for _, n := range s.Nodes {
		if !n.running() {
			return nil // some nodes are down on purpose: the cluster cannot be complete
		}
	}
	return rec.settle(ctx, s)
}

func logEnd(n node) string {
	text, err := os.ReadFile(n.log())
	if err != nil {
		return err.Error()
	}
	return lastLines(string(text), 15)
}
