package cli

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
)

// word is one of the seven words of a verdict: what must never happen.
type word int

const (
	lost word = iota
	resurrected
	early
	late
	leak
	double
	orphan
	words
)

func (w word) String() string {
	return [words]string{"LOST", "RESURRECTED", "EARLY", "LATE", "LEAK", "DOUBLE", "ORPHAN"}[w]
}

// maxFaults bounds how many faults are told in words.
const maxFaults = 20

// tally counts what was tried and what went wrong. Safe for concurrent use.
type tally struct {
	asked, served, refused, close, unanswered atomic.Int64

	mu     sync.Mutex
	counts [words]int
	told   []string
}

// blame counts one fault and keeps it in words.
func (t *tally) blame(w word, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[w]++
	if len(t.told) < maxFaults {
		t.told = append(t.told, w.String()+": "+fmt.Sprintf(format, args...))
	}
}

func (t *tally) clean() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts == [words]int{}
}

func (t *tally) faults() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.told
}

// String is the seven words with their counts.
func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var parts []string
	for w := range words {
		parts = append(parts, fmt.Sprintf("%s %d", w, t.counts[w]))
	}
	return strings.Join(parts, "  ")
}
