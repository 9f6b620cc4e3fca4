package cassandrastore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/mayflyhq/mayfly"
)

// The index of minutes lists the partitions of the ledger that may have rows: days has
// the days of a shard, minutes the minutes of a day. A birth writes both before its
// row, so that no row is without its entry; an entry without rows is harmless. Entries
// are never deleted: a birth may arrive late, and the deletion would hide its entry,
// which has timestamp 1.
// docs/decisions/0012-index-of-minutes.md.

const minutesInDay = 24 * 60

func listDay() string {
	return fmt.Sprintf("INSERT INTO days (ledger, shard, day) VALUES (?, ?, ?) USING TIMESTAMP %d", stampBorn)
}

func listMinute() string {
	return fmt.Sprintf("INSERT INTO minutes (ledger, shard, day, minute) VALUES (?, ?, ?, ?) USING TIMESTAMP %d", stampBorn)
}

const (
	readDays    = "SELECT day FROM days WHERE ledger = ? AND shard = ? AND day > ?"
	readMinutes = "SELECT minute FROM minutes WHERE ledger = ? AND shard = ? AND day = ? AND minute >= ? LIMIT ?"
)

// day is the part of the index that a partition of the ledger is listed in.
type day struct {
	eternal bool
	number  int64
	shard   mayfly.Shard
}

func dayOf(h hole) day { return day{h.eternal, h.minute / minutesInDay, h.shard} }

// listed remembers entries of the index that this process has written. It saves
// writes only: what it forgets is written again.
type listed struct {
	mu      sync.Mutex
	entries map[any]struct{} // day or hole
}

// mostListed is how many entries are remembered: several days of minutes.
const mostListed = 1 << 17

func (l *listed) has(entry any) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, has := l.entries[entry]
	return has
}

func (l *listed) add(entry any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries == nil || len(l.entries) >= mostListed {
		l.entries = map[any]struct{}{}
	}
	l.entries[entry] = struct{}{}
}

// listTasks returns the writes that add h to the index; none if this process has
// written them.
func (s *Store) listTasks(h hole) []task {
	var tasks []task
	list := func(entry any, statement string, values ...any) {
		if s.listed.has(entry) {
			return
		}
		tasks = append(tasks, func(ctx context.Context) error {
			if err := s.query(birth, statement, values...).ExecContext(ctx); err != nil {
				return writeError(birth, "list "+h.String(), err)
			}
			s.listed.add(entry)
			return nil
		})
	}
	table, d := s.forms.of(h).table, dayOf(h)
	list(d, listDay(), table, int8(h.shard), d.number)
	list(h, listMinute(), table, int8(h.shard), d.number, h.minute)
	return tasks
}

// minutes reads the minutes of a day that are listed, at or after from.
func (s *Store) minutes(ctx context.Context, d day, from int64, limit int) (minutes []int64, err error) {
	iter := s.query(readLedger, readMinutes, s.forms.of(hole{eternal: d.eternal}).table, int8(d.shard), d.number, from, limit).IterContext(ctx)
	var minute int64
	for iter.Scan(&minute) {
		minutes = append(minutes, minute)
	}
	return minutes, iter.Close()
}

// eachDay calls do for the day of first, listed or not, and then for every later
// day of the shard that is listed, until do returns false or an error.
func (s *Store) eachDay(ctx context.Context, first day, do func(day) (bool, error)) (err error) {
	if more, err := do(first); err != nil || !more {
		return err
	}
	iter := s.query(readLedger, readDays, s.forms.of(hole{eternal: first.eternal}).table, int8(first.shard), first.number).IterContext(ctx)
	defer func() { err = errors.Join(err, iter.Close()) }()
	for next := first; iter.Scan(&next.number); {
		if more, err := do(next); err != nil || !more {
			return err
		}
	}
	return nil
}

// NextMinute implements store.Ledger.
func (s ledger) NextMinute(ctx context.Context, shard mayfly.Shard, from mayfly.Minute) (next mayfly.Minute, found bool, err error) {
	if err := begin(ctx); err != nil {
		return 0, false, err
	}
	err = s.eachDay(ctx, dayOf(hole{false, int64(from), shard}), func(d day) (bool, error) {
		minutes, err := s.minutes(ctx, d, int64(from), 1)
		if found = len(minutes) > 0; found {
			next = mayfly.Minute(minutes[0])
		}
		return !found, err
	})
	if err != nil {
		return 0, false, readError(fmt.Sprintf("next minute of shard %d", shard), err)
	}
	return next, found, nil
}

// widestPage is how many minutes of items that never expire are read at once.
const widestPage = 16

// Eternal implements store.Ledger: minute by minute of birth until the page is
// full, several at once where they hold little.
func (s ledger) Eternal(ctx context.Context, shard mayfly.Shard, after mayfly.ID, limit int) (items []mayfly.Item, err error) {
	if limit <= 0 {
		return nil, nil
	}
	if err := begin(ctx); err != nil {
		return nil, err
	}
	from, width := int64(after.Birth().Minute()), 1
	err = s.eachDay(ctx, dayOf(hole{true, from, shard}), func(d day) (bool, error) {
		minutes, err := s.minutes(ctx, d, from, minutesInDay)
		for err == nil && len(minutes) > 0 && len(items) < limit {
			pages := make([][]mayfly.Item, min(width, len(minutes)))
			err = each(ctx, len(pages), func(ctx context.Context, i int) (err error) {
				pages[i], err = s.page(ctx, hole{true, minutes[i], shard}, int64(after.Birth()), after, math.MaxInt64, limit-len(items))
				return err
			})
			for _, page := range pages {
				items = append(items, page...)
			}
			minutes = minutes[len(pages):]
			width = min(2*width, widestPage)
		}
		return len(items) < limit, err
	})
	if err != nil {
		return nil, readError(fmt.Sprintf("items of shard %d that never expire", shard), err)
	}
	return items[:min(limit, len(items))], nil
}
