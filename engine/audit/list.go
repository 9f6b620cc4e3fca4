package audit

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Filter selects records. A zero field selects all.
type Filter struct {
	Actor    Actor
	Verb     Verb
	Item     mayfly.ID
	User     mayfly.UserID
	Run      mayfly.Run
	From, To mayfly.Instant // at or after From, before To
}

// Matches reports whether the filter selects r.
func (f Filter) Matches(r Record) bool {
	e := r.Entry
	return (f.Actor == Actor{} || f.Actor == e.Actor) && (f.Verb == 0 || f.Verb == e.Verb) &&
		(f.Item.IsZero() || f.Item == e.Subject.Item) && (f.User.IsZero() || f.User == e.Subject.User) &&
		(f.Run == 0 || f.Run == e.Subject.Run) && (f.From == 0 || f.From <= r.At) && (f.To == 0 || r.At < f.To)
}

// Place is the position of a record among those of all chains: ordered by time,
// then by chain and number. The zero Place is after the newest record.
type Place struct {
	At mayfly.Instant
	Ref
}

// PlaceOf returns the place of r.
func PlaceOf(r Record) Place { return Place{At: r.At, Ref: r.Ref} }

func (p Place) compare(q Place) int {
	return cmp.Or(cmp.Compare(p.At, q.At), cmp.Compare(p.Chain, q.Chain), cmp.Compare(p.Number, q.Number))
}

// Page is a page of a list.
type Page struct {
	Records []Record // newest first
	Next    Place    // where the next page starts
	More    bool     // whether there may be a next page, also after a short or empty one
}

// scanned is the maximum number of records that are read for one page. A filter
// that selects few records gets several short pages.
const scanned = 4096

// List returns a page of the records that the filter selects, from all chains,
// newest first, starting before a place. Records are returned without anchors.
//
// It first reads the end of every chain. It verifies only the hash of each record:
// one that cannot be read is an error of kind Corrupt, and Verify reports details.
func List(ctx context.Context, rows store.Rows, f Filter, before Place, limit int) (Page, error) {
	if limit <= 0 {
		return Page{}, mayfly.Errorf(mayfly.Invalid, "audit: page limit is %d; it must be at least 1", limit)
	}
	if f.To != 0 && (before == Place{} || f.To < before.At) {
		before = Place{At: f.To} // names of chains are not empty: this is before all records of that instant
	}
	m, err := merged(ctx, rows, before)
	if err != nil {
		return Page{}, err
	}
	p := Page{Next: before}
	for range scanned {
		r, ok, err := m.pop(ctx)
		if err != nil || !ok || r.At < f.From {
			return p, err
		}
		p.Next = PlaceOf(r)
		if f.Matches(r) {
			p.Records = append(p.Records, r)
		}
		if len(p.Records) == limit {
			break
		}
	}
	p.More = true
	return p, nil
}

// unreadable returns the error of a list that reads a damaged record.
func unreadable(ref Ref, err error) error {
	return mayfly.Wrap(mayfly.Corrupt, fmt.Errorf("audit: list: %s: %w", ref, err), "run mayfly audit verify for details")
}

// merge reads all chains backwards, newest record first. It keeps only a few
// records of each chain in memory.
type merge struct {
	rows store.Rows
	tips tips
}

// tip is a chain with its next records; the newest is the last of ahead.
type tip struct {
	chain string
	ahead []Record // ascending
}

type tips []*tip

func (t tips) Len() int { return len(t) }
func (t tips) Less(i, j int) bool {
	return PlaceOf(t[i].ahead[len(t[i].ahead)-1]).compare(PlaceOf(t[j].ahead[len(t[j].ahead)-1])) > 0
}
func (t tips) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *tips) Push(x any)   { *t = append(*t, x.(*tip)) }
func (t *tips) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

// merged returns a merge of the records before a place.
func merged(ctx context.Context, rows store.Rows, before Place) (*merge, error) {
	m := &merge{rows: rows}
	err := eachListing(ctx, rows, func(chain string, _ []byte) error {
		if !validChain(chain) {
			return nil
		}
		t := &tip{chain: chain}
		if err := m.fill(ctx, t, "", 1); err != nil || len(t.ahead) == 0 {
			return err
		}
		if newest := t.ahead[0]; before != (Place{}) && PlaceOf(newest).compare(before) >= 0 {
			from, err := m.seek(ctx, chain, newest.Number, before)
			if err != nil || from == 0 {
				return err
			}
			if err := m.fill(ctx, t, clusteringOf(from), 1); err != nil || len(t.ahead) == 0 {
				return err
			}
		}
		m.tips = append(m.tips, t)
		return nil
	})
	heap.Init(&m.tips)
	return m, err
}

// pop returns the newest record that is left.
func (m *merge) pop(ctx context.Context) (r Record, ok bool, err error) {
	if len(m.tips) == 0 {
		return Record{}, false, nil
	}
	t := m.tips[0]
	last := len(t.ahead) - 1
	r = t.ahead[last]
	if t.ahead = t.ahead[:last]; last == 0 && r.Number > 0 {
		const some = 16
		if err := m.fill(ctx, t, clusteringOf(r.Number), some); err != nil {
			return Record{}, false, err
		}
	}
	if len(t.ahead) == 0 {
		heap.Pop(&m.tips)
	} else {
		heap.Fix(&m.tips, 0)
	}
	return r, true, nil
}

// fill reads the last records of a chain before a clustering key, at most limit.
func (m *merge) fill(ctx context.Context, t *tip, before string, limit int) error {
	found, err := m.rows.Range(ctx, Table, store.Range{Partition: partition(t.chain), To: before, Limit: limit, Reverse: true})
	if err != nil {
		return fmt.Errorf("audit: list chain %s: %w", t.chain, err)
	}
	t.ahead = make([]Record, len(found))
	for i, row := range found {
		r, err := readRecord(row.Value)
		if err == nil && (r.Chain != t.chain || clusteringOf(r.Number) != row.Clustering) {
			err = errors.New("it is stored under the key of another record")
		}
		if err != nil {
			return unreadable(Ref{Chain: t.chain, Number: numberOf(row.Clustering)}, err)
		}
		r.Anchors = nil // not part of a list; saves memory, because there is a tip for every chain
		t.ahead[len(found)-1-i] = r
	}
	return nil
}

// seek returns the first number of a chain that is not before a place, at most
// newest. It uses binary search: the times of a chain never decrease.
func (m *merge) seek(ctx context.Context, chain string, newest Number, before Place) (Number, error) {
	var failed error
	at := sort.Search(int(newest), func(n int) bool {
		ref := Ref{Chain: chain, Number: Number(n)}
		found, err := m.rows.Get(ctx, Table, recordKey(ref))
		if err == nil {
			var r Record
			if r, err = readRecord(found[0]); err == nil {
				return PlaceOf(r).compare(before) >= 0
			}
			err = unreadable(ref, err)
		}
		failed = errors.Join(failed, err)
		return true
	})
	return Number(at), failed
}

func numberOf(key string) Number {
	if len(key) != 8 {
		return 0
	}
	return Number(binary.BigEndian.Uint64([]byte(key)))
}
