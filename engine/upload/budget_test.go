package upload_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// author reserves uploads of one medium each.
type author struct {
	*fixture.Engine
	uploads *upload.Uploads
	id      mayfly.UserID
}

func (a author) reserve(bytes int64, now mayfly.Instant) (mayfly.ID, error) {
	r, err := a.uploads.Reserve(context.Background(), a.id, []upload.Expected{{Length: bytes}}, now)
	return r.Upload, err
}

// wantOver checks that the author may not reserve these bytes, with a hint.
func (a author) wantOver(bytes int64, now mayfly.Instant, wait time.Duration) {
	a.Helper()
	_, err := a.reserve(bytes, now)
	var e *mayfly.Error
	var over upload.OverBudget
	if !errors.Is(err, mayfly.Limited) || !errors.As(err, &e) || e.Hint == "" || !errors.As(err, &over) || over.RetryAfter() != wait {
		a.Errorf("%d bytes more: %v, want Limited with a hint and %s to wait", bytes, err, wait)
	}
}

func (a author) must(bytes int64, now mayfly.Instant) mayfly.ID {
	a.Helper()
	id, err := a.reserve(bytes, now)
	a.Must(err)
	return id
}

func TestWhatAnAuthorHasReservedAndNotPublishedIsBounded(t *testing.T) {
	o := upload.Options{MaxOpen: 3, MaxUnpublished: 1000}
	for name, size := range map[string]int64{"in number": 10, "in bytes": 333} {
		t.Run(name, func(t *testing.T) {
			e := fixture.Open(t)
			a, others := author{e, e.Uploads(o), ana}, author{e, e.Uploads(o), ben}
			first := a.must(size, start)
			second := a.must(size, start.Add(time.Hour))
			a.must(size, start.Add(time.Hour))
			now := start.Add(2 * time.Hour)
			a.wantOver(size, now, 22*time.Hour)
			others.must(size, now)
			a.uploads = e.Uploads(o) // a restart, or another node
			a.wantOver(size, now, 22*time.Hour)

			e.Must(a.uploads.Published(t.Context(), ana, second, now))
			a.must(size, now)
			a.wantOver(size, now, 22*time.Hour)
			a.wantOver(size, first.Deadline().Add(-time.Millisecond), time.Millisecond)
			a.must(size, first.Deadline())
			a.wantOver(size, first.Deadline(), time.Hour)
		})
	}
	e := fixture.Open(t)
	a := author{e, e.Uploads(o), ana}
	if _, err := a.reserve(1001, start); !errors.Is(err, mayfly.TooLarge) { // waiting would not help
		t.Errorf("more than the whole budget: %v, want TooLarge", err)
	}
	a.must(1000, start)
}

