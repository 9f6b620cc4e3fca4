//go:build servers

package cluster

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"sync"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// claims counts the steps of the archive that were done once more than an item needs.
// A row that one step has claimed is taken over by the next one: after a failure,
// and where a walk and a reminder, or two walks, meet. Each such step counts one in the
// row's generation, and how many there are depends on who was faster.
type claims struct {
	mu    sync.Mutex
	steps map[mayfly.ID]int // since the row was claimed
	again map[mayfly.ID]int // of those, more than one to name the copy
}

func newClaims() *claims {
	return &claims{steps: map[mayfly.ID]int{}, again: map[mayfly.ID]int{}}
}

// watch is a ledger whose transitions c sees.
func (c *claims) watch(l store.Ledger) store.Ledger { return watched{Ledger: l, claims: c} }

type watched struct {
	store.Ledger
	*claims
}

func (w watched) Transition(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
	all, err := w.Ledger.Transition(ctx, changes)
	if err != nil {
		return all, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, change := range changes {
		if all[i].Result == store.Applied && change.Hold == mayfly.KeepHold {
			w.saw(change)
		}
	}
	return all, nil
}

func (c *claims) saw(change mayfly.Change) {
	switch {
	case change.From != mayfly.Archiving:
		c.steps[change.ID] = 0
	case change.To == mayfly.Archiving:
		c.steps[change.ID]++
	case change.To == mayfly.Cold:
		c.again[change.ID] += c.steps[change.ID] - 1
	default:
		c.again[change.ID] += c.steps[change.ID]
	}
}

// total is how many steps were done again.
func (c *claims) total() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, again := range c.again {
		n += again
	}
	return n
}

var generation = regexp.MustCompile(`generation (\d+)`)

// without says a text on an item as it would be had no step been done again.
func (c *claims) without(id mayfly.ID, text string) string {
	c.mu.Lock()
	again := c.again[id]
	c.mu.Unlock()
	return generation.ReplaceAllStringFunc(text, func(said string) string {
		n, err := strconv.Atoi(said[len("generation "):])
		if err != nil {
			return said // more digits than a generation has
		}
		return fmt.Sprintf("generation %d", n-again)
	})
}
