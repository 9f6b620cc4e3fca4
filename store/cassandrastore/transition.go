package cassandrastore

import (
	"context"
	"errors"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/conn"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Transition implements store.Ledger. Changes are grouped by pigeonhole; each group is
// one conditional batch of at most largestBatch rows. If the answer of a batch is lost,
// its rows are read back and their nonces decide; changes that they cannot decide are
// InDoubt.
func (s ledger) Transition(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	if err := begin(ctx); err != nil {
		return nil, err
	}
	outcomes := make([]store.Outcome, len(changes))
	parts := partition(changes, func(c mayfly.Change) place { return placeOf(c.ID) })
	err := each(ctx, len(parts), func(ctx context.Context, n int) error {
		for of := parts[n].of; len(of) > 0; {
			size := min(len(of), largestBatch)
			p := page{hole: parts[n].hole, of: of[:size], changes: changes, outcomes: outcomes}
			if err := s.turn(ctx, &p); err != nil {
				return err
			}
			of = of[size:]
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// turn determines the outcomes of a page: it reads, composes and writes. After a
// refusal or a lost answer it composes the next batch from the rows that were returned.
func (s *Store) turn(ctx context.Context, p *page) (err error) {
	leave, err := s.lanes.enter(ctx, p.hole.String())
	if err != nil {
		return err
	}
	defer leave()
	if p.rows, err = s.readPlaces(ctx, readLedger, p.hole, p.places()); err != nil {
		return readError("transition in "+p.hole.String(), err)
	}
	return p.settleBy(asking{
		condition: func(writes []write) (bool, map[mayfly.ID]mayfly.Item, error) { return s.condition(ctx, p.hole, writes) },
		readBack:  func(writes []write) (map[mayfly.ID]mayfly.Item, error) { return s.readBack(ctx, p.hole, writes) },
	})
}

// asking has the requests that a page needs.
type asking struct {
	condition func([]write) (applied bool, now map[mayfly.ID]mayfly.Item, err error)
	readBack  func([]write) (now map[mayfly.ID]mayfly.Item, err error)
}

// settleBy writes a page whose rows were read, until its outcomes are final.
func (p *page) settleBy(ask asking) error {
	unsure := false // a batch that was sent may still land
	for range attempts {
		writes := p.compose()
		if len(writes) == 0 {
			return nil
		}
		applied, now, err := ask.condition(writes)
		if err == nil && applied {
			return nil
		}
		if err != nil {
			refused := unsent(change, err) || errors.Is(err, mayfly.Corrupt)
			if refused && !unsure {
				return writeError(change, "transition in "+p.hole.String(), err)
			}
			if refused {
				break // this one is not, an earlier one may be
			}
			unsure = true
			if now, err = ask.readBack(writes); err != nil {
				break
			}
		}
		// In a refusal, a single row with the batch's nonce may come from an earlier call;
		// if all rows have it, the batch was applied, whatever the server answered.
		if unsure || whole(writes, now) {
			switch settle(writes, now) {
			case landed: // its outcomes stand as they were composed
				return nil
			case inDoubt:
				p.doubt(writes)
				return nil
			}
		}
		p.learn(writes, now)
	}
	p.doubt(p.compose())
	return nil
}

// readBack reads the rows of a batch whose answer was lost.
func (s *Store) readBack(ctx context.Context, h hole, writes []write) (now map[mayfly.ID]mayfly.Item, err error) {
	err = settling(ctx, func() (err error) {
		now, err = s.readPlaces(ctx, settleDoubt, h, placesOf(writes))
		return err
	})
	return now, err
}

// settling repeats a read of what a lost answer was about until it succeeds. It allows
// some time, because the broken connection may be the only one and must first be
// opened again.
func settling(ctx context.Context, read func() error) (err error) {
	for n := 1; n <= readBacks; n++ {
		if err = read(); err == nil {
			return nil
		}
		if err := loop.Rest(ctx, conn.Backoff{First: readBackFirst, Longest: readBackLast}.After(n)); err != nil {
			return err
		}
	}
	return err
}

func placesOf(writes []write) []place {
	places := make([]place, len(writes))
	for i, w := range writes {
		places[i] = placeOf(w.before.ID)
	}
	return places
}
