package account_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
)

func (h *fixture) takeHandle(user mayfly.UserID, handle string) error {
	_, err := h.accounts.Change(h.Context(), user, account.ProfileChange{Handle: &handle}, start)
	return err
}

func TestAProfileIsWhatWasSetAndClean(t *testing.T) {
	h := open(t)
	handle, name, bio, avatar, yes := "ana_1", "Ana\u202e", "sea\x01 and\nsalt", "https://example.com/ana.jpg", true
	got, err := h.accounts.Change(t.Context(), ana(), account.ProfileChange{Handle: &handle, Name: &name, Bio: &bio, Avatar: &avatar, Private: &yes}, start)
	h.must(err)
	want := account.Profile{User: ana(), Handle: "ana_1", Name: "Ana", Bio: "sea and\nsalt", Avatar: avatar, Private: true}
	if got != want {
		t.Errorf("%+v", got)
	}
	empty, no := "", false
	got, err = h.accounts.Change(t.Context(), ana(), account.ProfileChange{Bio: &empty, Private: &no}, start)
	if want.Bio, want.Private = "", false; err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if user, err := h.accounts.UserOfHandle(t.Context(), "ana_1"); err != nil || user != ana() {
		t.Error(user, err)
	}
	h.erase(ana())
	if _, err := h.accounts.UserOfHandle(t.Context(), "ana_1"); !errors.Is(err, mayfly.NotFound) {
		t.Error(err)
	}
	if err := h.takeHandle(ana(), "ana_2"); !errors.Is(err, mayfly.Unauthenticated) {
		t.Error(err)
	}
}

func TestABadProfileIsRefused(t *testing.T) {
	h := open(t)
	text := func(s string) *string { return &s }
	for why, c := range map[string]account.ProfileChange{
		"short": {Handle: text("an")}, "long": {Handle: text(strings.Repeat("a", 31))}, "capitals": {Handle: text("Ana")}, "letters": {Handle: text("añadir")}, "sign": {Handle: text("@ana")},
		"name": {Name: text(strings.Repeat("ä", 51))}, "NUL": {Bio: text("a\x00b")}, "no text": {Bio: text("\xff")},
		"http": {Avatar: text("http://example.com/a.jpg")}, "script": {Avatar: text("javascript:alert(1)")}, "password": {Avatar: text("https://u:p@example.com/")},
	} {
		if _, err := h.accounts.Change(t.Context(), ana(), c, start); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%s: %v", why, err)
		}
	}
	if err := h.takeHandle(ana(), "admin"); !errors.Is(err, mayfly.Conflict) {
		t.Errorf("reserved: %v", err)
	}
}

func TestAHandleIsOfOneUserAndIsFreeWhenGivenUp(t *testing.T) {
	h := open(t)
	h.must(h.takeHandle(ana(), "shore"))
	h.must(h.takeHandle(ana(), "shore"))
	if err := h.takeHandle(ben(), "shore"); !errors.Is(err, mayfly.Conflict) {
		t.Error(err)
	}
	h.must(h.takeHandle(ben(), "coast"))
	h.must(h.takeHandle(ana(), "beach"))
	h.must(h.takeHandle(ben(), "shore"))
	h.must(h.takeHandle(ana(), ""))
	for handle, want := range map[string]mayfly.UserID{"shore": ben(), "coast": {}, "beach": {}} {
		if user, err := h.accounts.UserOfHandle(t.Context(), handle); user != want || want.IsZero() != errors.Is(err, mayfly.NotFound) {
			t.Errorf("%s: %s, %v", handle, user, err)
		}
	}
}

// Each change stops at a random write or runs beside others. A handle that a profile
// shows leads to that user, and no handle is lost.
func TestHandlesStayUniqueWithCrashesAndRaces(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	stops := 0
	for range 40 {
		f := &faulty{left: -1}
		h := open(t, func(o *account.Options) { f.Rows = o.Rows; o.Rows = f })
		users, handles := []mayfly.UserID{ana(), ben(), stranger()}, []string{"shore", "coast", "beach"}
		for range 8 {
			f.left = random.IntN(8)
			if err := h.takeHandle(users[random.IntN(3)], handles[random.IntN(3)]); errors.Is(err, errStopped) {
				stops++
			}
			f.left = -1
			var wg sync.WaitGroup
			for range 4 {
				user, handle := users[random.IntN(3)], handles[random.IntN(3)]
				wg.Go(func() {
					if err := h.takeHandle(user, handle); err != nil && !errors.Is(err, mayfly.Conflict) && !errors.Is(err, mayfly.Unavailable) {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		for n, user := range users { // each can have one of its own in the end
			h.must(h.takeHandle(user, fmt.Sprint("last_", n)))
		}
		for n, handle := range handles {
			if err := h.takeHandle(users[n], handle); err != nil {
				t.Fatalf("%s is lost: %v", handle, err)
			}
			if user, err := h.accounts.UserOfHandle(t.Context(), handle); err != nil || user != users[n] {
				t.Errorf("%s: %s, %v", handle, user, err)
			}
		}
	}
	if t.Logf("%d changes stopped", stops); stops < 50 {
		t.Error("too few")
	}
}

// beforeGet calls do before the rows of a key are read, once.
type beforeGet struct {
	store.Rows
	table store.Table
	key   string // its clustering
	do    func()
}

func (b *beforeGet) Get(ctx context.Context, t store.Table, keys ...store.Key) ([][]byte, error) {
	if do := b.do; do != nil && t == b.table && keys[0].Clustering == b.key {
		b.do = nil
		do()
	}
	return b.Rows.Get(ctx, t, keys...)
}

// A change that gives up a handle reads the profile once more: another change of the
// same user may have taken the handle again, and the profile shows it.
func TestAHandleThatWasTakenAgainIsNotGivenUp(t *testing.T) {
	b := &beforeGet{table: account.Handles, key: "shore"}
	h := open(t, func(o *account.Options) { b.Rows = o.Rows; o.Rows = b })
	h.must(h.takeHandle(ana(), "shore"))
	again := false
	b.do = func() { // before shore is given up for coast
		again = true
		h.must(h.takeHandle(ana(), "shore"))
	}
	h.must(h.takeHandle(ana(), "coast"))
	if !again {
		t.Fatal("the handle was not about to be given up")
	}
	if user, err := h.accounts.UserOfHandle(t.Context(), "shore"); err != nil || user != ana() {
		t.Errorf("the handle that the profile shows is of %s, %v", user, err)
	}
	if err := h.takeHandle(ben(), "shore"); !errors.Is(err, mayfly.Conflict) {
		t.Errorf("another user takes it: %v", err)
	}
}
