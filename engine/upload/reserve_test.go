package upload_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// reservation is an upload of Ana's whose media arrive one by one.
type reservation struct {
	*fixture.Engine
	uploads *upload.Uploads
	upload.Reservation
	id mayfly.ID
}

func reserve(t *testing.T, media int, o upload.Options) *reservation {
	t.Helper()
	e := fixture.Open(t)
	r := &reservation{Engine: e, uploads: e.Uploads(o)}
	var err error
	r.Reservation, err = r.uploads.Reserve(t.Context(), ana, fixture.Expect(media), start)
	e.Must(err)
	r.id = r.Reservation.Upload
	return r
}

func (r *reservation) put(n int, content io.Reader) (mayfly.Medium, error) {
	return r.uploads.Put(context.Background(), ana, r.id, n, content, start)
}

func (r *reservation) photo(shade byte) io.Reader {
	return bytes.NewReader(fixture.Padded(fixture.Photo(r, shade)))
}

func (r *reservation) claim(key string) (*upload.Upload, error) {
	return r.uploads.Claim(context.Background(), ana, r.id, key, func() (bool, error) { return false, nil }, start)
}

func TestReservedMediaArriveInAnyOrderAndAreClaimedTogether(t *testing.T) {
	r := reserve(t, 3, upload.Options{})
	stored := make([]mayfly.Medium, 3)
	for _, n := range []int{2, 0, 1} {
		if _, err := r.claim("k"); !errors.Is(err, mayfly.Conflict) {
			t.Errorf("claimed before medium %d has arrived: %v", n, err)
		}
		var err error
		stored[n], err = r.put(n, r.photo(byte(n)))
		r.Must(err)
	}
	u, err := r.claim("k")
	r.Must(err)
	if u.ID != r.id || !slices.Equal(u.Media(), stored) || stored[0].Width != 64 || stored[0] == stored[1] {
		t.Errorf("%s: %+v, want %+v", u.ID, u.Media(), stored)
	}
	for n, medium := range stored {
		in, err := upload.Open(t.Context(), r.Real.Hot, mayfly.UploadKey(u.ID, n), medium, store.Span{})
		r.Must(err)
		_, err = io.Copy(io.Discard, in)
		r.Must(errors.Join(err, in.Close()))
	}
}

func TestAMediumSentAgainIsTheSameAndNeverAnother(t *testing.T) {
	// The first answer arrives, or it is lost after the bytes or after the row were written.
	for name, lose := range map[string]func(*fixture.Hooks){
		"answered": func(*fixture.Hooks) {},
		"the object landed": func(h *fixture.Hooks) {
			h.Hot.Put = func(_ context.Context, _ mayfly.BlobKey, do func() (store.Object, error)) (store.Object, error) {
				_, err := do()
				return store.Object{}, errors.Join(err, mayfly.Errorf(mayfly.Unknown, "the answer was lost"))
			}
		},
		"the row landed": func(h *fixture.Hooks) {
			swaps := 0
			h.Swap = func(_ context.Context, _ store.Table, _ store.Key, do fixture.Swap) (bool, []byte, error) {
				swapped, current, err := do()
				if swaps++; swaps%2 == 1 {
					return false, nil, errors.Join(err, mayfly.Errorf(mayfly.Unknown, "the answer was lost"))
				}
				return swapped, current, err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := reserve(t, 1, upload.Options{})
			lose(r.Hooks)
			first, err := r.put(0, r.photo(1))
			if lost := name == "the object landed"; lost != (err != nil) {
				t.Fatalf("%+v, %v", first, err)
			}
			r.Hooks.Hot.Put, r.Hooks.Swap = nil, nil
			if _, err := r.put(0, r.photo(2)); !errors.Is(err, mayfly.Conflict) {
				t.Errorf("other bytes: %v", err)
			}
			again, err := r.put(0, r.photo(1))
			if err != nil || again.Width != 64 || first.Size > 0 && again != first {
				t.Errorf("%+v, %v", again, err)
			}
			torn := errors.New("torn off")
			if _, err := r.put(0, io.MultiReader(r.photo(1), iotest.ErrReader(torn))); !errors.Is(err, torn) {
				t.Errorf("torn off: %v", err)
			}
			if _, err := r.put(0, r.photo(2)); !errors.Is(err, mayfly.Conflict) {
				t.Errorf("other bytes: %v", err)
			}
			object, err := r.Real.Hot.Stat(t.Context(), mayfly.UploadKey(r.id, 0))
			if err != nil || object.SHA256 != again.SHA256 {
				t.Errorf("%+v, %v", object, err)
			}
		})
	}
}

