package cassandrastore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
)

const (
	// largestBatch is how many rows one conditional batch changes at most; all of them
	// share one Paxos round.
	largestBatch = 500
	// attempts is how often a batch is composed again before its outcome is returned as
	// in doubt.
	attempts = 8
	// readBacks is how often rows are read back; the pauses in between are 1.2 to 2.3 s
	// in total.
	readBacks     = 5
	readBackFirst = 75 * time.Millisecond
	readBackLast  = 1200 * time.Millisecond
)

// write is what a conditional batch does to one row: it replaces before by after,
// or removes it.
type write struct {
	before, after mayfly.Item
	removes       bool
}

// condition does all of the writes, which are in one partition, or none. A refusal
// returns the current rows; a row that is not in it does not exist. After an error the
// outcome is unknown, unless the request was unsent.
func (s *Store) condition(ctx context.Context, h hole, writes []write) (applied bool, now map[mayfly.ID]mayfly.Item, err error) {
	b, f := s.batch(change), s.forms.of(h)
	for _, w := range writes {
		p := placeOf(w.before.ID)
		old := []any{int8(w.before.State), int64(w.before.Generation), rowBytes(w.before)}
		if w.removes {
			add(b, change, f.remove, p.with(old...)...)
			continue
		}
		values := []any{int8(w.after.State), int64(w.after.Generation), rowBytes(w.after)}
		add(b, change, f.update, append(append(values, p.values()...), old...)...)
	}
	iter := b.IterContext(ctx)
	now = make(map[mayfly.ID]mayfly.Item)
	answers := 0
	for column := map[string]any{}; err == nil && !applied && iter.MapScan(column); column = map[string]any{} {
		answers++
		applied, _ = column["[applied]"].(bool)
		item, there, corrupt := refusedRow(column, f)
		if there {
			now[item.ID] = item
		}
		err = corrupt
	}
	if err = errors.Join(err, iter.Close()); err != nil {
		return false, nil, err
	}
	if answers == 0 {
		return false, nil, fmt.Errorf("a conditional batch of %d rows has no answer", len(writes))
	}
	return applied, now, nil
}

// refusedRow decodes one row of a refusal.
func refusedRow(column map[string]any, f *form) (item mayfly.Item, there bool, err error) {
	at, _ := column[f.at].(int64)
	id, _ := column["id"].([]byte)
	row, _ := column["row"].([]byte)
	if len(row) == 0 {
		return mayfly.Item{}, false, nil
	}
	item, err = readRow(at, id, row)
	return item, err == nil, err
}
