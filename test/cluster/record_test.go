//go:build servers

package cluster

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/verify"
)

// bound is what "exact" means between several nodes (L7).
const bound = 250 * time.Millisecond

// note is a story whose birth was acknowledged.
type note struct {
	id       mayfly.ID
	author   string
	sum      string    // of its medium as it is stored
	deadline time.Time // the id's
	deleting bool      // a delete was asked for
	deleted  time.Time // when it was acknowledged; zero: it was not
}

// record holds what was acknowledged, and judges every answer. Safe for concurrent use.
type record struct {
	mu      sync.Mutex
	notes   map[mayfly.ID]*note
	order   []*note
	tries   int            // to publish, without success: each may have left a row and an object
	givenUp int            // births that were never acknowledged, by any key
	answers map[string]int // of reads, by answerOf
	refused map[string]int // of publishing, by answerOf
	count   verify.Tally
}

func newRecord() *record {
	return &record{notes: map[mayfly.ID]*note{}, answers: map[string]int{}, refused: map[string]int{}}
}

// born writes down a birth that was acknowledged.
func (b *record) born(s wire.Story, author string) *note {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := b.notes[s.ID]; n != nil {
		return n // a retry that both tries acknowledged
	}
	n := &note{id: s.ID, author: author, deadline: s.ID.Deadline().Time()}
	if len(s.Media) == 1 {
		n.sum = s.Media[0].SHA256
	}
	b.notes[s.ID] = n
	b.order = append(b.order, n)
	return n
}

// failedTry counts a try to publish that was not acknowledged.
func (b *record) failedTry(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tries++
	b.refused[answerOf(err)]++
}

// deleting comes before a delete is asked for, deletedNow after it was acknowledged.
func (b *record) deleting(id mayfly.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notes[id].deleting = true
}

func (b *record) deletedNow(id mayfly.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notes[id].deleted = time.Now()
}

// read judges the answer to a read of n that was asked at an instant: by its
// author, or by a stranger who may see it.
func (b *record) read(n *note, author bool, asked time.Time, s wire.Story, err error) {
	answered := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers[answerOf(err)]++
	switch {
	case err == nil && !n.deleted.IsZero() && n.deleted.Before(asked):
		b.count.Add(verify.Resurrected, "%s was deleted %s before it was read", n.id, asked.Sub(n.deleted))
	case err == nil && !author && asked.After(n.deadline.Add(bound)):
		b.count.Add(verify.Late, "%s was shown %s after its deadline", n.id, asked.Sub(n.deadline))
	case err == nil && (len(s.Media) != 1 || s.Media[0].SHA256 != n.sum):
		b.count.Add(verify.Lost, "%s is not what was published", n.id)
	case err == nil, n.deleting:
	case !errors.Is(err, mayfly.NotFound) && !errors.Is(err, mayfly.Gone):
	case author:
		b.count.Add(verify.Lost, "its author cannot read %s: %v", n.id, err)
	case answered.Before(n.deadline.Add(-bound)) && errors.Is(err, mayfly.Gone):
		b.count.Add(verify.Early, "%s was gone %s before its deadline", n.id, n.deadline.Sub(answered))
	case answered.Before(n.deadline.Add(-bound)):
		b.count.Add(verify.Lost, "%s was not found %s before its deadline", n.id, n.deadline.Sub(answered))
	}
}

// all are the notes so far, oldest first.
func (b *record) all() []*note {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.order)
}

// some is a note among the newest n; nil if there is none yet.
func (b *record) some(n int, pick func(int) int) *note {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.order) == 0 {
		return nil
	}
	from := max(0, len(b.order)-n)
	return b.order[from+pick(len(b.order)-from)]
}

// figures are what was tried so far.
func (b *record) figures() (acks, reads int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.answers {
		reads += n
	}
	return len(b.order), reads
}

// refusals are the reads and births that were answered 503.
func (b *record) refusals() (reads, births int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.answers["503"], b.refused["503"]
}

func sorted(m map[string]int) string {
	text := ""
	for _, k := range slices.Sorted(maps.Keys(m)) {
		text += fmt.Sprintf("%s: %d  ", k, m[k])
	}
	return text
}