func TestAMediumThatFailedCanBeSentAgain(t *testing.T) {
	r := reserve(t, 1, upload.Options{})
	torn := errors.New("torn off")
	for want, content := range map[error]io.Reader{
		mayfly.Invalid:     bytes.NewReader(fixture.Padded(fixture.Photo(t, 1)[:300])),
		mayfly.Unsupported: bytes.NewReader(fixture.Padded([]byte("a page"))),
		torn:               io.MultiReader(bytes.NewReader(fixture.Photo(t, 1)[:300]), iotest.ErrReader(torn)),
	} {
		if _, err := r.put(0, content); !errors.Is(err, want) {
			t.Errorf("%v: %v", want, err)
		}
		if left := r.Objects(r.Real.Hot); len(left) > 0 {
			t.Errorf("%v: stored %v", want, left)
		}
	}
	if _, err := r.put(0, r.photo(1)); err != nil {
		t.Error(err)
	}
}

// What is refused again and again is not accepted for ever; a storage that is away
// counts for nothing.
func TestAMediumIsSentInVainABoundedNumberOfTimes(t *testing.T) {
	r := reserve(t, 2, upload.Options{})
	r.Hooks.Hot.Put = func(context.Context, mayfly.BlobKey, func() (store.Object, error)) (store.Object, error) {
		return store.Object{}, mayfly.Errorf(mayfly.Unavailable, "the storage is away")
	}
	for range 30 {
		if _, err := r.put(0, r.photo(1)); !errors.Is(err, mayfly.Unavailable) {
			t.Fatal(err)
		}
	}
	r.Hooks.Hot.Put = nil
	refused := 0
	for ; refused < 30; refused++ {
		_, err := r.put(0, bytes.NewReader(fixture.Padded([]byte("a page"))))
		if errors.Is(err, mayfly.Conflict) {
			break
		}
		if !errors.Is(err, mayfly.Unsupported) {
			t.Fatal(err)
		}
	}
	if _, err := r.put(0, r.photo(1)); refused != 10 || !errors.Is(err, mayfly.Conflict) {
		t.Errorf("after %d refusals: %v", refused, err)
	}
	_, err := r.put(1, r.photo(1)) // the other medium has tries of its own
	r.Must(err)
}

// onRead calls do before its first Read.
type onRead struct {
	io.Reader
	do func()
}

func (o *onRead) Read(p []byte) (int, error) {
	if o.do != nil {
		do := o.do
		o.do = nil
		do()
	}
	return o.Reader.Read(p)
}

func TestOneRequestAtATimeStoresAMedium(t *testing.T) {
	r := reserve(t, 2, upload.Options{})
	var same, other error
	_, err := r.put(0, &onRead{r.photo(1), func() {
		_, same = r.put(0, r.photo(2))
		_, other = r.put(1, r.photo(2))
	}})
	if err != nil || !errors.Is(same, mayfly.Conflict) || other != nil {
		t.Errorf("%v; the same medium meanwhile %v; another one %v", err, same, other)
	}
}

func TestAReservationBelongsToItsOwner(t *testing.T) {
	r := reserve(t, 2, upload.Options{})
	at := func(owner mayfly.UserID, id mayfly.ID, n int, now mayfly.Instant) error {
		_, err := r.uploads.Put(t.Context(), owner, id, n, r.photo(1), now)
		return err
	}
	late := r.Deadline
	for name, c := range map[string]struct {
		got, want error
	}{
		"another user":  {at(ben, r.id, 0, start), mayfly.NotFound},
		"no user":       {at(mayfly.UserID{}, r.id, 0, start), mayfly.NotFound},
		"no upload":     {at(ana, e2(r.uploads.Begin(ana, start)).ID, 0, start), mayfly.NotFound},
		"medium -1":     {at(ana, r.id, -1, start), mayfly.NotFound},
		"medium 2 of 2": {at(ana, r.id, 2, start), mayfly.NotFound},
		"too late":      {at(ana, r.id, 0, late), mayfly.Gone},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	if stored := r.Objects(r.Real.Hot); len(stored) > 0 {
		t.Errorf("stored %v", stored)
	}
	for _, count := range []int{0, 11} {
		if _, err := r.uploads.Reserve(t.Context(), ana, fixture.Expect(count), start); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%d media: %v", count, err)
		}
	}
}

func e2(u *upload.Upload, err error) *upload.Upload {
	if err != nil {
		panic(err)
	}
	return u
}

// signing is a tier whose presigned URLs tell what they are for.
type signing struct{ store.Blobs }

func (s signing) PresignPut(_ context.Context, key mayfly.BlobKey, length int64, lasts time.Duration) (string, error) {
	return fmt.Sprintf("%s %d bytes %s", key, length, lasts), nil
}