func TestConcurrentReservationsKeepToTheBudget(t *testing.T) {
	e := fixture.Open(t)
	o := upload.Options{MaxOpen: 10, MaxUnpublished: 1 << 20}
	nodes := []author{{e, e.Uploads(o), ana}, {e, e.Uploads(o), ana}}
	var accepted, refused atomic.Int64
	var wait sync.WaitGroup
	for i := range 40 {
		wait.Go(func() {
			_, err := nodes[i%2].reserve(100, start)
			for errors.Is(err, mayfly.Unavailable) { // the row was changed by others many times in a row
				_, err = nodes[i%2].reserve(100, start)
			}
			switch {
			case err == nil:
				accepted.Add(1)
			case errors.Is(err, mayfly.Limited):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if accepted.Load() != 10 || refused.Load() != 30 {
		t.Errorf("%d accepted, %d refused, want 10 and 30", accepted.Load(), refused.Load())
	}
}

// A client that holds a presigned URL can still put bytes, whatever became of the
// reservation.
func TestAnUploadWithPresignedURLsCountsUntilTheyEnd(t *testing.T) {
	e := fixture.Open(t)
	e.Set.Hot = signing{e.Set.Hot}
	a := author{e, e.Uploads(upload.Options{MaxOpen: 1}), ana}
	r, err := a.uploads.Reserve(t.Context(), ana, fixture.Expect(1), start)
	e.Must(err)
	urls, err := a.uploads.PresignPuts(t.Context(), ana, r, start)
	e.Must(err)
	e.Must(a.uploads.Published(t.Context(), ana, r.Upload, start))
	a.wantOver(1, urls[0].Until-1, 24*time.Hour-(urls[0].Until-1).Sub(start))
	a.must(1, urls[0].Until)
}

func TestNoURLIsHandedOutThatTheReservationDoesNotNote(t *testing.T) {
	r := reserve(t, 1, upload.Options{})
	r.Set.Hot = signing{r.Set.Hot}
	uploads := r.Uploads(upload.Options{})
	r.Hooks.Swap = func(context.Context, store.Table, store.Key, fixture.Swap) (bool, []byte, error) {
		return false, nil, mayfly.Errorf(mayfly.Unavailable, "away")
	}
	if urls, err := uploads.PresignPuts(t.Context(), ana, r.Reservation, start); !errors.Is(err, mayfly.Unavailable) || urls[0].URL != "" {
		t.Errorf("%+v, %v", urls, err)
	}
}

// The entry is written first: a request that fails after it, or is still under way,
// counts for ten minutes.
func TestAReservationThatWasNotWrittenStopsCounting(t *testing.T) {
	e := fixture.Open(t)
	a := author{e, e.Uploads(upload.Options{MaxOpen: 1}), ana}
	e.Hooks.Swap = func(_ context.Context, table store.Table, _ store.Key, do fixture.Swap) (bool, []byte, error) {
		if table == upload.Reservations {
			return false, nil, mayfly.Errorf(mayfly.Unavailable, "away")
		}
		return do()
	}
	if _, err := a.reserve(1, start); !errors.Is(err, mayfly.Unavailable) {
		t.Fatal(err)
	}
	e.Hooks.Swap = nil
	a.wantOver(1, start.Add(10*time.Minute-1*time.Millisecond), 24*time.Hour-10*time.Minute+time.Millisecond)
	a.must(1, start.Add(10*time.Minute))
}

func TestAMediumHasTheLengthThatWasReserved(t *testing.T) {
	photo := fixture.Padded(fixture.Photo(t, 1))
	for name, c := range map[string]struct {
		sent []byte
		says string
	}{
		"longer":    {append(photo[:len(photo):len(photo)], 0), "more bytes than the 4096"},
		"shorter":   {photo[:len(photo)-1], "fewer bytes than the 4096"},
		"empty":     {nil, "fewer bytes than the 4096"},
		"as agreed": {photo, ""},
	} {
		for way, reader := range map[string]func([]byte) io.Reader{
			"at once":            func(b []byte) io.Reader { return bytes.NewReader(b) },
			"byte by byte":       func(b []byte) io.Reader { return iotest.OneByteReader(bytes.NewReader(b)) },
			"end with the bytes": func(b []byte) io.Reader { return iotest.DataErrReader(bytes.NewReader(b)) },
		} {
			r := reserve(t, 1, upload.Options{})
			for range 2 { // the second time it may have arrived before
				_, err := r.put(0, reader(c.sent))
				if (err == nil) != (c.says == "") || err != nil && (!errors.Is(err, mayfly.Invalid) || !strings.Contains(err.Error(), c.says)) {
					t.Errorf("%s, %s: %v", name, way, err)
				}
			}
			if stored := r.Objects(r.Real.Hot); len(stored) > 0 != (c.says == "") {
				t.Errorf("%s, %s: stored %v", name, way, stored)
			}
		}
	}
}

func TestAMediumThatWouldBeRefusedIsNotReserved(t *testing.T) {
	u := fixture.Open(t).Uploads(upload.Options{})
	const image, video = 20 << 20, 64 << 20
	for _, c := range []struct {
		expected upload.Expected
		want     error
	}{
		{upload.Expected{Length: video}, nil},
		{upload.Expected{Type: "image/jpeg", Length: image}, nil},
		{upload.Expected{Type: "video/quicktime", Length: video}, nil},
		{upload.Expected{Length: 0}, mayfly.Invalid},
		{upload.Expected{Length: -1}, mayfly.Invalid},
		{upload.Expected{Length: video + 1}, mayfly.TooLarge},
		{upload.Expected{Type: "image/jpeg", Length: image + 1}, mayfly.TooLarge},
		{upload.Expected{Type: "video/mp4", Length: video + 1}, mayfly.TooLarge},
		{upload.Expected{Type: "image/tiff", Length: 1}, mayfly.Unsupported},
	} {
		_, err := u.Reserve(t.Context(), ana, []upload.Expected{{Length: 1}, c.expected}, start)
		if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), "medium 1") {
			t.Errorf("%+v: %v, want %v", c.expected, err, c.want)
		}
	}
}
