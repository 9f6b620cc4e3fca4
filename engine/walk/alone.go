package walk

import (
	"context"
	"errors"
	"slices"

	"github.com/mayflyhq/mayfly"
)

// An act that returns Unavailable for one entry usually speaks of a store that does not
// answer, and then parking would only make reminders of everything. But it may be the
// entry: a file that the operating system does not give up, an object that one server
// alone has. An entry that has ended several passes in a row is parked if the act
// succeeds for others behind it (L10).
const (
	keepsFailing = 4 // passes; the others are asked after 4, 8, 16, … of them
	askedOthers  = 8 // entries
)

// alone is the entry that ended the last pass as Unavailable, and how many in a row.
type alone struct {
	entry  string
	passes int
	proved []string // entries that failed when one behind them did not
}

// othersAnswer reports whether the first entry of p keeps failing while the act
// succeeds for an entry behind it. The watermark does not pass those: they are looked
// at again.
func (w *Walker) othersAnswer(ctx context.Context, p page, l look) bool {
	a := &w.alone
	entry := p.key(0)
	if slices.Contains(a.proved, entry) {
		return true
	}
	if a.entry != entry {
		a.entry, a.passes = entry, 0
	}
	a.passes++
	if a.passes < keepsFailing || a.passes&(a.passes-1) != 0 {
		return false
	}
	failed := []string{entry}
	asked, rest, from := 0, p.slice(1, p.len()), p.due(p.len()-1)
	for minute := from.Minute(); ; minute++ {
		for i := 0; i < rest.len() && asked < askedOthers; i++ {
			asked++
			if w.answers(ctx, rest.slice(i, i+1), l) {
				a.proved = failed
				return true
			}
			failed = append(failed, rest.key(i))
		}
		if minute > l.to.Minute() || asked == askedOthers || minute > p.due(0).Minute()+passMinutes {
			return false
		}
		s := w.stretch(minute, from, min(l.to, (minute+1).Start()-1))
		var err error
		if rest, err = w.read(ctx, &s, askedOthers); err != nil {
			return false
		}
	}
}

// answers reports whether the act succeeds for an entry, or fails for a reason of it.
func (w *Walker) answers(ctx context.Context, p page, l look) bool {
	_, _, err := w.try(ctx, Batch{Items: p.items, Rows: p.rows, Now: l.now, Run: w.run, Repeat: true})
	w.again = max(w.again, p.due(0))
	return ctx.Err() == nil && !errors.Is(err, mayfly.Unavailable) && !errors.Is(err, context.DeadlineExceeded)
}
