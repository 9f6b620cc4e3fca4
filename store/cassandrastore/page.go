package cassandrastore

import (
	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// page is a group of changes in one partition: the entries of, among the changes
// and outcomes of the whole call.
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

// compose decides every change against the rows as they were last seen, in order,
// and answers what is to be written. The outcomes hold if that is written.
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

// decide is the outcome of a change of a row, if it is written.
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

// learn takes over what the rows of a batch are now.
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

// doubt says of the changes of a batch that their outcome is not known.
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
