package storetest

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Model implements Writer, Ledger, Rows and Log on maps and slices: short, slow, and
// the reference that Random compares drivers with. It must pass the suites itself.
type Model struct {
	mu     sync.Mutex
	items  map[mayfly.ID]mayfly.Item
	bodies map[mayfly.ID]mayfly.Body
	rows   map[store.Table]map[store.Key][]byte
	events map[mayfly.Stream][]mayfly.Event
	tables *store.TableSet
	places map[string]int // group → number of committed events
	wake   chan struct{}  // closed and replaced at every append
}

// NewModel returns an empty store.
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

// Set returns the model as the four contracts that it implements.
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

type modelRows Model

func (r *modelRows) Tables() []store.Table { return r.tables.List() }

func (r *modelRows) Get(_ context.Context, t store.Table, keys ...store.Key) ([][]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	values := make([][]byte, len(keys))
	for i, key := range keys {
		if err := r.tables.CheckRead(t, key); err != nil {
			return nil, err
		}
		values[i] = bytes.Clone((*Model)(r).table(t)[key])
	}
	return values, nil
}

func (r *modelRows) Partitions(_ context.Context, t store.Table, cursor string, limit int) (partitions []string, next string, err error) {
	if err := r.tables.CheckRead(t, store.Key{Partition: "any"}); err != nil {
		return nil, "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	names := map[string]bool{}
	for key := range (*Model)(r).table(t) {
		names[key.Partition] = key.Partition > cursor
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !names[name] {
			continue
		}
		if len(partitions) == limit {
			return partitions, partitions[limit-1], nil
		}
		partitions = append(partitions, name)
	}
	return partitions, "", nil
}

func (r *modelRows) Range(_ context.Context, t store.Table, rg store.Range) ([]store.Row, error) {
	if err := r.tables.CheckRead(t, store.Key{Partition: rg.Partition}); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var rows []store.Row
	for key, value := range (*Model)(r).table(t) {
		if key.Partition == rg.Partition && key.Clustering >= rg.From && (rg.To == "" || key.Clustering < rg.To) {
			rows = append(rows, store.Row{Clustering: key.Clustering, Value: bytes.Clone(value)})
		}
	}
	slices.SortFunc(rows, func(a, b store.Row) int { return strings.Compare(a.Clustering, b.Clustering) })
	if rg.Reverse {
		slices.Reverse(rows)
	}
	return rows[:min(rg.Limit, len(rows))], nil
}

func (r *modelRows) Ranges(ctx context.Context, t store.Table, all ...store.Range) ([][]store.Row, error) {
	return store.EachRange(ctx, r.Range, t, all)
}

func (r *modelRows) Swap(_ context.Context, t store.Table, key store.Key, old, next []byte, _ mayfly.Instant) (bool, []byte, error) {
	if err := r.tables.CheckSwap(t, key); err != nil {
		return false, nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	table := (*Model)(r).table(t)
	current, there := table[key]
	if there != (old != nil) || !bytes.Equal(current, old) {
		return false, bytes.Clone(current), nil
	}
	if next == nil {
		delete(table, key)
	} else {
		table[key] = append([]byte{}, next...)
	}
	return true, nil, nil
}

type modelLog Model

func (l *modelLog) Append(ctx context.Context, events ...mayfly.Event) error {
	var b store.Batch
	b.Append(events...)
	return (*Model)(l).Commit(ctx, &b)
}

func (l *modelLog) Reader(_ context.Context, stream mayfly.Stream, group string) (store.Reader, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	group = stream.String() + "/" + group
	return &modelReader{m: (*Model)(l), stream: stream, group: group, at: l.places[group]}, nil
}

// Trim deletes nothing: the contract only says what must be kept.
func (l *modelLog) Trim(context.Context, mayfly.Instant, time.Duration) error { return nil }

type modelReader struct {
	m      *Model
	stream mayfly.Stream
	group  string
	at     int
}

func (r *modelReader) Next(ctx context.Context, limit int) ([]store.Record, error) {
	for {
		r.m.mu.Lock()
		events, wake := r.m.events[r.stream], r.m.wake
		r.m.mu.Unlock()
		if r.at < len(events) {
			var records []store.Record
			for ; r.at < len(events) && len(records) < limit; r.at++ {
				records = append(records, store.Record{Offset: uint64(r.at), Event: events[r.at]})
			}
			return records, nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (r *modelReader) Commit(context.Context) error {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.m.places[r.group] = r.at
	return nil
}

func (r *modelReader) Seek(_ context.Context, at mayfly.Instant) error {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	events := r.m.events[r.stream]
	r.at = slices.IndexFunc(events, func(e mayfly.Event) bool { return e.At >= at })
	if r.at < 0 {
		r.at = len(events)
	}
	return nil
}

func (r *modelReader) Lag(context.Context) (int64, error) {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	return int64(len(r.m.events[r.stream]) - r.at), nil
}

func (r *modelReader) Close() error { return nil }
