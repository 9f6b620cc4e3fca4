package account_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
)

// shrinking is what Shrink does in these tests: the small picture is the image in a
// type, and an image "bad" is refused.
func shrinking(o *account.Options) {
	o.Shrink = func(_ context.Context, small io.Writer, image io.Reader, longest int) (string, error) {
		b, err := io.ReadAll(image)
		if err == nil && string(b) == "bad" {
			err = mayfly.Errorf(mayfly.Unsupported, "no image")
		}
		if err == nil && longest == account.AvatarPixels {
			_, err = small.Write(b)
		}
		return "image/png", err
	}
}

func (h *fixture) setAvatar(user mayfly.UserID, image string, now mayfly.Instant) account.Profile {
	h.Helper()
	p, err := h.accounts.SetAvatar(h.Context(), user, strings.NewReader(image), now)
	h.must(err)
	return p
}

// avatars returns how many avatars of a user are stored.
func (h *fixture) avatars(user mayfly.UserID) int {
	h.Helper()
	rows, err := h.rows.Range(h.Context(), account.Avatars, store.Range{Partition: string(user[:]), Limit: 100})
	h.must(err)
	return len(rows)
}

func TestAnAvatarTakesThePlaceOfTheOneBefore(t *testing.T) {
	h := open(t, shrinking)
	wants := func(p account.Profile, image string, stored int) {
		t.Helper()
		got, err := h.accounts.Avatar(t.Context(), ana(), p.Picture)
		if image == "" && !errors.Is(err, mayfly.NotFound) || image != "" && (err != nil || string(got.Bytes) != image || got.Type != "image/png") {
			t.Errorf("%q: %+v, %v", image, got, err)
		}
		if n := h.avatars(ana()); n != stored {
			t.Errorf("%q: %d avatars are stored", image, n)
		}
	}
	first := h.setAvatar(ana(), "first", start)
	wants(first, "first", 1)
	if _, err := h.accounts.Avatar(t.Context(), ben(), first.Picture); !errors.Is(err, mayfly.NotFound) {
		t.Error(err)
	}
	second := h.setAvatar(ana(), "second", start)
	wants(first, "", 1)
	wants(second, "second", 1)
	if _, err := h.accounts.SetAvatar(t.Context(), ana(), strings.NewReader("bad"), start); !errors.Is(err, mayfly.Unsupported) {
		t.Error(err)
	}
	wants(second, "second", 1)

	url, name := "https://example.com/ana.jpg", "Ana"
	p, err := h.accounts.Change(t.Context(), ana(), account.ProfileChange{Name: &name}, start)
	if h.must(err); p.Picture != second.Picture {
		t.Error("another change took the avatar out")
	}
	p, err = h.accounts.Change(t.Context(), ana(), account.ProfileChange{Avatar: &url}, start)
	if h.must(err); p.Avatar != url || !p.Picture.IsZero() {
		t.Errorf("%+v", p)
	}
	wants(second, "", 0)
	third := h.setAvatar(ana(), "third", start)
	if wants(third, "third", 1); third.Avatar != "" {
		t.Errorf("%+v", third)
	}
	empty := ""
	p, err = h.accounts.Change(t.Context(), ana(), account.ProfileChange{Avatar: &empty}, start)
	if h.must(err); p.Avatar != "" || !p.Picture.IsZero() {
		t.Errorf("%+v", p)
	}
	wants(third, "", 0)
	h.erase(ana())
	if _, err := h.accounts.SetAvatar(t.Context(), ana(), strings.NewReader("x"), start); !errors.Is(err, mayfly.Unauthenticated) {
		t.Error(err)
	}
}

func TestWithoutImagesAnAvatarIsRefused(t *testing.T) {
	h := open(t)
	if _, err := h.accounts.SetAvatar(t.Context(), ana(), strings.NewReader("x"), start); !errors.Is(err, mayfly.Unsupported) {
		t.Error(err)
	}
}

// The last one that is written is shown, and nothing else stays.
func TestOfManyAvatarsAtOnceOneStays(t *testing.T) {
	h := open(t, shrinking)
	var all sync.WaitGroup
	for _, image := range strings.Split("abcdefgh", "") {
		all.Go(func() {
			if _, err := h.accounts.SetAvatar(t.Context(), ana(), strings.NewReader(image), start); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	p, err := h.accounts.Profiles(t.Context(), ana())
	h.must(err)
	if got, err := h.accounts.Avatar(t.Context(), ana(), p[0].Picture); err != nil || len(got.Bytes) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if n := h.avatars(ana()); n != 1 {
		t.Errorf("%d avatars are stored", n)
	}
}

// crashing fails the writes of the profile while it is down.
type crashing struct {
	store.Rows
	down bool
}

func (c *crashing) Swap(ctx context.Context, t store.Table, key store.Key, old, value []byte, reclaim mayfly.Instant) (bool, []byte, error) {
	if c.down && t == account.Profiles {
		return false, nil, mayfly.Unavailable
	}
	return c.Rows.Swap(ctx, t, key, old, value, reclaim)
}

// An avatar of which the profile was not written is not shown, and goes an hour
// later.
func TestAnAvatarThatACrashHasLeftGoes(t *testing.T) {
	rows := &crashing{}
	h := open(t, shrinking, func(o *account.Options) { rows.Rows, o.Rows = o.Rows, rows })
	first := h.setAvatar(ana(), "first", start)
	rows.down = true
	if _, err := h.accounts.SetAvatar(t.Context(), ana(), strings.NewReader("lost"), start); !errors.Is(err, mayfly.Unavailable) {
		t.Error(err)
	}
	rows.down = false
	if got, err := h.accounts.Avatar(t.Context(), ana(), first.Picture); err != nil || string(got.Bytes) != "first" {
		t.Errorf("%+v, %v", got, err)
	}
	left, err := h.rows.Range(t.Context(), account.Avatars, store.Range{Partition: string(first.User[:]), Limit: 10})
	h.must(err)
	for _, row := range left {
		id := mayfly.ID([]byte(row.Clustering))
		if got, err := h.accounts.Avatar(t.Context(), ana(), id); id != first.Picture && !errors.Is(err, mayfly.NotFound) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	h.setAvatar(ana(), "second", start.Add(time.Minute))
	if n := h.avatars(ana()); n != 2 {
		t.Errorf("%d avatars are stored: one that is young may be about to be shown", n)
	}
	h.setAvatar(ana(), "third", start.Add(time.Hour))
	if n := h.avatars(ana()); n != 1 {
		t.Errorf("%d avatars are stored", n)
	}
}
