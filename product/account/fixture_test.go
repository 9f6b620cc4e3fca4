package account_test

import (
	"errors"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/memstore"
	"github.com/mayflyhq/mayfly/store/pebblestore"
	"github.com/mayflyhq/mayfly/test/tables"
)

const start mayfly.Instant = 1_800_000_000_000

func ana() mayfly.UserID      { return mayfly.UserOf("mayfly", "ana") }
func ben() mayfly.UserID      { return mayfly.UserOf("mayfly", "ben") }
func stranger() mayfly.UserID { return mayfly.UserOf("mayfly", "stranger") }

func nowhere() netip.Addr { return netip.MustParseAddr("192.0.2.7") }

// fixture is Accounts on the embedded store in memory.
type fixture struct {
	testing.TB
	rows     store.Rows
	signals  store.Signals
	key      *account.Key
	accounts *account.Accounts
}

func open(t testing.TB, change ...func(*account.Options)) *fixture {
	t.Helper()
	db, err := pebblestore.Open(pebblestore.Options{Tables: tables.All(), FS: vfs.NewMem(), Dir: "db", MemtableBytes: 1 << 20, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	h := &fixture{TB: t, rows: db.Rows(), signals: memstore.NewSignals(), key: newKey(t)}
	o := account.Options{Rows: h.rows, Signals: h.signals, Limits: memstore.NewLimits(0), Key: h.key}
	for _, c := range change {
		c(&o)
	}
	h.rows, h.signals, h.key = o.Rows, o.Signals, o.Key
	if h.accounts, err = account.New(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(h.accounts.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return h
}

func newKey(t testing.TB) *account.Key {
	t.Helper()
	k, err := account.LoadKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (h *fixture) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// erase writes the tombstone of a user, the first step of an erasure.
func (h *fixture) erase(user mayfly.UserID) {
	h.Helper()
	swapped, _, err := h.rows.Swap(h.Context(), engine.Erased, engine.ErasedKey(user), nil, []byte(`{"format":1}`), 0)
	if h.must(err); !swapped {
		h.Fatal("erased already")
	}
}

func (h *fixture) mint(user mayfly.UserID, subject string, scopes ...account.Scope) string {
	h.Helper()
	token, err := h.accounts.Mint(user, subject, scopes, 0, start)
	h.must(err)
	return string(token)
}

func (h *fixture) verified(token string, now mayfly.Instant) account.Principal {
	h.Helper()
	p, err := h.accounts.Verify(h.Context(), token, now)
	h.must(err)
	return p
}

// refused checks that a token is refused with a hint.
func (h *fixture) refused(why, token string, now mayfly.Instant) {
	h.Helper()
	p, err := h.accounts.Verify(h.Context(), token, now)
	wantRefusal(h, why, err)
	if !p.IsAnonymous() {
		h.Errorf("%s: refused, but returned %+v", why, p)
	}
}

func wantRefusal(t testing.TB, why string, err error) {
	t.Helper()
	var e *mayfly.Error
	if !errors.Is(err, mayfly.Unauthenticated) || !errors.As(err, &e) || e.Hint == "" {
		t.Errorf("%s: %v", why, err)
	}
}

// within returns the instant d after the start.
func within(d time.Duration) mayfly.Instant { return start.Add(d) }

// seconds returns the Unix time after the start, as in tokens.
func seconds(after int64) int64 { return int64(start)/1000 + after }
