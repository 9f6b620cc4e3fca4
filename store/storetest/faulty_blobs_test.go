package storetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskstore"
)

func openTier(t *testing.T) store.Set {
	tier, err := diskstore.Open(diskstore.Options{FS: vfs.NewMem(), Dir: "hot"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tier.Close() })
	return store.Set{Hot: tier}
}

func TestFaultyBlobsFailAsThePlanSays(t *testing.T) {
	set := openTier(t)
	var fault BlobFault
	var ops []string
	faulty := FaultyBlobs(set.Hot, func(c BlobCall) BlobFault {
		ops = append(ops, c.Op)
		return fault
	})
	c := &trial{T: t, ctx: t.Context(), set: set}
	data := content(300_000)
	for _, f := range []struct {
		fault  BlobFault
		stored bool
	}{{NoFault, true}, {Before, false}, {After, true}, {Short, false}, {Slow, false}} {
		fault = f.fault
		key, as := freshBlob(), freshBlob()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if f.fault != Slow {
			ctx = t.Context()
		}
		_, err := faulty.Put(ctx, key, bytes.NewReader(data))
		wantFault(t, f.fault, err)
		if f.stored {
			c.wantBlob(set.Hot, key, data)
			_, err = faulty.CopyTo(ctx, faulty, key, as)
			wantFault(t, f.fault, err)
			c.wantBlob(set.Hot, as, data)
		} else {
			c.wantNoBlob(set.Hot, key)
		}
		err = faulty.Delete(ctx, key, as)
		wantFault(t, f.fault, err)
		if f.stored {
			c.wantNoBlob(set.Hot, key, as)
		}
		cancel()
	}
	if len(ops) != 12 {
		t.Errorf("the plan was called %d times: %q", len(ops), ops)
	}
}

func wantFault(t *testing.T, f BlobFault, err error) {
	t.Helper()
	switch {
	case f == NoFault && err != nil,
		f == Slow && !errors.Is(err, context.DeadlineExceeded),
		f != NoFault && f != Slow && !errors.Is(err, mayfly.Unavailable):
		t.Errorf("fault %d: %v", f, err)
	}
}

func TestAShortReadAndAShortDeleteStopHalfWay(t *testing.T) {
	set := openTier(t)
	c := &trial{T: t, ctx: t.Context(), set: set}
	a, b := freshBlob(), freshBlob()
	c.putBlob(a, content(100_000))
	c.putBlob(b, content(10))
	faulty := FaultyBlobs(set.Hot, func(BlobCall) BlobFault { return Short })
	r, _, err := faulty.Open(t.Context(), a, store.Span{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if !errors.Is(err, mayfly.Unavailable) || len(got) == 0 || len(got) >= 100_000 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	c.must(r.Close())
	if err := faulty.Delete(t.Context(), a, b); !errors.Is(err, mayfly.Unavailable) {
		t.Error(err)
	}
	c.wantNoBlob(set.Hot, a)
	if _, err := set.Hot.Stat(t.Context(), b); err != nil {
		t.Error(err)
	}
}
