package storetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func brokenLogs() []breakage {
	appending := func(spoil func([]mayfly.Event) []mayfly.Event) func(*Model, *store.Set) {
		return func(_ *Model, set *store.Set) {
			inner := set.Log
			set.Log = badLog{Log: inner, append: func(ctx context.Context, events ...mayfly.Event) error {
				if batchOf(events...).Validate() != nil {
					return inner.Append(ctx, events...)
				}
				return inner.Append(ctx, spoil(slices.Clone(events))...)
			}}
		}
	}
	return []breakage{
		{"two events of a call change places", Log, "events of an item in one call keep their order", appending(func(events []mayfly.Event) []mayfly.Event {
			if len(events) > 5 {
				events[1], events[5] = events[5], events[1]
			}
			return events
		})},
		{"an event is lost", Log, "events of an item in calls that follow each other keep their order", appending(func(events []mayfly.Event) []mayfly.Event {
			return slices.DeleteFunc(events, func(e mayfly.Event) bool { return e.Generation == 7 })
		})},
		{"an event is not what it was", Log, "an event is read back whole", appending(func(events []mayfly.Event) []mayfly.Event {
			for i := range events {
				events[i].Generation &= 0xffff
			}
			return events
		})},
		{"a refused call appends what is good", Log, "an event that is not whole is refused", func(_ *Model, set *store.Set) {
			inner := set.Log
			set.Log = badLog{Log: inner, append: func(ctx context.Context, events ...mayfly.Event) error {
				var errs []error
				for _, e := range events {
					errs = append(errs, inner.Append(ctx, e))
				}
				return errors.Join(errs...)
			}}
		}},
		{"both streams are one", Log, "births and ends are streams apart", func(_ *Model, set *store.Set) {
			set.Log = badLog{Log: set.Log, stream: func(mayfly.Stream) mayfly.Stream { return mayfly.Ends }}
		}},
		{"trim forgets everything", Log, "trim never forgets a younger event", func(m *Model, set *store.Set) {
			set.Log = badLog{Log: set.Log, trim: func(mayfly.Instant, time.Duration) {
				m.mu.Lock()
				defer m.mu.Unlock()
				clear(m.events)
			}}
		}},
		{"trim is a millisecond too keen", Log, "trim never forgets a younger event", func(m *Model, set *store.Set) {
			set.Log = badLog{Log: set.Log, trim: func(now mayfly.Instant, keep time.Duration) {
				m.mu.Lock()
				defer m.mu.Unlock()
				for s := range m.events {
					m.events[s] = slices.DeleteFunc(m.events[s], func(e mayfly.Event) bool { return e.At <= now.Add(-keep) })
				}
			}}
		}},
	}
}

func brokenReaders() []breakage {
	reading := func(spoil func(store.Reader) store.Reader) func(*Model, *store.Set) {
		return func(_ *Model, set *store.Set) { set.Log = badLog{Log: set.Log, reader: spoil} }
	}
	return []breakage{
		{"a new group starts at the end", Log, "a new group starts at the oldest event", reading(func(r store.Reader) store.Reader {
			_ = r.Seek(context.Background(), 1<<60)
			return r
		})},
		{"next answers with nothing", Log, "next waits and wakes when an event comes", reading(func(r store.Reader) store.Reader {
			return badReader{Reader: r, next: func(ctx context.Context, limit int) ([]store.Record, error) {
				if n, _ := r.Lag(ctx); n == 0 {
					return nil, nil
				}
				return r.Next(ctx, limit)
			}}
		})},
		{"next goes over its limit", Log, "next returns at most its limit and skips nothing", reading(func(r store.Reader) store.Reader {
			return badReader{Reader: r, next: func(ctx context.Context, limit int) ([]store.Record, error) { return r.Next(ctx, limit+1) }}
		})},
		{"next skips behind a full page", Log, "next returns at most its limit and skips nothing", reading(func(r store.Reader) store.Reader {
			return badReader{Reader: r, next: func(ctx context.Context, limit int) ([]store.Record, error) {
				records, err := r.Next(ctx, limit+1)
				return records[:min(limit, len(records))], err
			}}
		})},
		{"next does not end with its context", Log, "next ends with its context", reading(func(r store.Reader) store.Reader {
			return badReader{Reader: r, next: func(_ context.Context, limit int) ([]store.Record, error) {
				return r.Next(context.Background(), limit)
			}}
		})},
		{"a reader skips what comes while it reads", Log, "no event is skipped under sixteen appenders", reading(func(r store.Reader) store.Reader {
			return badReader{Reader: r, next: func(ctx context.Context, limit int) ([]store.Record, error) {
				records, err := r.Next(ctx, limit)
				return slices.DeleteFunc(records, func(rec store.Record) bool { return rec.Offset%97 == 96 }), err
			}}
		})},
		{"commit does nothing", Log, "a reader opened again starts behind what was committed", reading(func(r store.Reader) store.Reader {
			return badReader{Reader: r, commit: func(context.Context) error { return nil }}
		})},
		{"reading commits", Log, "what was not committed is read again", reading(func(r store.Reader) store.Reader {
			return badReader{Reader: r, next: func(ctx context.Context, limit int) ([]store.Record, error) {
				records, err := r.Next(ctx, limit)
				return records, errors.Join(err, r.Commit(ctx))
			}}
		})},
		{"seeking commits", Log, "a seek is durable only when committed", reading(func(r store.Reader) store.Reader {
			return badReader{Reader: r, seek: func(ctx context.Context, at mayfly.Instant) error {
				return errors.Join(r.Seek(ctx, at), r.Commit(ctx))
			}}
		})},
		{"seek goes behind the instant", Log, "seek moves to the first event at or after the instant", reading(func(r store.Reader) store.Reader {
			return badReader{Reader: r, seek: func(ctx context.Context, at mayfly.Instant) error { return r.Seek(ctx, at+1) }}
		})},
		{"seek goes before the instant", Log, "seek moves to the first event at or after the instant", reading(func(r store.Reader) store.Reader {
			return badReader{Reader: r, seek: func(ctx context.Context, at mayfly.Instant) error { return r.Seek(ctx, at-1000) }}
		})},
		{"seek trusts that instants ascend", Log, "seek finds its place among instants that are out of order", func(m *Model, set *store.Set) {
			set.Log = badLog{Log: set.Log, reader: func(r store.Reader) store.Reader {
				return badReader{Reader: r, seek: func(_ context.Context, at mayfly.Instant) error {
					inner := r.(*modelReader)
					events := m.events[inner.stream]
					inner.at = len(events)
					for inner.at > 0 && events[inner.at-1].At >= at {
						inner.at--
					}
					return nil
				}}
			}}
		}},
		{"lag counts one too many", Log, "lag counts what is waiting", reading(func(r store.Reader) store.Reader {
			return badReader{Reader: r, lag: func(ctx context.Context) (int64, error) {
				n, err := r.Lag(ctx)
				if n > 0 {
					n++
				}
				return n, err
			}}
		})},
	}
}
