package verify

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Word is one of the seven words of a verdict.
type Word int

// The seven words.
const (
	Lost        Word = iota // acknowledged, and not there any more
	Resurrected             // ended, and served again
	Early                   // refused before its deadline to a viewer who may see it
	Late                    // served at or after its deadline to another user than its author
	Leak                    // served to a viewer who may not see it
	Double                  // one birth or one expiry happened twice
	Orphan                  // stored media that no item owns
	Words                   // how many there are
)

func (w Word) String() string {
	return [Words]string{"LOST", "RESURRECTED", "EARLY", "LATE", "LEAK", "DOUBLE", "ORPHAN"}[w]
}

// maxFaults is how many faults a tally describes; it counts all of them.
const maxFaults = 20

// Tally counts faults by word. The zero value is ready. It is safe for
// concurrent use.
type Tally struct {
	mu         sync.Mutex
	counts     [Words]int
	unmeasured [Words]string // why, for words that nothing has looked for
	faults     []string
}

// Unmeasured notes that nothing has looked for a word, and why; with an empty reason
// that something has.
func (t *Tally) Unmeasured(w Word, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unmeasured[w] = why
}

// WhyUnmeasured returns why nothing has looked for a word; empty if something has.
func (t *Tally) WhyUnmeasured(w Word) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unmeasured[w]
}

// Add counts one fault and keeps its description.
func (t *Tally) Add(w Word, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[w]++
	if len(t.faults) < maxFaults {
		t.faults = append(t.faults, w.String()+": "+fmt.Sprintf(format, args...))
	}
}

// Count returns how many faults of a word there are.
func (t *Tally) Count(w Word) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[w]
}

// Clean reports whether there is no fault.
func (t *Tally) Clean() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts == [Words]int{}
}

// Faults returns the descriptions of the first faults.
func (t *Tally) Faults() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.faults)
}

// Merge adds the faults of another tally. A word is measured if either measured it.
func (t *Tally) Merge(other *Tally) {
	other.mu.Lock()
	counts, unmeasured, faults := other.counts, other.unmeasured, other.faults
	other.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	for w, n := range counts {
		t.counts[w] += n
		if unmeasured[w] == "" {
			t.unmeasured[w] = ""
		}
	}
	t.faults = append(t.faults, faults[:min(len(faults), maxFaults-min(maxFaults, len(t.faults)))]...)
}

// String returns the seven words with their counts, or that a word was not measured.
func (t *Tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var parts []string
	for w := range Words {
		if t.unmeasured[w] != "" && t.counts[w] == 0 {
			parts = append(parts, w.String()+" not measured")
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %d", w, t.counts[w]))
	}
	return strings.Join(parts, "  ")
}
