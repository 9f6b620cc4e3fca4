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

func TestABatchThatMayStillLandIsNeverCalledUnavailable(t *testing.T) {
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

func TestANonceOfAnEarlierCallTellsNothingOfTheOtherRows(t *testing.T) {
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

func TestABatchThatHasLandedIsAppliedWhateverWasAnswered(t *testing.T) {
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
