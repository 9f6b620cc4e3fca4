package archive

import (
	"context"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// pass is the work on one batch. rows holds the rows that it goes on with, each as
// the last step left it.
type pass struct {
	*Archive
	batch    walk.Batch
	rows     []mayfly.Item
	done     []mayfly.Item // cold, and their events are to be appended
	gone     []mayfly.Item // deleted with their account, to be announced and erased
	failures []walk.Failure
	resumed  map[mayfly.ID]bool // those of rows whose claim is that of an earlier try

	renditions renditions
}

func (p *pass) fail(item mayfly.Item, err error) {
	p.failures = append(p.failures, walk.Failure{Item: item, Err: err})
}

// move makes one transition of every row and keeps the rows that it applied to. It
// returns as lost the rows that were deleted, restored, held or taken over meanwhile:
// this pass must not touch them any more.
func (p *pass) move(ctx context.Context, change func(mayfly.Item) mayfly.Change) (lost []lostRow, err error) {
	if len(p.rows) == 0 {
		return nil, nil
	}
	changes := make([]mayfly.Change, len(p.rows))
	for i, item := range p.rows {
		changes[i] = composed(change(item), item, mayfly.ByArchive, p.batch)
	}
	outcomes, err := walk.Transition(ctx, p.set.Ledger, changes)
	if err != nil {
		return nil, err
	}
	kept := make([]mayfly.Item, 0, len(p.rows))
	for i, outcome := range outcomes {
		switch outcome.Result {
		case store.Applied:
			kept = append(kept, outcome.Current)
		case store.Stale, store.Missing:
			lost = append(lost, lostRow{known: p.rows[i], current: outcome.Current})
		case store.Refused:
			p.fail(p.rows[i], outcome.Err)
		default: // in doubt: another try takes over, with a higher generation
			p.fail(p.rows[i], mayfly.Errorf(mayfly.Unknown, "whether %s was changed is not known", changes[i].ID))
		}
	}
	p.rows = kept
	return lost, nil
}

// composed completes c as a change of item.
func composed(c mayfly.Change, item mayfly.Item, by mayfly.Cause, b walk.Batch) mayfly.Change {
	c.Run, c.Cause, c.At = b.Run, by, b.Now
	return walk.Compose(item, c)
}

// lostRow is a row that was changed by others: as this pass knew it, and as it is now,
// which is zero if it does not exist any more.
type lostRow struct{ known, current mayfly.Item }

// rounds is how often a claim of a row that others change too is tried again.
const rounds = 3

// claim takes the rows: from then on their generation fences out every other worker. It
// goes on with the claim of an earlier try of this process that is over. A
// row that has changed since it was read may have been changed by an earlier try of
// this batch: if it still waits it is taken over, and if it is cold it is announced.
func (p *pass) claim(ctx context.Context) error {
	var claimed, free []mayfly.Item
	p.resumed = map[mayfly.ID]bool{}
	for _, item := range p.rows {
		if p.claims.take(item) {
			p.resumed[item.ID] = true
			claimed = append(claimed, item)
		} else {
			free = append(free, item)
		}
	}
	p.rows = free
	for round := 0; len(p.rows) > 0; round++ {
		lost, err := p.move(ctx, func(mayfly.Item) mayfly.Change { return mayfly.Change{To: mayfly.Archiving} })
		if err != nil {
			return err
		}
		claimed, p.rows = append(claimed, p.rows...), nil
		for _, l := range lost {
			switch {
			case archived(l.current):
				p.done = append(p.done, l.current)
			case ready(l.current) && round < rounds:
				p.rows = append(p.rows, l.current)
			case ready(l.current):
				p.fail(l.current, mayfly.Errorf(mayfly.Conflict, "the row was changed by others too often"))
			}
		}
	}
	p.rows = claimed
	return nil
}

// name writes the verified cold copy into the row: from then on hot may be erased.
func (p *pass) name(ctx context.Context) error {
	lost, err := p.move(ctx, func(item mayfly.Item) mayfly.Change {
		keys := item.Keys
		if keys.Cold == 0 && item.Media > 0 {
			keys.Cold = item.Generation // of the claim: the copy has it in its key
		}
		return mayfly.Change{To: mayfly.Archiving, Keys: &keys}
	})
	if err != nil {
		return err
	}
	return p.abandon(ctx, lost)
}

// abandon deletes the copies of rows that are lost. Their keys have the generation of a
// claim that is over: no row names them, now or later.
func (p *pass) abandon(ctx context.Context, lost []lostRow) error {
	var cold []mayfly.BlobKey
	var over []mayfly.Item
	for _, l := range lost {
		item := l.known
		if item.Keys.Cold != 0 || l.current.Keys.Cold == item.Generation {
			continue // this pass copied nothing, or the row names its copy
		}
		over = append(over, item)
		for _, n := range p.objects(item) {
			cold = append(cold, item.MediaKey(item.Generation, n))
		}
	}
	if err := p.undescribe(ctx, over); err != nil {
		return fmt.Errorf("remove descriptions of abandoned copies: %w", err)
	}
	if err := deleteKeys(ctx, p.set.Cold, cold); err != nil {
		return fmt.Errorf("erase abandoned copies: %w", err)
	}
	return nil
}

// firstCopy is the lowest generation of an object that a claim or a restore can have
// written: both come after expiry, which is generation 2 or later. Deleting keys that
// cannot exist costs as much as deleting others.
const firstCopy = mayfly.Born + 2

// eraseHot deletes the hot copy, and everything that a crashed claim or restore may have
// left in either tier with a lower generation (L12).
func (p *pass) eraseHot(ctx context.Context) error {
	if err := p.reread(ctx); err != nil {
		return err
	}
	var hot, cold []mayfly.BlobKey
	for _, item := range p.rows {
		if item.Media > 0 && (item.State != mayfly.Archiving || item.Keys.Cold == 0) {
			panic(fmt.Sprintf("archive: hot of %s would be erased before its cold copy is in the row (I1)", item.ID))
		}
		for _, n := range p.objects(item) {
			hot = append(hot, item.MediaKey(mayfly.Born, n))
			for g := firstCopy; g < item.Generation; g++ {
				if n < int(item.Media) || item.ServesUntil != 0 { // hot renditions exist only beside media of a birth or a restore
					hot = append(hot, item.MediaKey(g, n))
				}
				if g != item.Keys.Cold {
					cold = append(cold, item.MediaKey(g, n))
				}
			}
		}
	}
	if err := deleteKeys(ctx, p.set.Hot, hot); err != nil {
		return fmt.Errorf("erase hot: %w", err)
	}
	if err := deleteKeys(ctx, p.set.Cold, cold); err != nil {
		return fmt.Errorf("erase what crashed claims left in cold: %w", err)
	}
	return nil
}

// reread keeps the rows that are still as this pass has left them: nothing is erased
// without reading the row just before (I12). A row that was held meanwhile keeps its
// hot copy (I21), and its release brings the archive back. A row that was changed by
// others is erased by them.
func (p *pass) reread(ctx context.Context) error {
	if len(p.rows) == 0 {
		return nil
	}
	ids := make([]mayfly.ID, len(p.rows))
	for i, item := range p.rows {
		ids[i] = item.ID
	}
	found, err := p.set.Ledger.Get(ctx, ids...)
	if err != nil {
		return fmt.Errorf("read %d rows before hot is erased: %w", len(ids), err)
	}
	kept := make([]mayfly.Item, 0, len(p.rows))
	for i, item := range p.rows {
		if found[i].Found && found[i].Item.Generation == item.Generation && !found[i].Item.Held {
			kept = append(kept, item)
		}
	}
	p.rows = kept
	return nil
}

// deleteKeys deletes objects, without a call if there are none.
func deleteKeys(ctx context.Context, tier store.Blobs, keys []mayfly.BlobKey) error {
	if len(keys) == 0 {
		return nil
	}
	return tier.Delete(ctx, keys...)
}

// finish changes the rows to cold: nothing of them is hot any more.
func (p *pass) finish(ctx context.Context) error {
	_, err := p.move(ctx, func(item mayfly.Item) mayfly.Change {
		return mayfly.Change{To: mayfly.Cold, Keys: &mayfly.Keys{Cold: item.Keys.Cold}}
	})
	p.done = append(p.done, p.rows...)
	return err
}

// announce appends the events of archived items.
func (p *pass) announce(ctx context.Context) error {
	if len(p.done) == 0 {
		return nil
	}
	return walk.Away(p.set.Log.Append(ctx, eventsOf(p.done, mayfly.WasArchived)...))
}

func eventsOf(items []mayfly.Item, verb mayfly.Verb) []mayfly.Event {
	events := make([]mayfly.Event, len(items))
	for i, item := range items {
		events[i] = mayfly.EventOf(item, verb)
	}
	return events
}
