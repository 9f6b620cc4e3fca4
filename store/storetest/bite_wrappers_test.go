package storetest

import (
	"context"
	"io"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// The wrappers below are whole but for the functions that are set.

type commitFunc func(context.Context, *store.Batch) error

func (f commitFunc) Commit(ctx context.Context, b *store.Batch) error { return f(ctx, b) }

type badLedger struct {
	store.Ledger
	get        func(context.Context, ...mayfly.ID) ([]store.Found, error)
	body       func(context.Context, ...mayfly.ID) ([]store.FoundBody, error)
	transition func(context.Context, []mayfly.Change) ([]store.Outcome, error)
	walk       func(context.Context, store.Stretch, int) ([]mayfly.Item, error)
	eternal    func(context.Context, mayfly.Shard, mayfly.ID, int) ([]mayfly.Item, error)
	nextMinute func(context.Context, mayfly.Shard, mayfly.Minute) (mayfly.Minute, bool, error)
	remove     func(context.Context, ...mayfly.ID) error
	eraseBody  func(context.Context, ...mayfly.ID) error
}

func (b badLedger) Get(ctx context.Context, ids ...mayfly.ID) ([]store.Found, error) {
	if b.get != nil {
		return b.get(ctx, ids...)
	}
	return b.Ledger.Get(ctx, ids...)
}

func (b badLedger) Body(ctx context.Context, ids ...mayfly.ID) ([]store.FoundBody, error) {
	if b.body != nil {
		return b.body(ctx, ids...)
	}
	return b.Ledger.Body(ctx, ids...)
}

func (b badLedger) Transition(ctx context.Context, c []mayfly.Change) ([]store.Outcome, error) {
	if b.transition != nil {
		return b.transition(ctx, c)
	}
	return b.Ledger.Transition(ctx, c)
}

func (b badLedger) Walk(ctx context.Context, s store.Stretch, limit int) ([]mayfly.Item, error) {
	if b.walk != nil {
		return b.walk(ctx, s, limit)
	}
	return b.Ledger.Walk(ctx, s, limit)
}

func (b badLedger) Eternal(ctx context.Context, shard mayfly.Shard, after mayfly.ID, limit int) ([]mayfly.Item, error) {
	if b.eternal != nil {
		return b.eternal(ctx, shard, after, limit)
	}
	return b.Ledger.Eternal(ctx, shard, after, limit)
}

func (b badLedger) NextMinute(ctx context.Context, shard mayfly.Shard, from mayfly.Minute) (mayfly.Minute, bool, error) {
	if b.nextMinute != nil {
		return b.nextMinute(ctx, shard, from)
	}
	return b.Ledger.NextMinute(ctx, shard, from)
}

func (b badLedger) EraseBody(ctx context.Context, ids ...mayfly.ID) error {
	if b.eraseBody != nil {
		return b.eraseBody(ctx, ids...)
	}
	return b.Ledger.EraseBody(ctx, ids...)
}

func (b badLedger) Remove(ctx context.Context, ids ...mayfly.ID) error {
	if b.remove != nil {
		return b.remove(ctx, ids...)
	}
	return b.Ledger.Remove(ctx, ids...)
}

type badRows struct {
	store.Rows
	get  func(context.Context, store.Table, ...store.Key) ([][]byte, error)
	rang func(context.Context, store.Table, store.Range) ([]store.Row, error)
	swap func(context.Context, store.Table, store.Key, []byte, []byte) (bool, []byte, error)
}

func (b badRows) Get(ctx context.Context, t store.Table, keys ...store.Key) ([][]byte, error) {
	if b.get != nil {
		return b.get(ctx, t, keys...)
	}
	return b.Rows.Get(ctx, t, keys...)
}

func (b badRows) Range(ctx context.Context, t store.Table, r store.Range) ([]store.Row, error) {
	if b.rang != nil {
		return b.rang(ctx, t, r)
	}
	return b.Rows.Range(ctx, t, r)
}

func (b badRows) Swap(ctx context.Context, t store.Table, key store.Key, old, next []byte, at mayfly.Instant) (bool, []byte, error) {
	if b.swap != nil {
		return b.swap(ctx, t, key, old, next)
	}
	return b.Rows.Swap(ctx, t, key, old, next, at)
}

type badLog struct {
	store.Log
	append func(context.Context, ...mayfly.Event) error
	reader func(store.Reader) store.Reader
	stream func(mayfly.Stream) mayfly.Stream
	trim   func(mayfly.Instant, time.Duration)
}

func (b badLog) Append(ctx context.Context, events ...mayfly.Event) error {
	if b.append != nil {
		return b.append(ctx, events...)
	}
	return b.Log.Append(ctx, events...)
}

func (b badLog) Reader(ctx context.Context, s mayfly.Stream, group string) (store.Reader, error) {
	if b.stream != nil {
		s = b.stream(s)
	}
	r, err := b.Log.Reader(ctx, s, group)
	if err == nil && b.reader != nil {
		r = b.reader(r)
	}
	return r, err
}

func (b badLog) Trim(ctx context.Context, now mayfly.Instant, keep time.Duration) error {
	if b.trim != nil {
		b.trim(now, keep)
	}
	return b.Log.Trim(ctx, now, keep)
}

type badReader struct {
	store.Reader
	next   func(context.Context, int) ([]store.Record, error)
	commit func(context.Context) error
	seek   func(context.Context, mayfly.Instant) error
	lag    func(context.Context) (int64, error)
}

func (b badReader) Next(ctx context.Context, limit int) ([]store.Record, error) {
	if b.next != nil {
		return b.next(ctx, limit)
	}
	return b.Reader.Next(ctx, limit)
}

func (b badReader) Commit(ctx context.Context) error {
	if b.commit != nil {
		return b.commit(ctx)
	}
	return b.Reader.Commit(ctx)
}

func (b badReader) Seek(ctx context.Context, at mayfly.Instant) error {
	if b.seek != nil {
		return b.seek(ctx, at)
	}
	return b.Reader.Seek(ctx, at)
}

func (b badReader) Lag(ctx context.Context) (int64, error) {
	if b.lag != nil {
		return b.lag(ctx)
	}
	return b.Reader.Lag(ctx)
}

type badBlobs struct {
	store.Blobs
	put  func(context.Context, mayfly.BlobKey, io.Reader) (store.Object, error)
	open func(context.Context, mayfly.BlobKey, store.Span) (io.ReadCloser, store.Object, error)
	copy func(context.Context, store.Blobs, mayfly.BlobKey, mayfly.BlobKey) (store.Object, error)
	del  func(context.Context, ...mayfly.BlobKey) error
	list func(context.Context, mayfly.BlobKey, mayfly.BlobKey, int) ([]store.Listed, error)
}

func (b badBlobs) Put(ctx context.Context, key mayfly.BlobKey, r io.Reader) (store.Object, error) {
	if b.put != nil {
		return b.put(ctx, key, r)
	}
	return b.Blobs.Put(ctx, key, r)
}

func (b badBlobs) Open(ctx context.Context, key mayfly.BlobKey, s store.Span) (io.ReadCloser, store.Object, error) {
	if b.open != nil {
		return b.open(ctx, key, s)
	}
	return b.Blobs.Open(ctx, key, s)
}

func (b badBlobs) CopyTo(ctx context.Context, to store.Blobs, from, as mayfly.BlobKey) (store.Object, error) {
	if b.copy != nil {
		return b.copy(ctx, to, from, as)
	}
	return b.Blobs.CopyTo(ctx, to, from, as)
}

func (b badBlobs) Delete(ctx context.Context, keys ...mayfly.BlobKey) error {
	if b.del != nil {
		return b.del(ctx, keys...)
	}
	return b.Blobs.Delete(ctx, keys...)
}

func (b badBlobs) List(ctx context.Context, from, to mayfly.BlobKey, limit int) ([]store.Listed, error) {
	if b.list != nil {
		return b.list(ctx, from, to, limit)
	}
	return b.Blobs.List(ctx, from, to, limit)
}
