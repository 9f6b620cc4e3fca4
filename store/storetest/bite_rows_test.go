package storetest

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/mayflyhq/mayfly/store"
)

func brokenRanges() []breakage {
	ranging := func(spoil func(store.Rows, context.Context, store.Table, store.Range) ([]store.Row, error)) func(*Model, *store.Set) {
		return func(_ *Model, set *store.Set) {
			inner := set.Rows
			set.Rows = badRows{Rows: inner, rang: func(ctx context.Context, t store.Table, r store.Range) ([]store.Row, error) {
				return spoil(inner, ctx, t, r)
			}}
		}
	}
	return []breakage{
		{"a range includes its end", Rows, "the bounds of a range include from and exclude to", ranging(
			func(rows store.Rows, ctx context.Context, t store.Table, r store.Range) ([]store.Row, error) {
				if r.To != "" {
					r.To += "\x00"
				}
				return rows.Range(ctx, t, r)
			})},
		{"a range backwards is a range forwards", Rows, "a range is read forwards and backwards", ranging(
			func(rows store.Rows, ctx context.Context, t store.Table, r store.Range) ([]store.Row, error) {
				r.Reverse = false
				return rows.Range(ctx, t, r)
			})},
		{"a range backwards takes the first and turns them round", Rows, "a range stops at its limit", ranging(
			func(rows store.Rows, ctx context.Context, t store.Table, r store.Range) ([]store.Row, error) {
				reverse := r.Reverse
				r.Reverse = false
				got, err := rows.Range(ctx, t, r)
				if reverse {
					slices.Reverse(got)
				}
				return got, err
			})},
		{"keys end at a NUL", Rows, "sort keys are bytes: all are found and in byte order", ranging(
			func(rows store.Rows, ctx context.Context, t store.Table, r store.Range) ([]store.Row, error) {
				got, err := rows.Range(ctx, t, r)
				for i := range got {
					got[i].Clustering, _, _ = strings.Cut(got[i].Clustering, "\x00")
				}
				return got, err
			})},
		{"a partition bleeds into those whose name begins with its own", Rows, "keys are bytes: no partition bleeds into another", func(m *Model, set *store.Set) {
			inner := set.Rows
			set.Rows = badRows{Rows: inner, rang: func(ctx context.Context, t store.Table, r store.Range) ([]store.Row, error) {
				got, err := inner.Range(ctx, t, r)
				for key, value := range m.rows[t] {
					if key.Partition == r.Partition+"\x00" {
						got = append(got, store.Row{Clustering: key.Clustering, Value: value})
					}
				}
				return got, err
			}}
		}},
		{"a drop takes the partitions whose name begins with its own", Rows, "a dropped partition is empty and its neighbours are whole", func(m *Model, set *store.Set) {
			set.Writer = commitFunc(func(ctx context.Context, b *store.Batch) error {
				for _, s := range b.Stages() {
					for _, d := range s.Drops {
						for key := range m.rows[d.Table] {
							if strings.HasPrefix(key.Partition, d.Partition) {
								delete(m.rows[d.Table], key)
							}
						}
					}
				}
				return m.Commit(ctx, b)
			})
		}},
		{"an empty value is absence", Rows, "an empty value is not absence", func(_ *Model, set *store.Set) {
			inner := set.Rows
			set.Rows = badRows{Rows: inner, get: func(ctx context.Context, t store.Table, keys ...store.Key) ([][]byte, error) {
				values, err := inner.Get(ctx, t, keys...)
				for i := range values {
					if len(values[i]) == 0 {
						values[i] = nil
					}
				}
				return values, err
			}}
		}},
		{"all tables are one", Rows, "tables with the same keys are apart", func(_ *Model, set *store.Set) {
			inner := set.Rows
			set.Rows = badRows{Rows: inner, get: func(ctx context.Context, _ store.Table, keys ...store.Key) ([][]byte, error) {
				return inner.Get(ctx, PlainTable, keys...)
			}}
		}},
		{"an answer is the store's own memory", Rows, "what was read does not change when the row does", func(m *Model, set *store.Set) {
			set.Rows = badRows{Rows: set.Rows, get: func(_ context.Context, t store.Table, keys ...store.Key) ([][]byte, error) {
				var values [][]byte
				for _, key := range keys {
					values = append(values, m.rows[t][key])
				}
				return values, nil
			}}
		}},
	}
}

func brokenSwaps() []breakage {
	swapping := func(spoil func(*Model, store.Rows, store.Table, store.Key, []byte, []byte) (bool, []byte, error)) func(*Model, *store.Set) {
		return func(m *Model, set *store.Set) {
			inner := set.Rows
			set.Rows = badRows{Rows: inner, swap: func(_ context.Context, t store.Table, key store.Key, old, next []byte) (bool, []byte, error) {
				return spoil(m, inner, t, key, old, next)
			}}
		}
	}
	always := func(m *Model, _ store.Rows, t store.Table, key store.Key, _, next []byte) (bool, []byte, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.table(t)[key] = bytes.Clone(next)
		return true, nil, nil
	}
	plainly := func(rows store.Rows, t store.Table, key store.Key, old, next []byte) (bool, []byte, error) {
		return rows.Swap(context.Background(), t, key, old, next, 0)
	}
	return []breakage{
		{"a swap always succeeds", Rows, "a swap that expects something else changes nothing and is told the row", swapping(always)},
		{"every racing swap succeeds", Rows, "of sixteen racing swaps from absence exactly one wins", swapping(always)},
		{"every counter swap succeeds", Rows, "sixteen racing swappers count without losing one", swapping(always)},
		{"a plain table is swapped", Rows, "a plain table cannot be swapped", swapping(always)},
		{"a lease is anybody's", Lease, "of sixteen that race for a lease one holds it", swapping(always)},
		{"a release frees anybody's lease", Lease, "a release frees nobody else's lease", swapping(
			func(m *Model, rows store.Rows, t store.Table, key store.Key, old, next []byte) (bool, []byte, error) {
				if len(next) == 8 { // nobody's
					return always(m, rows, t, key, old, next)
				}
				return plainly(rows, t, key, old, next)
			})},
		{"a swap to absence leaves an empty row", Rows, "a swap to absence removes the row", swapping(
			func(_ *Model, rows store.Rows, t store.Table, key store.Key, old, next []byte) (bool, []byte, error) {
				return plainly(rows, t, key, old, append([]byte{}, next...))
			})},
		{"a swap takes an empty value for absence", Rows, "a swap tells an empty value from absence", swapping(
			func(_ *Model, rows store.Rows, t store.Table, key store.Key, old, next []byte) (bool, []byte, error) {
				if len(old) == 0 {
					old = nil
				}
				return plainly(rows, t, key, old, next)
			})},
		{"a swap that lost is not told the row", Rows, "a swap that expects something else changes nothing and is told the row", swapping(
			func(_ *Model, rows store.Rows, t store.Table, key store.Key, old, next []byte) (bool, []byte, error) {
				swapped, _, err := plainly(rows, t, key, old, next)
				return swapped, nil, err
			})},
	}
}
