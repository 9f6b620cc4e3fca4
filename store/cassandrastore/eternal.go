package cassandrastore

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/mayflyhq/mayfly"
)

// The list of eras says in which a shard has items that never expire. It is
// written before the first of them.

func listEra() string {
	return fmt.Sprintf("INSERT INTO eras (shard, era) VALUES (?, ?) USING TIMESTAMP %d", stampBorn)
}

const readEras = "SELECT era FROM eras WHERE shard = ? AND era >= ?"

func (s *Store) noteEra(ctx context.Context, h hole) error {
	if _, known := s.eras.Load(h); known {
		return nil
	}
	if err := s.query(birth, listEra(), int8(h.shard), h.major).ExecContext(ctx); err != nil {
		return writeError(birth, "list "+h.String(), err)
	}
	s.eras.Store(h, struct{}{})
	return nil
}

// Eternal implements store.Ledger: era by era, until the page is full.
func (s ledger) Eternal(ctx context.Context, shard mayfly.Shard, after mayfly.ID, limit int) ([]mayfly.Item, error) {
	if limit <= 0 {
		return nil, nil
	}
	if err := begin(ctx); err != nil {
		return nil, err
	}
	iter := s.query(readLedger, readEras, int8(shard), eraOf(after.Birth())).IterContext(ctx)
	var (
		items  []mayfly.Item
		era    int64
		failed error
	)
	for failed == nil && len(items) < limit && iter.Scan(&era) {
		var more []mayfly.Item
		more, failed = s.page(ctx, hole{true, era, shard}, int64(after.Birth()), after, math.MaxInt64, limit-len(items))
		items = append(items, more...)
	}
	if err := errors.Join(failed, iter.Close()); err != nil {
		return nil, readError(fmt.Sprintf("items of shard %d that never expire", shard), err)
	}
	return items, nil
}
