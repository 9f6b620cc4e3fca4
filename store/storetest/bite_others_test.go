package storetest

import (
	"bytes"
	"context"
	"io"
	"slices"
	"sync"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func brokenTiers() []breakage {
	hot := func(spoil func(tier store.Blobs) badBlobs) func(*Model, *store.Set) {
		return func(_ *Model, set *store.Set) {
			b := spoil(set.Hot)
			b.Blobs = set.Hot
			set.Hot = b
		}
	}
	return []breakage{
		{"a torn stream is stored", Blobs, "a put whose reader fails leaves the old object or nothing", hot(func(tier store.Blobs) badBlobs {
			return badBlobs{put: func(ctx context.Context, key mayfly.BlobKey, r io.Reader) (store.Object, error) {
				data, torn := io.ReadAll(r)
				o, err := tier.Put(ctx, key, bytes.NewReader(data))
				if torn != nil {
					return o, torn
				}
				return o, err
			}}
		})},
		{"a put hashes what it read first", Blobs, "objects of every size are read back with size and hash", hot(func(tier store.Blobs) badBlobs {
			return badBlobs{put: func(ctx context.Context, key mayfly.BlobKey, r io.Reader) (store.Object, error) {
				o, err := tier.Put(ctx, key, r)
				if o.Size > 1<<20 {
					o.SHA256[0]++
				}
				return o, err
			}}
		})},
		{"a put stops at an empty read", Blobs, "a stream of unknown length in odd pieces is stored whole", hot(func(tier store.Blobs) badBlobs {
			return badBlobs{put: func(ctx context.Context, key mayfly.BlobKey, r io.Reader) (store.Object, error) {
				var data []byte
				for p := make([]byte, 1000); ; {
					n, err := r.Read(p)
					data = append(data, p[:n]...)
					if n == 0 || err != nil {
						return tier.Put(ctx, key, bytes.NewReader(data))
					}
				}
			}}
		})},
		{"a range is one byte long", Blobs, "ranges are read", hot(func(tier store.Blobs) badBlobs {
			return badBlobs{open: func(ctx context.Context, key mayfly.BlobKey, s store.Span) (io.ReadCloser, store.Object, error) {
				if s.Length > 0 {
					s.Length++
				}
				return tier.Open(ctx, key, s)
			}}
		})},
		{"a delete does nothing", Blobs, "a delete removes and is idempotent", hot(func(store.Blobs) badBlobs {
			return badBlobs{del: func(context.Context, ...mayfly.BlobKey) error { return nil }}
		})},
		{"a big delete stops half-way", Blobs, "a delete of a thousand keys, half of them absent", hot(func(tier store.Blobs) badBlobs {
			return badBlobs{del: func(ctx context.Context, keys ...mayfly.BlobKey) error {
				return tier.Delete(ctx, keys[:min(len(keys), 900)]...)
			}}
		})},
		{"a deleted object leaves its readers torn", Blobs, "a reader that is open when the object is deleted may finish", func(_ *Model, set *store.Set) {
			var mu sync.Mutex
			gone := map[mayfly.BlobKey]bool{}
			tier := set.Hot
			set.Hot = badBlobs{Blobs: tier, del: func(ctx context.Context, keys ...mayfly.BlobKey) error {
				mu.Lock()
				defer mu.Unlock()
				for _, key := range keys {
					gone[key] = true
				}
				return tier.Delete(ctx, keys...)
			}, open: func(ctx context.Context, key mayfly.BlobKey, s store.Span) (io.ReadCloser, store.Object, error) {
				r, o, err := tier.Open(ctx, key, s)
				return torn{r, func() bool { mu.Lock(); defer mu.Unlock(); return gone[key] }}, o, err
			}}
		}},
		{"a list is not in order", Blobs, "a list is in byte order, within its bounds and limit", hot(func(tier store.Blobs) badBlobs {
			return badBlobs{list: func(ctx context.Context, from, to mayfly.BlobKey, limit int) ([]store.Listed, error) {
				listed, err := tier.List(ctx, from, to, limit)
				slices.SortFunc(listed, func(a, b store.Listed) int { return int(a.Size - b.Size) })
				return listed, err
			}}
		})},
		{"a copy moves", Blobs, "a copy to another key of the tier is whole and its own", hot(func(tier store.Blobs) badBlobs {
			return badBlobs{copy: func(ctx context.Context, _ store.Blobs, from, as mayfly.BlobKey) (store.Object, error) {
				r, _, err := tier.Open(ctx, from, store.Span{Length: 50})
				if err != nil {
					return store.Object{}, err
				}
				defer r.Close()
				return tier.Put(ctx, as, r)
			}}
		})},
		{"a copy stays in its tier", Blobs, "a copy to the other tier and back is whole", hot(func(tier store.Blobs) badBlobs {
			return badBlobs{copy: func(ctx context.Context, _ store.Blobs, from, as mayfly.BlobKey) (store.Object, error) {
				return tier.CopyTo(ctx, tier, from, as)
			}}
		})},
		{"a bad key is stored under another", Blobs, "a bad key is invalid and writes nothing", hot(func(tier store.Blobs) badBlobs {
			return badBlobs{put: func(ctx context.Context, key mayfly.BlobKey, r io.Reader) (store.Object, error) {
				if key == "../escape" {
					key = "00/escape"
				}
				return tier.Put(ctx, key, r)
			}}
		})},
	}
}

// torn reads until its object is gone.
type torn struct {
	io.ReadCloser
	gone func() bool
}

func (t torn) Read(p []byte) (int, error) {
	if t.gone() {
		return 0, io.ErrUnexpectedEOF
	}
	return t.ReadCloser.Read(p)
}

type takeFunc func(context.Context, string, store.Rate, int, mayfly.Instant) (store.Taken, error)

func (f takeFunc) Take(ctx context.Context, key string, rate store.Rate, cost int, now mayfly.Instant) (store.Taken, error) {
	return f(ctx, key, rate, cost, now)
}

func brokenLimits() []breakage {
	taking := func(spoil func(store.Limits) takeFunc) func(*Model, *store.Set) {
		return func(_ *Model, set *store.Set) { set.Limits = spoil(set.Limits) }
	}
	return []breakage{
		{"nothing is limited", Limits, "a burst up to the count is taken and the next is not", taking(func(store.Limits) takeFunc {
			return func(context.Context, string, store.Rate, int, mayfly.Instant) (store.Taken, error) {
				return store.Taken{OK: true}, nil
			}
		})},
		{"a refusal takes one", Limits, "a refusal takes nothing", taking(func(l store.Limits) takeFunc {
			return func(ctx context.Context, key string, rate store.Rate, cost int, now mayfly.Instant) (store.Taken, error) {
				taken, err := l.Take(ctx, key, rate, cost, now)
				if err == nil && !taken.OK {
					_, _ = l.Take(ctx, key, rate, 1, now)
				}
				return taken, err
			}
		})},
		{"every cost is one", Limits, "a cost counts that many times", taking(func(l store.Limits) takeFunc {
			return func(ctx context.Context, key string, rate store.Rate, _ int, now mayfly.Instant) (store.Taken, error) {
				return l.Take(ctx, key, rate, 1, now)
			}
		})},
		{"all keys are one", Limits, "keys are apart", taking(func(l store.Limits) takeFunc {
			return func(ctx context.Context, _ string, rate store.Rate, cost int, now mayfly.Instant) (store.Taken, error) {
				return l.Take(ctx, "key", rate, cost, now)
			}
		})},
		{"a bucket refills at once", Limits, "a bucket refills evenly", taking(func(l store.Limits) takeFunc {
			return func(ctx context.Context, key string, rate store.Rate, cost int, now mayfly.Instant) (store.Taken, error) {
				rate.Per /= 10
				return l.Take(ctx, key, rate, cost, now)
			}
		})},
	}
}

type badSignals struct {
	store.Signals
	publish   func(context.Context, store.Signal) error
	subscribe func(context.Context, func(store.Signal)) (store.Subscription, error)
}

func (b badSignals) Publish(ctx context.Context, s store.Signal) error {
	if b.publish != nil {
		return b.publish(ctx, s)
	}
	return b.Signals.Publish(ctx, s)
}

func (b badSignals) Subscribe(ctx context.Context, handle func(store.Signal)) (store.Subscription, error) {
	if b.subscribe != nil {
		return b.subscribe(ctx, handle)
	}
	return b.Signals.Subscribe(ctx, handle)
}

// unending is a subscription that does not end.
type unending struct{ store.Subscription }

func (unending) Close() error { return nil }

func brokenSignals() []breakage {
	spoiled := func(spoil func(store.Signals) badSignals) func(*Model, *store.Set) {
		return func(_ *Model, set *store.Set) {
			b := spoil(set.Signals)
			b.Signals = set.Signals
			set.Signals = b
		}
	}
	return []breakage{
		{"publish returns before it has told", Signals, "a signal is handled before publish returns", spoiled(func(inner store.Signals) badSignals {
			var last *store.Signal
			return badSignals{publish: func(ctx context.Context, s store.Signal) error {
				if last != nil {
					_ = inner.Publish(ctx, *last)
				}
				last = &s
				return nil
			}}
		})},
		{"signals come in pairs, turned round", Signals, "signals arrive in order", spoiled(func(inner store.Signals) badSignals {
			var first *store.Signal
			return badSignals{publish: func(ctx context.Context, s store.Signal) error {
				if first == nil {
					first = &s
					return nil
				}
				_ = inner.Publish(ctx, s)
				s, first = *first, nil
				return inner.Publish(ctx, s)
			}}
		})},
		{"a signal forgets its owner", Signals, "a signal arrives whole", spoiled(func(inner store.Signals) badSignals {
			return badSignals{publish: func(ctx context.Context, s store.Signal) error {
				s.Owner = mayfly.UserID{}
				return inner.Publish(ctx, s)
			}}
		})},
		{"a closed subscription goes on", Signals, "a closed subscription is told nothing more and holds no lease", spoiled(func(inner store.Signals) badSignals {
			return badSignals{subscribe: func(ctx context.Context, handle func(store.Signal)) (store.Subscription, error) {
				sub, err := inner.Subscribe(ctx, handle)
				return unending{sub}, err
			}}
		})},
		{"only the last subscriber is told", Signals, "every subscriber is told", spoiled(func(inner store.Signals) badSignals {
			var last int
			return badSignals{subscribe: func(ctx context.Context, handle func(store.Signal)) (store.Subscription, error) {
				last++
				me := last
				return inner.Subscribe(ctx, func(s store.Signal) {
					if me == last {
						handle(s)
					}
				})
			}}
		})},
	}
}
