package storetest

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

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

// Trim forgets nothing: the contract says only what it must not forget.
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
