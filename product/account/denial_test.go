package account_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
	storefixture "github.com/mayflyhq/mayfly/test/fixture"
)

// watched are rows that count the reads of denied tokens, and call read and wrote
// around reads and writes of them.
type watched struct {
	store.Rows
	reads int
	read  func()
	wrote func(reclaimAt mayfly.Instant)
}

func (w *watched) Get(ctx context.Context, t store.Table, keys ...store.Key) ([][]byte, error) {
	found, err := w.Rows.Get(ctx, t, keys...)
	if t == account.DeniedTokens {
		w.reads++
		if w.read != nil {
			w.read()
		}
	}
	return found, err
}

func (w *watched) Swap(ctx context.Context, t store.Table, key store.Key, old, value []byte, reclaimAt mayfly.Instant) (bool, []byte, error) {
	if t == account.DeniedTokens && w.wrote != nil {
		w.wrote(reclaimAt)
	}
	return w.Rows.Swap(ctx, t, key, old, value, reclaimAt)
}

// join returns another node on the store of h, with signals of its own if given.
func (h *fixture) join(o account.Options) *fixture {
	h.Helper()
	other := &fixture{TB: h.TB, rows: h.rows, signals: h.signals, key: h.key}
	o.Rows, o.Key = h.rows, h.key
	if o.Signals == nil {
		o.Signals = h.signals
	}
	var err error
	other.accounts, err = account.New(h.Context(), o)
	h.must(err)
	h.Cleanup(func() { h.must(other.accounts.Close()) })
	return other
}

// deny denies a token as an operator does who has it.
func (h *fixture) deny(token string) {
	h.Helper()
	t, err := h.accounts.ReadAccess(h.Context(), token, start)
	h.must(err)
	h.must(h.accounts.Deny(h.Context(), t))
}

func TestADeniedTokenIsRefusedOnEveryNodeAsOfTheAnswer(t *testing.T) {
	ed := edKey(t, "ed")
	trust := account.Trusted{Issuer: "shop", File: jwksFile(t, ed)}
	h := open(t, func(o *account.Options) { o.Trusted = trust })
	other := h.join(account.Options{Trusted: trust})
	shops := func(id string) string { return ed.token(t, map[string]any{"jti": id}) }
	named := func(issuer, id string) func() {
		return func() {
			token, err := h.accounts.AccessNamed(issuer, id, start)
			h.must(err)
			h.must(h.accounts.Deny(t.Context(), token))
		}
	}
	mine, next := h.mint(ana(), "ana", account.User), h.mint(ana(), "ana", account.User)
	operators := h.mint(mayfly.UserID{}, "ops", account.Admin)
	ownID, err := h.accounts.ReadAccess(t.Context(), next, start)
	h.must(err)
	rest := []string{h.mint(ana(), "ana", account.User), shops("9"), ed.token(t, nil)}
	for _, c := range []struct {
		name, token string
		deny        func()
	}{
		{"by the token", mine, func() { h.deny(mine) }},
		{"by its id", next, named("", ownID.ID)},
		{"of no user", operators, func() { h.deny(operators) }},
		{"of a trusted issuer", shops("1"), func() { h.deny(shops("1")) }},
		{"of a trusted issuer by its id", shops("2"), named("shop", "2")},
		{"by its user", shops("3"), func() { h.must(h.accounts.Revoke(t.Context(), shops("3"), start)) }},
		{"twice", mine, func() { h.deny(mine) }},
	} {
		if c.name != "twice" {
			h.verified(c.token, start) // remembered by both
			other.verified(c.token, start)
		}
		c.deny()
		h.refused(c.name, c.token, start)
		other.refused(c.name+", on another node", c.token, start)
		h.join(account.Options{Trusted: trust}).refused(c.name+", on a node that has just started", c.token, start)
	}
	named("", "9")() // the same id of another issuer
	for _, token := range rest {
		h.verified(token, start)
		other.verified(token, start)
	}
}

func TestADenialThatCannotBeSignalledIsAnsweredWhenNoNodeAcceptsTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		deafNode := h.join(account.Options{Signals: storefixture.Deaf{Signals: h.signals}})
		token := h.mint(ana(), "ana", account.User)
		h.verified(token, start)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		named, err := deafNode.accounts.ReadAccess(t.Context(), token, start)
		h.must(err)
		if err := deafNode.accounts.Deny(ctx, named); !errors.Is(err, mayfly.Unavailable) {
			t.Errorf("answered while another node may accept the token: %v", err)
		}
		h.verified(token, start) // as it may for as long as there is no answer
		deafNode.deny(token)
		h.refused("denied", token, start)
	})
}

