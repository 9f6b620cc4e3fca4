package cassandrastore

import (
	"errors"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// answer is what a server says to one batch: applied, or the rows in the way, or an
// error and the rows that are read back, if they can be.
type answer struct {
	applied bool
	rows    []mayfly.Item
	err     error
	lost    bool // reading back fails too
}

// newPage is a page of two items that are to expire, a and b as they are and as they
// are to be.
func newPage(t *testing.T) (p *page, a, b write) {
	t.Helper()
	p = &page{rows: map[mayfly.ID]mayfly.Item{}, outcomes: make([]store.Outcome, 2)}
	for i, birth := range births(t, 2, "24h") {
		p.hole = placeOf(birth.Item.ID).hole
		p.of = append(p.of, i)
		p.rows[birth.Item.ID] = birth.Item
		p.changes = append(p.changes, expire(birth.Item))
	}
	writes := p.compose()
	return p, writes[0], writes[1]
}

// served settles the page by answers, which must all be asked for.
func served(t *testing.T, p *page, answers ...answer) error {
	t.Helper()
	rows := func(items []mayfly.Item) map[mayfly.ID]mayfly.Item {
		now := map[mayfly.ID]mayfly.Item{}
		for _, item := range items {
			now[item.ID] = item
		}
		return now
	}
	asked := 0
	err := p.settleBy(asking{
		condition: func([]write) (bool, map[mayfly.ID]mayfly.Item, error) {
			if asked++; asked > len(answers) {
				t.Fatalf("%d batches are sent", asked)
			}
			said := answers[asked-1]
			return said.applied, rows(said.rows), said.err
		},
		readBack: func([]write) (map[mayfly.ID]mayfly.Item, error) {
			if answers[asked-1].lost {
				return nil, gocql.ErrNoConnections
			}
			return rows(answers[asked-1].rows), nil
		},
	})
	if asked != len(answers) {
		t.Errorf("%d batches are sent, want %d", asked, len(answers))
	}
	return err
}

func TestABatchThatMayStillBeAppliedIsNeverUnavailable(t *testing.T) {
	for name, last := range map[string]answer{
		"no node is reachable":     {err: gocql.ErrNoConnections},
		"the server refuses it":    {err: &gocql.RequestErrInvalid{}},
		"a row cannot be read":     {err: mayfly.Errorf(mayfly.Corrupt, "a row")},
		"it is lost, and the rows": {err: gocql.ErrConnectionClosed, lost: true},
	} {
		p, a, b := newPage(t)
		old := []mayfly.Item{a.before, b.before}
		if err := served(t, p, answer{err: gocql.ErrConnectionClosed, rows: old}, last); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for i, o := range p.outcomes {
			if o.Result != store.InDoubt {
				t.Errorf("%s: change %d is %s", name, i, o.Result)
			}
		}
		p, _, _ = newPage(t)
		if err := served(t, p, last); !last.lost && err == nil {
			t.Errorf("%s, at first: no error", name)
		}
	}
	p, _, _ := newPage(t)
	if err := served(t, p, answer{err: gocql.ErrNoConnections}); !errors.Is(err, mayfly.Unavailable) {
		t.Errorf("what was never sent is %v", err)
	}
}

func TestANonceOfAnEarlierCallProvesNothingAboutOtherRows(t *testing.T) {
	for name, answers := range map[string]func(a, b write) []answer{
		"refused": func(a, b write) []answer {
			return []answer{{rows: []mayfly.Item{a.after, b.before}}, {applied: true}}
		},
		"refused, and the other row has moved on": func(a, b write) []answer {
			moved := b.after
			moved.Nonce, moved.Generation = 5, moved.Generation+4
			return []answer{{rows: []mayfly.Item{a.after, moved}}}
		},
		"refused after a doubt": func(a, b write) []answer {
			return []answer{
				{err: gocql.ErrConnectionClosed, rows: []mayfly.Item{a.before, b.before}},
				{rows: []mayfly.Item{a.after, b.before}},
				{applied: true},
			}
		},
	} {
		p, a, b := newPage(t)
		said := answers(a, b)
		if err := served(t, p, said...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		// Who sent it again sees by the nonce that it is its own.
		if o := p.outcomes[0]; o.Result != store.Stale || o.Current != a.after {
			t.Errorf("%s: the first is %s with %+v", name, o.Result, o.Current)
		}
		want := store.Stale
		if said[len(said)-1].applied {
			want = store.Applied
		}
		if o := p.outcomes[1]; o.Result != want {
			t.Errorf("%s: the second is %s, want %s", name, o.Result, want)
		}
	}
}

func TestABatchThatWasAppliedIsReportedSoWhateverWasAnswered(t *testing.T) {
	for name, answers := range map[string]func(a, b write) []answer{
		"read back": func(a, b write) []answer {
			return []answer{{err: gocql.ErrConnectionClosed, rows: []mayfly.Item{a.after, b.after}}}
		},
		"refused, though it is all there": func(a, b write) []answer {
			return []answer{{rows: []mayfly.Item{a.after, b.after}}}
		},
		"after it was read back": func(a, b write) []answer {
			return []answer{
				{err: gocql.ErrConnectionClosed, rows: []mayfly.Item{a.before, b.before}},
				{rows: []mayfly.Item{a.after, b.after}},
			}
		},
	} {
		p, a, b := newPage(t)
		if err := served(t, p, answers(a, b)...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for i, o := range p.outcomes {
			if o.Result != store.Applied {
				t.Errorf("%s: change %d is %s", name, i, o.Result)
			}
		}
	}
}

func TestRowsShowWhetherABatchWasApplied(t *testing.T) {
	ours := func(i byte, from, to mayfly.Generation) write {
		id := mayfly.ID{15: i}
		return write{before: mayfly.Item{ID: id, Generation: from, Nonce: 1}, after: mayfly.Item{ID: id, Generation: to, Nonce: 77}}
	}
	theirs := func(i byte, g mayfly.Generation) mayfly.Item {
		return mayfly.Item{ID: mayfly.ID{15: i}, Generation: g, Nonce: 5}
	}
	one, two := ours(1, 3, 4), ours(2, 6, 8)
	for name, c := range map[string]struct {
		now  []mayfly.Item
		want settled
	}{
		"both show our nonce":                        {[]mayfly.Item{one.after, two.after}, landed},
		"one shows it, the other has moved on":       {[]mayfly.Item{theirs(1, 9), two.after}, landed},
		"one shows it, the other is gone":            {[]mayfly.Item{one.after}, landed},
		"one shows it, of an earlier call":           {[]mayfly.Item{one.after, two.before}, notLanded},
		"the other shows it, of an earlier call":     {[]mayfly.Item{one.before, two.after}, notLanded},
		"both are as they were":                      {[]mayfly.Item{one.before, two.before}, notLanded},
		"another caller took our generation":         {[]mayfly.Item{theirs(1, 4), theirs(2, 20)}, notLanded},
		"another caller is between our two":          {[]mayfly.Item{theirs(1, 20), theirs(2, 7)}, notLanded},
		"both have moved on past ours":               {[]mayfly.Item{theirs(1, 5), theirs(2, 9)}, inDoubt},
		"one has moved on past ours, the other gone": {[]mayfly.Item{theirs(1, 5)}, inDoubt},
		"both are gone":                              {nil, inDoubt},
	} {
		now := map[mayfly.ID]mayfly.Item{}
		for _, item := range c.now {
			now[item.ID] = item
		}
		if got := settle([]write{one, two}, now); got != c.want {
			t.Errorf("%s: settled as %d, want %d", name, got, c.want)
		}
	}
}
