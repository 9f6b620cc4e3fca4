package storetest

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Model is the oracle: what Writer, Ledger, Rows and Log promise, on plain maps
// and slices, as slow as it is short. It keeps the contracts of package store,
// and is itself held to the suites.
type Model struct {
	mu     sync.Mutex
	items  map[mayfly.ID]mayfly.Item
	bodies map[mayfly.ID]mayfly.Body
	rows   map[store.Table]map[store.Key][]byte
	events map[mayfly.Stream][]mayfly.Event
	tables *store.TableSet
	places map[string]int // group → how many events are committed
	wake   chan struct{}  // closed and replaced at every append
}

// NewModel is an empty store.
func NewModel() *Model {
	declared, err := store.NewTableSet(Tables())
	if err != nil {
		panic(err)
	}
	return &Model{
		tables: declared,
		items:  map[mayfly.ID]mayfly.Item{},
		bodies: map[mayfly.ID]mayfly.Body{},
		rows:   map[store.Table]map[store.Key][]byte{},
		events: map[mayfly.Stream][]mayfly.Event{},
		places: map[string]int{},
		wake:   make(chan struct{}),
	}
}

// Set is the model as the four contracts that it keeps.
func (m *Model) Set() store.Set {
	return store.Set{Writer: m, Ledger: (*modelLedger)(m), Rows: (*modelRows)(m), Log: (*modelLog)(m), Fuse: store.NewFuse()}
}

// Commit writes every stage.
func (m *Model) Commit(_ context.Context, b *store.Batch) error {
	if err := m.tables.CheckBatch(b); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range b.Stages() {
		for _, birth := range s.Inserts {
			if _, there := m.items[birth.Item.ID]; !there {
				m.items[birth.Item.ID] = birth.Item
				m.bodies[birth.Item.ID] = cloneBody(birth.Body)
			}
		}
		for _, p := range s.Puts {
			m.table(p.Table)[p.Key] = append([]byte{}, p.Value...)
		}
		for _, d := range s.Deletes {
			delete(m.table(d.Table), d.Key)
		}
		for _, d := range s.Drops {
			for key := range m.table(d.Table) {
				if key.Partition == d.Partition {
					delete(m.table(d.Table), key)
				}
			}
		}
		m.append(s.Events)
	}
	return nil
}

func cloneBody(b mayfly.Body) mayfly.Body {
	return mayfly.Body{Text: b.Text, Data: bytes.Clone(b.Data), Media: slices.Clone(b.Media)}
}

func (m *Model) table(t store.Table) map[store.Key][]byte {
	if m.rows[t] == nil {
		m.rows[t] = map[store.Key][]byte{}
	}
	return m.rows[t]
}

func (m *Model) append(events []mayfly.Event) {
	for _, e := range events {
		m.events[e.Stream()] = append(m.events[e.Stream()], e)
	}
	if len(events) > 0 {
		close(m.wake)
		m.wake = make(chan struct{})
	}
}

type modelLedger Model

func (l *modelLedger) Get(_ context.Context, ids ...mayfly.ID) ([]store.Found, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := make([]store.Found, len(ids))
	for i, id := range ids {
		found[i].Item, found[i].Found = l.items[id], l.items[id].State != 0
	}
	return found, nil
}

func (l *modelLedger) Body(_ context.Context, ids ...mayfly.ID) ([]store.FoundBody, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := make([]store.FoundBody, len(ids))
	for i, id := range ids {
		body, there := l.bodies[id]
		found[i] = store.FoundBody{Body: cloneBody(body), Found: there}
	}
	return found, nil
}

func (l *modelLedger) Transition(_ context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]store.Outcome, len(changes))
	for i, c := range changes {
		row, there := l.items[c.ID]
		if !there {
			out[i].Result = store.Missing
			continue
		}
		if !c.Matches(row) {
			out[i] = store.Outcome{Result: store.Stale, Current: row}
			continue
		}
		next, err := mayfly.Advance(row, c)
		if err != nil {
			out[i] = store.Outcome{Result: store.Refused, Current: row, Err: err}
			continue
		}
		l.items[c.ID] = next
		out[i] = store.Outcome{Result: store.Applied, Current: next}
	}
	return out, nil
}

func (l *modelLedger) Walk(_ context.Context, s store.Stretch, limit int) ([]mayfly.Item, error) {
	after := mayfly.Item{ID: s.After.ID}
	return l.pick(limit, walkingOrder, func(item mayfly.Item) bool {
		id := item.ID
		return id.Expires() && id.Minute() == s.Minute && id.Shard() == s.Shard && id.Deadline() <= s.To &&
			(s.After == store.Position{} || id.Deadline() > s.After.Deadline ||
				id.Deadline() == s.After.Deadline && id.Compare(after.ID) > 0)
	}), nil
}

func (l *modelLedger) Eternal(_ context.Context, shard mayfly.Shard, after mayfly.ID, limit int) ([]mayfly.Item, error) {
	byBirth := func(a, b mayfly.Item) int { return a.ID.Compare(b.ID) }
	return l.pick(limit, byBirth, func(item mayfly.Item) bool {
		return !item.ID.Expires() && item.ID.Shard() == shard && item.ID.Compare(after) > 0
	}), nil
}

func (l *modelLedger) NextMinute(_ context.Context, shard mayfly.Shard, from mayfly.Minute) (mayfly.Minute, bool, error) {
	first := l.pick(1, walkingOrder, func(item mayfly.Item) bool {
		return item.ID.Expires() && item.ID.Shard() == shard && item.ID.Minute() >= from
	})
	if len(first) == 0 {
		return 0, false, nil
	}
	return first[0].ID.Minute(), true, nil
}

func (l *modelLedger) pick(limit int, order func(a, b mayfly.Item) int, want func(mayfly.Item) bool) []mayfly.Item {
	l.mu.Lock()
	defer l.mu.Unlock()
	var items []mayfly.Item
	for _, item := range l.items {
		if want(item) {
			items = append(items, item)
		}
	}
	slices.SortFunc(items, order)
	return items[:min(limit, len(items))]
}

func (l *modelLedger) EraseBody(_ context.Context, ids ...mayfly.ID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.erasable(ids); err != nil {
		return err
	}
	for _, id := range ids {
		delete(l.bodies, id)
	}
	return nil
}

func (l *modelLedger) Remove(_ context.Context, ids ...mayfly.ID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.erasable(ids); err != nil {
		return err
	}
	for _, id := range ids {
		delete(l.items, id)
		delete(l.bodies, id)
	}
	return nil
}

func (l *modelLedger) erasable(ids []mayfly.ID) error {
	for _, id := range ids {
		if row, there := l.items[id]; there {
			if err := row.Erasable(); err != nil {
				return err
			}
		}
	}
	return nil
}
