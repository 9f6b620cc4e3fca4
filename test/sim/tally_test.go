package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly/store/storetest"
)

// The seven words.
const (
	LOST        = "LOST"
	RESURRECTED = "RESURRECTED"
	EARLY       = "EARLY"
	LATE        = "LATE"
	LEAK        = "LEAK"
	DOUBLE      = "DOUBLE"
	ORPHAN      = "ORPHAN"
)

func words() []string { return []string{LOST, RESURRECTED, EARLY, LATE, LEAK, DOUBLE, ORPHAN} }

// tally counts what an audit has found, with the first of each as an example.
type tally struct {
	count   map[string]int
	example map[string]string
	checked int // rows compared with the record
}

func newTally() *tally { return &tally{count: map[string]int{}, example: map[string]string{}} }

func (t *tally) add(word, format string, args ...any) {
	if t.count[word]++; t.count[word] == 1 {
		t.example[word] = fmt.Sprintf(format, args...)
	}
}

func (t *tally) merge(other *tally, where string) {
	t.checked += other.checked
	for word, n := range other.count {
		if t.count[word] == 0 {
			t.example[word] = where + ": " + other.example[word]
		}
		t.count[word] += n
	}
}

// zero fails the test unless all seven are zero, and prints them.
func (t *tally) zero(tb testing.TB, proof string) {
	tb.Helper()
	var line []string
	for _, word := range words() {
		line = append(line, fmt.Sprintf("%d %s", t.count[word], word))
		if t.count[word] > 0 {
			tb.Errorf("%d %s; the first: %s", t.count[word], word, t.example[word])
		}
	}
	storetest.Proof(tb, proof, "verdict", strings.Join(line, ", "))
}