func TestAPresignedPutLastsAQuarterOfAnHourAndNotPastItsUpload(t *testing.T) {
	e := fixture.Open(t)
	e.Set.Hot = signing{e.Set.Hot}
	uploads := e.Uploads(upload.Options{Life: fixture.Lifetime(t, time.Hour)})
	r, err := uploads.Reserve(t.Context(), ana, fixture.Expect(5), start) // 345 ms into a second
	e.Must(err)
	for _, c := range []struct {
		now   mayfly.Instant
		lasts time.Duration // 0: none
	}{
		{start, 15 * time.Minute},
		{r.Deadline.Add(-15 * time.Minute), 15 * time.Minute},
		{r.Deadline.Add(-15*time.Minute + time.Millisecond), 15*time.Minute - time.Second},
		{r.Deadline.Add(-1999 * time.Millisecond), time.Second},
		{r.Deadline.Add(-999 * time.Millisecond), 0},
		{r.Deadline, 0},
		{r.Deadline.Add(time.Hour), 0},
	} {
		all, err := uploads.PresignPuts(t.Context(), ana, r, c.now)
		e.Must(err)
		got, want := all[4], ""
		if c.lasts > 0 {
			want = fmt.Sprintf("%s 4096 bytes %s", mayfly.RawKey(r.Upload, 4), c.lasts)
		}
		if got.URL != want {
			t.Errorf("at %s: %q, want %q", c.now, got.URL, want)
		}
		if want != "" && (got.Until%1000 != 0 || got.Until > r.Deadline || got.Until > c.now.Add(c.lasts) || got.Until <= c.now.Add(c.lasts-time.Second)) {
			t.Errorf("at %s: good until %s", c.now, got.Until)
		}
	}
}

func TestATierWithoutURLsHasNoneToPutTo(t *testing.T) {
	r := reserve(t, 1, upload.Options{})
	if urls, err := r.uploads.PresignPuts(t.Context(), ana, r.Reservation, start); err != nil || urls[0].URL != "" {
		t.Errorf("%+v, %v", urls, err)
	}
}

func TestErasingTheReservationsOfAUserErasesTheirMedia(t *testing.T) {
	r := reserve(t, 3, upload.Options{})
	for n := range 2 {
		_, err := r.put(n, r.photo(byte(n)))
		r.Must(err)
	}
	_, err := r.Real.Hot.Put(t.Context(), mayfly.RawKey(r.id, 2), r.photo(2)) // put to a presigned URL
	r.Must(err)
	others, err := r.uploads.Reserve(t.Context(), ben, fixture.Expect(1), start)
	r.Must(err)
	_, err = r.uploads.Put(t.Context(), ben, others.Upload, 0, r.photo(9), start)
	r.Must(err)
	// A published upload belongs to its item, which is erased on its own.
	published, err := r.uploads.Reserve(t.Context(), ana, fixture.Expect(1), start)
	r.Must(err)
	_, err = r.uploads.Put(t.Context(), ana, published.Upload, 0, r.photo(8), start)
	r.Must(err)
	var b store.Batch
	b.Put(engine.Uploads, engine.UploadKey(published.Upload), make([]byte, 16), 0)
	r.Must(r.Real.Writer.Commit(t.Context(), &b))

	rows, objects, err := upload.EraseOf(t.Context(), r.Set, ana)
	if err != nil || rows != 2 || objects != 3 {
		t.Errorf("%d rows, %d objects, %v", rows, objects, err)
	}
	want := []mayfly.BlobKey{mayfly.UploadKey(others.Upload, 0), mayfly.UploadKey(published.Upload, 0)}
	slices.Sort(want)
	if left := r.Objects(r.Real.Hot); !slices.Equal(left, want) || len(r.Partition(upload.Reservations, string(ana[:]))) > 0 {
		t.Errorf("left %v, want %v", left, want)
	}
	if rows, objects, err := upload.EraseOf(t.Context(), r.Set, ana); err != nil || rows+objects != 0 {
		t.Errorf("again: %d rows, %d objects, %v", rows, objects, err)
	}
}

func TestAMediumThatArrivesWhileItsReservationIsErasedIsErasedToo(t *testing.T) {
	for name, lost := range map[string]bool{"answered": false, "the answer is lost": true} {
		t.Run(name, func(t *testing.T) {
			r := reserve(t, 2, upload.Options{})
			_, err := r.put(0, r.photo(0))
			r.Must(err)
			arrived := false
			r.Hooks.Swap = func(_ context.Context, _ store.Table, _ store.Key, do fixture.Swap) (bool, []byte, error) {
				if !arrived {
					arrived = true
					hook := r.Hooks.Swap
					r.Hooks.Swap = nil
					_, err := r.put(1, r.photo(1))
					r.Must(err)
					r.Hooks.Swap = hook
				}
				swapped, current, err := do()
				if lost {
					return false, nil, errors.Join(err, mayfly.Errorf(mayfly.Unknown, "the answer was lost"))
				}
				return swapped, current, err
			}
			rows, objects, err := upload.EraseOf(t.Context(), r.Set, ana)
			if err != nil || rows != 1 || objects != 2 || !arrived {
				t.Errorf("%d rows, %d objects, %v", rows, objects, err)
			}
			if left := r.Objects(r.Real.Hot); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

func TestAMediumThatIsStoredAfterItsReservationWasErasedIsErased(t *testing.T) {
	r := reserve(t, 1, upload.Options{})
	_, err := r.put(0, &onRead{r.photo(1), func() {
		_, _, err := upload.EraseOf(t.Context(), r.Set, ana)
		r.Must(err)
	}})
	if left := r.Objects(r.Real.Hot); !errors.Is(err, mayfly.NotFound) || len(left) > 0 {
		t.Errorf("%v, left %v", err, left)
	}
}
