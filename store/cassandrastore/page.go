package cassandrastore

import (
	"slices"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// page is the group of a call's changes in one partition; of has their indexes among
// the changes and outcomes of the call.
type page struct {
	hole     hole
	of       []int
	changes  []mayfly.Change
	outcomes []store.Outcome
	rows     map[mayfly.ID]mayfly.Item // as they were last seen
}

func (p *page) places() []place {
	places := make([]place, len(p.of))
	for n, i := range p.of {
		places[n] = placeOf(p.changes[i].ID)
	}
	return places
}

// compose decides every change in order against the rows as last seen, and returns
// the writes. The outcomes are true if these writes are done.
func (p *page) compose() []write {
	var moved []mayfly.ID
	next := map[mayfly.ID]mayfly.Item{}
	for _, i := range p.of {
		id := p.changes[i].ID
		row, there := next[id]
		again := there
		if !there {
			row, there = p.rows[id]
		}
		p.outcomes[i] = decide(row, there, p.changes[i])
		if p.outcomes[i].Result != store.Applied {
			continue
		}
		next[id] = p.outcomes[i].Current
		if !again {
			moved = append(moved, id)
		}
	}
	writes := make([]write, len(moved))
	for n, id := range moved {
		writes[n] = write{before: p.rows[id], after: next[id]}
	}
	return writes
}

// decide returns the outcome of a change of a row, if it is written.
func decide(row mayfly.Item, there bool, c mayfly.Change) store.Outcome {
	if !there {
		return store.Outcome{Result: store.Missing}
	}
	if !c.Matches(row) {
		return store.Outcome{Result: store.Stale, Current: row}
	}
	next, err := mayfly.Advance(row, c)
	if err != nil {
		return store.Outcome{Result: store.Refused, Current: row, Err: err}
	}
	return store.Outcome{Result: store.Applied, Current: next}
}

// learn stores the current rows of a batch.
func (p *page) learn(writes []write, now map[mayfly.ID]mayfly.Item) {
	for _, w := range writes {
		id := w.before.ID
		if item, there := now[id]; there {
			p.rows[id] = item
		} else {
			delete(p.rows, id)
		}
	}
}

// doubt sets the outcome of the changes of a batch to in doubt.
func (p *page) doubt(writes []write) {
	unknown := make(map[mayfly.ID]bool, len(writes))
	for _, w := range writes {
		unknown[w.before.ID] = true
	}
	for _, i := range p.of {
		if unknown[p.changes[i].ID] {
			p.outcomes[i] = store.Outcome{Result: store.InDoubt}
		}
	}
}

// settled is what the current rows show about a batch whose answer was lost.
type settled uint8

const (
	landed    settled = iota + 1 // it was applied
	notLanded                    // it was not applied, and may be when it is sent again
	inDoubt                      // its rows have changed too often to tell
)

// settle decides from the current rows. A batch is applied as a whole or not at all,
// so that one row can decide. A row that is not the one of this batch, and whose
// generation is not above the one that the batch writes, shows that the batch was not
// applied; otherwise a row with the batch's nonce shows that it was (L1). The first
// check must come first: a change that is sent again with its nonce may have been
// applied alone, by an earlier call.
func settle(writes []write, now map[mayfly.ID]mayfly.Item) settled {
	reported := inDoubt
	for _, w := range writes {
		item, there := now[w.before.ID]
		switch {
		case there && item == w.after:
			reported = landed
		case there && item.Generation <= w.after.Generation:
			return notLanded
		}
	}
	return reported
}

// whole reports whether every row is as the batch would have written it.
func whole(writes []write, now map[mayfly.ID]mayfly.Item) bool {
	return !slices.ContainsFunc(writes, func(w write) bool {
		item, there := now[w.before.ID]
		return !there || item != w.after
	})
}
