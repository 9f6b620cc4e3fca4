package storetest

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// BlobFault is how one call of a tier fails.
type BlobFault uint8

// The ways to fail. Errors are Unavailable, and for Slow the context's error.
const (
	NoFault BlobFault = iota
	Before            // an error, and nothing was done
	After             // the call was done, but returns an error
	Short             // Put and CopyTo: the stream ends half-way; Open: the reader does; Delete: half of the keys are deleted
	Slow              // the call blocks until the context ends
)

// BlobCall is one call of a tier as a plan sees it.
type BlobCall struct {
	N    int    // counted from 1
	Op   string // put, open, stat, copy, delete, presign, list
	Keys []mayfly.BlobKey
}

// FaultyBlobs returns tier with the faults that plan chooses; plan is called for one
// call at a time. Faults of the tier's disk are injected into its file system instead.
func FaultyBlobs(tier store.Blobs, plan func(BlobCall) BlobFault) store.Blobs {
	return &faultyBlobs{tier: tier, plan: plan}
}

type faultyBlobs struct {
	tier  store.Blobs
	plan  func(BlobCall) BlobFault
	mu    sync.Mutex
	calls int
}

func lost(op string) error { return mayfly.Errorf(mayfly.Unavailable, "%s: failed by the plan", op) }

// do asks the plan, and does as much of the call as it says.
func (f *faultyBlobs) do(ctx context.Context, op string, whole, half func() error, keys ...mayfly.BlobKey) error {
	f.mu.Lock()
	f.calls++
	fault := f.plan(BlobCall{N: f.calls, Op: op, Keys: keys})
	f.mu.Unlock()
	switch fault {
	case Before:
		return lost(op)
	case Slow:
		<-ctx.Done()
		return ctx.Err()
	case Short:
		return errors.Join(half(), lost(op))
	case After:
		if err := whole(); err != nil {
			return err
		}
		return lost(op)
	default:
		return whole()
	}
}

func nothing() error { return nil }

func (f *faultyBlobs) Put(ctx context.Context, key mayfly.BlobKey, r io.Reader) (o store.Object, err error) {
	err = f.do(ctx, "put", func() (err error) {
		o, err = f.tier.Put(ctx, key, r)
		return err
	}, func() error {
		_, err := f.tier.Put(ctx, key, &breaking{r: r})
		return err
	}, key)
	return o, err
}

// breaking fails after its first read.
type breaking struct {
	r    io.Reader
	read bool
}

func (b *breaking) Read(p []byte) (int, error) {
	if b.read {
		return 0, lost("read")
	}
	b.read = true
	return b.r.Read(p[:(len(p)+1)/2])
}

func (f *faultyBlobs) Open(ctx context.Context, key mayfly.BlobKey, span store.Span) (r io.ReadCloser, o store.Object, err error) {
	open := func() (err error) {
		r, o, err = f.tier.Open(ctx, key, span)
		return err
	}
	short := false
	err = f.do(ctx, "open", open, func() error { short = true; return open() }, key)
	switch {
	case short && r != nil:
		return struct {
			io.Reader
			io.Closer
		}{&breaking{r: r}, r}, o, nil
	case err != nil && r != nil:
		_ = r.Close()
	}
	if err != nil {
		return nil, store.Object{}, err
	}
	return r, o, nil
}

func (f *faultyBlobs) Stat(ctx context.Context, key mayfly.BlobKey) (o store.Object, err error) {
	err = f.do(ctx, "stat", func() (err error) {
		o, err = f.tier.Stat(ctx, key)
		return err
	}, nothing, key)
	return o, err
}

// CopyTo passes the driver the other tier without its wrapper, so that the driver can
// copy in its own way.
func (f *faultyBlobs) CopyTo(ctx context.Context, to store.Blobs, from, as mayfly.BlobKey) (o store.Object, err error) {
	if other, ok := to.(*faultyBlobs); ok {
		to = other.tier
	}
	err = f.do(ctx, "copy", func() (err error) {
		o, err = f.tier.CopyTo(ctx, to, from, as)
		return err
	}, func() error {
		r, _, err := f.tier.Open(ctx, from, store.Span{})
		if err != nil {
			return err
		}
		_, err = to.Put(ctx, as, &breaking{r: r})
		return errors.Join(err, r.Close())
	}, from, as)
	return o, err
}

func (f *faultyBlobs) Delete(ctx context.Context, keys ...mayfly.BlobKey) error {
	return f.do(ctx, "delete", func() error { return f.tier.Delete(ctx, keys...) },
		func() error { return f.tier.Delete(ctx, keys[:len(keys)/2]...) }, keys...)
}

func (f *faultyBlobs) PresignGet(ctx context.Context, key mayfly.BlobKey, lasts time.Duration) (url string, err error) {
	err = f.do(ctx, "presign", func() (err error) {
		url, err = f.tier.PresignGet(ctx, key, lasts)
		return err
	}, nothing, key)
	return url, err
}

func (f *faultyBlobs) PresignPut(ctx context.Context, key mayfly.BlobKey, length int64, lasts time.Duration) (url string, err error) {
	err = f.do(ctx, "presign", func() (err error) {
		url, err = f.tier.PresignPut(ctx, key, length, lasts)
		return err
	}, nothing, key)
	return url, err
}

func (f *faultyBlobs) List(ctx context.Context, from, to mayfly.BlobKey, limit int) (listed []store.Listed, err error) {
	err = f.do(ctx, "list", func() (err error) {
		listed, err = f.tier.List(ctx, from, to, limit)
		return err
	}, nothing, from, to)
	return listed, err
}
