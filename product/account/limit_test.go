package account_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
)

func rates(o *account.Options) {
	o.Writes, o.Reads = store.Rate{Count: 3, Per: 3 * time.Hour}, store.Rate{Count: 5, Per: time.Minute}
	o.AddressReads, o.AddressWrites = store.Rate{Count: 2, Per: time.Minute}, store.Rate{Count: 1, Per: time.Minute}
}

func user(u mayfly.UserID) account.Principal {
	return account.Principal{User: u, Subject: "x", Scopes: []account.Scope{account.User}}
}

func TestACallerOverTheRateLearnsWhenToTryAgain(t *testing.T) {
	h := open(t, rates)
	for range 3 {
		h.must(h.accounts.TakeWrite(t.Context(), user(ana()), nowhere(), start))
	}
	err := h.accounts.TakeWrite(t.Context(), user(ana()), nowhere(), start)
	var limited account.Limited
	if !errors.Is(err, mayfly.Limited) || !errors.As(err, &limited) || limited.RetryAfter != time.Hour {
		t.Fatalf("%v, %+v", err, limited)
	}
	if !errors.Is(limited, mayfly.Limited) {
		t.Error("bare it has no kind")
	}
	h.must(h.accounts.TakeWrite(t.Context(), user(ana()), nowhere(), within(limited.RetryAfter)))
	h.must(h.accounts.TakeWrite(t.Context(), user(ben()), nowhere(), start)) // another's bucket
	for range 5 {
		h.must(h.accounts.TakeRead(t.Context(), user(ana()), nowhere(), start)) // reads are counted apart
	}
	if err := h.accounts.TakeRead(t.Context(), user(ana()), nowhere(), start); !errors.Is(err, mayfly.Limited) {
		t.Error(err)
	}
}

func TestRequestsOfAServiceCountAgainstTheUser(t *testing.T) {
	h := open(t, rates)
	service := account.Principal{Subject: "feed", Scopes: []account.Scope{account.Service}}
	for range 100 { // alone it has no limit
		h.must(h.accounts.TakeWrite(t.Context(), service, nowhere(), start))
	}
	acting, err := h.accounts.ActFor(t.Context(), service, ana().String())
	h.must(err)
	for _, p := range []account.Principal{acting, user(ana()), acting} {
		h.must(h.accounts.TakeWrite(t.Context(), p, nowhere(), start))
	}
	for _, p := range []account.Principal{acting, user(ana())} {
		if err := h.accounts.TakeWrite(t.Context(), p, nowhere(), start); !errors.Is(err, mayfly.Limited) {
			t.Error(err)
		}
	}
}

func TestRequestsWithoutATokenCountAgainstTheNetwork(t *testing.T) {
	for _, c := range []struct {
		first, second string
		same          bool
	}{
		{"192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"2001:db8::1", "2001:db8::ffff:1", true},
		{"2001:db8::1%eth0", "2001:db8::2", true},
		{"2001:db8:0:1::1", "2001:db8:0:2::1", false},
	} {
		h := open(t, rates)
		for range 2 {
			h.must(h.accounts.TakeRead(t.Context(), account.Principal{}, netip.MustParseAddr(c.first), start))
		}
		if err := h.accounts.TakeRead(t.Context(), account.Principal{}, netip.MustParseAddr(c.second), start); errors.Is(err, mayfly.Limited) != c.same {
			t.Errorf("%s and %s: %v", c.first, c.second, err)
		}
	}
}

func TestWithoutATokenReadsAndWritesAreCountedApart(t *testing.T) {
	h := open(t, rates)
	anonymous := account.Principal{}
	for range 2 {
		h.must(h.accounts.TakeRead(t.Context(), anonymous, nowhere(), start))
	}
	h.must(h.accounts.TakeWrite(t.Context(), anonymous, nowhere(), start)) // the reads have used up nothing of it
	for name, take := range map[string]func(context.Context, account.Principal, netip.Addr, mayfly.Instant) error{"read": h.accounts.TakeRead, "write": h.accounts.TakeWrite} {
		if err := take(t.Context(), anonymous, nowhere(), start); !errors.Is(err, mayfly.Limited) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestARateOfItsOwnHasABucketOfItsOwn(t *testing.T) {
	h := open(t, rates)
	once := account.Rate{Count: 1, Per: time.Minute}
	for _, p := range []account.Principal{{}, user(ana())} {
		h.must(h.accounts.TakeFrom(t.Context(), "search", once, 1, p, nowhere(), start))
		h.must(h.accounts.TakeFrom(t.Context(), "export", once, 1, p, nowhere(), start)) // another bucket
		h.must(h.accounts.TakeRead(t.Context(), p, nowhere(), start))
		if err := h.accounts.TakeFrom(t.Context(), "search", once, 1, p, nowhere(), start); !errors.Is(err, mayfly.Limited) {
			t.Error(err)
		}
	}
	h.must(h.accounts.TakeFrom(t.Context(), "search", account.Rate{}, 1, account.Principal{}, nowhere(), start)) // no limit
}

// What costs more than the rate allows at once takes all of it, and is not free.
func TestACostAboveTheRateTakesAllOfIt(t *testing.T) {
	h := open(t, rates)
	rate := account.Rate{Count: 200, Per: time.Hour}
	h.must(h.accounts.TakeFrom(t.Context(), "bytes", rate, 256, user(ana()), nowhere(), start))
	var limited account.Limited
	for _, cost := range []int{256, 200, 1} {
		if err := h.accounts.TakeFrom(t.Context(), "bytes", rate, cost, user(ana()), nowhere(), start); !errors.As(err, &limited) || limited.RetryAfter <= 0 || limited.RetryAfter > time.Hour {
			t.Errorf("a cost of %d: %v", cost, err)
		}
	}
}

func TestATokenWithoutAScopeLiftsNoLimit(t *testing.T) {
	h := open(t, rates)
	idle := account.Principal{Issuer: "shop", Subject: "ana"}
	for _, p := range []account.Principal{idle, {}} {
		h.must(h.accounts.TakeRead(t.Context(), p, nowhere(), start))
	}
	if err := h.accounts.TakeRead(t.Context(), idle, nowhere(), start); !errors.Is(err, mayfly.Limited) {
		t.Error(err)
	}
}

type absent struct{ store.Limits }

func (absent) Take(context.Context, string, store.Rate, int, mayfly.Instant) (store.Taken, error) {
	return store.Taken{}, mayfly.Errorf(mayfly.Unavailable, "away")
}

func TestUnreachableCountersAndZeroRatesLimitNothing(t *testing.T) {
	none := func(*account.Options) {}
	away := func(o *account.Options) { rates(o); o.Limits = absent{} }
	without := func(o *account.Options) { rates(o); o.Limits = nil }
	for _, o := range []func(*account.Options){none, away, without} {
		h := open(t, o)
		for range 100 {
			for _, p := range []account.Principal{{}, user(ana())} {
				h.must(h.accounts.TakeWrite(t.Context(), p, nowhere(), start))
				h.must(h.accounts.TakeRead(t.Context(), p, netip.Addr{}, start))
			}
		}
	}
}