func TestATokenIsLookedUpOnceForAWhileAndAtEveryRequestWithoutTheLease(t *testing.T) {
	wire := &storefixture.Signals{}
	var elapsed time.Duration
	var rows *watched
	h := open(t, func(o *account.Options) {
		rows = &watched{Rows: o.Rows}
		o.Rows, o.Signals, o.Elapsed = rows, wire, func() time.Duration { return elapsed }
	})
	token := h.mint(ana(), "ana", account.User)
	ask := func(why string, want int) {
		t.Helper()
		before := rows.reads
		for range 10 {
			h.verified(token, start)
		}
		if rows.reads-before != want {
			t.Errorf("%s: 10 requests looked %d times, want %d", why, rows.reads-before, want)
		}
	}
	ask("new", 1)
	elapsed += store.CacheAge - 1
	ask("known", 0)
	elapsed++
	ask("known for too long", 1)
	wire.SetCut(true)
	ask("without the lease", 10)
	wire.SetCut(false)
	ask("a new lease", 1)
	h.must(wire.Publish(t.Context(), store.Signal{Topic: store.RelationsChanged}))
	ask("another signal", 0)
	h.join(account.Options{Verified: -1}).verified(token, start) // nothing is cached
}

func TestALookupThatADenialOvertookIsNotRemembered(t *testing.T) {
	var rows *watched
	h := open(t, func(o *account.Options) { rows = &watched{Rows: o.Rows}; o.Rows = rows })
	token := h.mint(ana(), "ana", account.User)
	named, err := h.accounts.ReadAccess(t.Context(), token, start)
	h.must(err)
	rows.read = func() { // the row was read and is not there; now the token is denied
		rows.read = nil
		h.must(h.accounts.Deny(t.Context(), named))
	}
	h.verified(token, start)
	h.refused("denied", token, start)
}

func TestADenialOutlivesItsToken(t *testing.T) {
	ed := edKey(t, "ed")
	var kept mayfly.Instant
	h := open(t, func(o *account.Options) {
		o.Rows = &watched{Rows: o.Rows, wrote: func(at mayfly.Instant) { kept = at }}
		o.Trusted = account.Trusted{Issuer: "shop", File: jwksFile(t, ed)}
	})
	const day = 24 * time.Hour
	for _, c := range []struct {
		name, token, issuer string
		ends                mayfly.Instant
	}{
		{"a token", h.mint(ana(), "ana", account.User), "", within(15 * time.Minute)},
		{"a token of a trusted issuer", ed.token(t, map[string]any{"jti": "1"}), "", within(time.Hour)},
		{"an id", "", "", within(366 * day)},
		{"an id of a trusted issuer", "", "shop", within(day)},
	} {
		named, err := h.accounts.AccessNamed(c.issuer, "2", start)
		if c.token != "" {
			named, err = h.accounts.ReadAccess(t.Context(), c.token, start)
		}
		h.must(err)
		h.must(h.accounts.Deny(t.Context(), named))
		if kept < c.ends.Add(time.Minute) || kept > c.ends.Add(2*time.Hour) {
			t.Errorf("%s that ends at %s is denied until %s", c.name, c.ends, kept)
		}
	}
}

func TestOnlyATokenThatIsAcceptedIsDenied(t *testing.T) {
	ed := edKey(t, "ed")
	h := open(t, func(o *account.Options) {
		o.Rows = &watched{Rows: o.Rows, wrote: func(mayfly.Instant) { t.Error("wrote") }}
		o.Trusted = account.Trusted{Issuer: "shop", File: jwksFile(t, ed)}
	})
	old := h.mint(ana(), "ana", account.User)
	for _, token := range []string{"", "forged", old[:len(old)-4] + "AAAA", edKey(t, "ed").token(t, map[string]any{"jti": "1"})} {
		h.must(h.accounts.Revoke(t.Context(), token, start))
	}
	h.must(h.accounts.Revoke(t.Context(), old, within(time.Hour)))
	nameless := ed.token(t, nil)
	if err := h.accounts.Revoke(t.Context(), nameless, start); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("a token without an id: %v", err)
	}
	h.verified(nameless, start)
	for _, c := range []struct{ issuer, id string }{{"", ""}, {"", "a\nb"}, {"unknown", "1"}} {
		if _, err := h.accounts.AccessNamed(c.issuer, c.id, start); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestALongAnswerNoticesThatItsTokenWasDenied(t *testing.T) {
	h := open(t)
	service := h.mint(mayfly.UserID{}, "shop", account.Service)
	p := h.verified(service, start)
	acting, err := h.accounts.ActFor(t.Context(), p, "~ana")
	h.must(err)
	for _, caller := range []account.Principal{{}, p, acting} {
		h.must(h.accounts.CheckDenied(t.Context(), caller))
	}
	h.deny(service)
	for _, caller := range []account.Principal{p, acting} {
		wantRefusal(t, "denied", h.accounts.CheckDenied(t.Context(), caller))
	}
	h.must(h.accounts.CheckDenied(t.Context(), account.Principal{}))
}

func TestAccountsWithoutSignalsDoNotStart(t *testing.T) {
	h := open(t)
	refuses := mayfly.Errorf(mayfly.Unavailable, "away")
	if _, err := account.New(t.Context(), account.Options{Rows: h.rows, Signals: &storefixture.Signals{Refuses: refuses}, Key: h.key}); !errors.Is(err, mayfly.Unavailable) {
		t.Error(err)
	}
	wire := &storefixture.Signals{}
	a, err := account.New(t.Context(), account.Options{Rows: h.rows, Signals: wire, Key: h.key})
	h.must(err)
	h.must(a.Close())
	if wire.Closed() != 1 {
		t.Errorf("%d subscriptions were closed", wire.Closed())
	}
}
