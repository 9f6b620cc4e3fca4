package erase_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/store"
)

// reserve is the row of an upload whose media arrive one by one.
func (h *house) reserve(user mayfly.UserID, upload mayfly.ID) store.Key {
	h.Helper()
	key := store.Key{Partition: string(user[:]), Clustering: string(upload[:])}
	h.swapIn(store.Reservations, key)
	return key
}

func TestTheMediaOfReservedUploadsGoWithTheAccount(t *testing.T) {
	h := open(t)
	waiting, others := h.upload(3), h.upload(1)
	published, held := h.story(2), h.story(1)
	h.hold(held.ID)
	for _, upload := range []mayfly.ID{waiting.ID, published.Upload, held.Upload, h.newID(ana())} {
		h.reserve(ana(), upload)
	}
	h.reserve(ben(), others.ID)
	for _, raw := range []mayfly.BlobKey{mayfly.RawKey(waiting.ID, 4), mayfly.RawKey(published.Upload, 1)} { // put by presigned URLs
		_, err := h.real.Hot.Put(t.Context(), raw, strings.NewReader("as it was put"))
		h.must(err)
	}
	r, err := h.accounted().Account(t.Context(), ana(), "support", "asked to", h.now)
	h.must(err)
	if r.Rows["reservations"] != 4 || r.Objects != 3+1+2 || len(r.Held) != 1 {
		t.Fatalf("%+v", r)
	}
	want := []mayfly.BlobKey{mayfly.UploadKey(others.ID, 0), mayfly.UploadKey(held.Upload, 0)}
	slices.Sort(want)
	if got := h.keys(h.real.Hot); !slices.Equal(got, want) {
		t.Fatalf("left %v, want %v", got, want)
	}
}

// arriving is rows in which a medium arrives just before a reservation is taken out.
type arriving struct {
	store.Rows
	arrive func()
}

func (a *arriving) Swap(ctx context.Context, t store.Table, key store.Key, old, next []byte, reclaimAt mayfly.Instant) (bool, []byte, error) {
	if t == store.Reservations && a.arrive != nil {
		arrive := a.arrive
		a.arrive = nil
		arrive()
	}
	return a.Rows.Swap(ctx, t, key, old, next, reclaimAt)
}

func TestAMediumThatArrivesWhileItsReservationIsErasedGoesToo(t *testing.T) {
	h := open(t)
	in, err := intake.New(h.real, intake.Options{})
	h.must(err)
	upload := h.upload(1)
	key := h.reserve(ana(), upload.ID)
	h.set.Rows = &arriving{Rows: h.real.Rows, arrive: func() {
		_, err := in.AddAt(t.Context(), ana(), upload.ID, 1, reader(content(1)))
		h.must(err)
		found, err := h.real.Rows.Get(t.Context(), store.Reservations, key)
		h.must(err)
		_, _, err = h.real.Rows.Swap(t.Context(), store.Reservations, key, found[0], []byte("one more"), 0)
		h.must(err)
	}}
	r, err := h.accounted().Account(t.Context(), ana(), "support", "asked to", h.now)
	h.must(err)
	if left := h.keys(h.real.Hot); len(left) > 0 || r.Objects != 2 {
		t.Fatalf("left %v: %+v", left, r)
	}
}
