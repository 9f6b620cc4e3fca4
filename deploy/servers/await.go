package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

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
