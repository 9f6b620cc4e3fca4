package archive

import (
	"context"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// pass is one batch on its way. rows are those that are still with it, each as
// its last step left it.
type pass struct {
	*Archive
	batch    walk.Batch
	rows     []mayfly.Item
	done     []mayfly.Item // cold, and to be told to the log
	gone     []mayfly.Item // deleted for their account, and to be told and erased
	failures []walk.Failure

	renditions renditions
}

func (p *pass) fail(item mayfly.Item, err error) {
	p.failures = append(p.failures, walk.Failure{Item: item, Err: err})
}

// move makes one transition of every row, in one batch per pigeonhole, and keeps
// the rows that it applied to. A row that somebody has moved meanwhile is theirs:
// it was deleted, restored, held or taken over. Those are lost to this pass.
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
		default: // not known: another try finds out, under a higher generation
			p.fail(p.rows[i], mayfly.Errorf(mayfly.Unknown, "whether %s was moved is not known", changes[i].ID))
		}
	}
	p.rows = kept
	return lost, nil
}

// composed makes c a change of item as it was read.
func composed(c mayfly.Change, item mayfly.Item, by mayfly.Cause, b walk.Batch) mayfly.Change {
	c.Run, c.Cause, c.At = b.Run, by, b.Now
	return walk.Compose(item, c)
}

// lostRow is a row that somebody has moved: as this pass knew it, and as it is,
// which is nothing when it is not there any more.
type lostRow struct{ known, current mayfly.Item }

// rounds is how often a claim that met a moving row is composed again.
const rounds = 3

// claim takes the rows: from here on their generation fences every other worker.
// A row that has moved since it was read may have been moved by an earlier try
// of this very batch: what still waits is taken over, and what is cold is told.
func (p *pass) claim(ctx context.Context) error {
	var claimed []mayfly.Item
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
				p.fail(l.current, mayfly.Errorf(mayfly.Conflict, "the row keeps changing"))
			}
		}
	}
	p.rows = claimed
	return nil
}

// name makes the verified cold copy part of the row: from here on hot may go.
func (p *pass) name(ctx context.Context) error {
	lost, err := p.move(ctx, func(item mayfly.Item) mayfly.Change {
		keys := item.Keys
		if keys.Cold == 0 && item.Media > 0 {
			keys.Cold = item.Generation // of the claim, under which it was copied
		}
		return mayfly.Change{To: mayfly.Archiving, Keys: &keys}
	})
	if err != nil {
		return err
	}
	return p.abandon(ctx, lost)
}

// abandon deletes the copies that were made for rows that are somebody else's by
// now. Their key is of a claim that is over: no row names it, and none will.
func (p *pass) abandon(ctx context.Context, lost []lostRow) error {
	var cold []mayfly.BlobKey
	var over []mayfly.Item
	for _, l := range lost {
		item := l.known
		if item.Keys.Cold != 0 || l.current.Keys.Cold == item.Generation {
			continue // this pass copied nothing, or the row names what it did
		}
		over = append(over, item)
		for _, n := range p.objects(item) {
			cold = append(cold, item.MediaKey(item.Generation, n))
		}
	}
	if err := p.undescribe(ctx, over); err != nil {
		return fmt.Errorf("forget copies of a claim that is over: %w", err)
	}
	if err := deleteKeys(ctx, p.set.Cold, cold); err != nil {
		return fmt.Errorf("erase copies of a claim that is over: %w", err)
	}
	return nil
}

// firstCopy is the lowest generation that a claim or a restore can have written
// an object under: both come after expiry, which is the second generation at
// least. Asking a tier for what cannot be there costs as much as for what is.
const firstCopy = mayfly.Born + 2

// eraseHot deletes the hot copy, and whatever a crashed claim or restore may have
// left under a lower generation in either tier (L12).
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
				if n < int(item.Media) || item.ServesUntil != 0 { // a rendition in hot stands beside what a row has named, which is born or restored
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

// deleteKeys spares the tier a call about nothing.
func deleteKeys(ctx context.Context, tier store.Blobs, keys []mayfly.BlobKey) error {
	if len(keys) == 0 {
		return nil
	}
	return tier.Delete(ctx, keys...)
}

// finish writes cold: nothing of the item is hot any more.
func (p *pass) finish(ctx context.Context) error {
	_, err := p.move(ctx, func(item mayfly.Item) mayfly.Change {
		return mayfly.Change{To: mayfly.Cold, Keys: &mayfly.Keys{Cold: item.Keys.Cold}}
	})
	p.done = append(p.done, p.rows...)
	return err
}

func (p *pass) tell(ctx context.Context) error {
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
