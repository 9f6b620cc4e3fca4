package s3store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
)

// slowBody is the body of a client that sends some bytes at once and the last one
// only when it is let go.
type slowBody struct {
	first   io.Reader
	waiting chan<- struct{} // receives when the first bytes are read
	rest    <-chan struct{} // closed: let go
}

func slow(size int, waiting chan<- struct{}, rest <-chan struct{}) *slowBody {
	return &slowBody{first: bytes.NewReader(make([]byte, size-1)), waiting: waiting, rest: rest}
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.first != nil {
		n, err := b.first.Read(p)
		if err == nil {
			return n, nil
		}
		b.first = nil
		b.waiting <- struct{}{}
		<-b.rest
		return 1, nil
	}
	return 0, io.EOF
}

// Slots are for parts that are being sent: clients that send slowly hold none.
func TestSlowUploadsDoNotStopOthers(t *testing.T) {
	o := quick(fakeServer(t))
	o.Parts, o.CopyBytes = 2, maxSingle // the fake server copies no parts
	s := connect(t, o)
	hot := tier(t, s, TierOptions{Bucket: freshBucket(t, s)})
	waiting, rest, done := make(chan struct{}), make(chan struct{}), make(chan error)
	sizes := []int{128 * kibibyte, minPart, minPart + 100, 2*minPart + 100}
	for _, size := range sizes {
		go func() {
			_, err := hot.Put(context.WithoutCancel(t.Context()), freshKey(), slow(size, waiting, rest))
			done <- err
		}()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range sizes {
		select {
		case <-waiting:
		case <-ctx.Done():
			t.Error("slow uploads wait for each other")
		}
	}
	for _, size := range []int{100 * kibibyte, minPart + 1} {
		key, data := freshKey(), noise(seeded(t), size)
		if _, err := hot.Put(ctx, key, bytes.NewReader(data)); err != nil {
			t.Errorf("%d bytes beside slow uploads: %v", size, err)
			continue
		}
		wantContent(t, hot, key, data)
	}
	close(rest)
	for range sizes {
		select {
		case <-waiting:
			t.Error("an upload waited for the others")
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// A part that is whole waits for a bounded time only, and what waits to be whole is
// bounded too. Both give back what they took.
func TestWhatAnUploadWaitsForIsBounded(t *testing.T) {
	o := quick(fakeServer(t))
	o.Parts, o.SlotWait, o.SpoolBytes = 1, 20*time.Millisecond, minPart
	o.SpoolDir = t.TempDir()
	s := connect(t, o)
	hot := tier(t, s, TierOptions{Bucket: freshBucket(t, s)})
	small := func() error {
		_, err := hot.Put(t.Context(), freshKey(), bytes.NewReader(make([]byte, 2*headBytes)))
		return err
	}
	wantHint := func(err error) {
		t.Helper()
		wantKind(t, mayfly.Unavailable, err)
		if e := (*mayfly.Error)(nil); !errors.As(err, &e) || e.Hint == "" {
			t.Errorf("%v has no hint", err)
		}
	}
	s.slots <- struct{}{}
	wantHint(small())
	<-s.slots

	waiting, rest, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_, err := hot.Put(t.Context(), freshKey(), slow(minPart, waiting, rest))
		done <- err
	}()
	<-waiting
	wantHint(small())
	close(rest)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := small(); err != nil {
		t.Error(err)
	}
	if len(s.slots) != 0 || s.spool.used.Load() != 0 {
		t.Errorf("%d slots and %d spooled bytes were not given back", len(s.slots), s.spool.used.Load())
	}
	if left, err := os.ReadDir(o.SpoolDir); err != nil || len(left) != 0 {
		t.Errorf("%v are left in the spool, %v", left, err)
	}
}
