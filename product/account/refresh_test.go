package account_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
)

func (h *fixture) issue() string {
	h.Helper()
	access, refresh, err := h.accounts.Issue(h.Context(), ana(), "ana", start)
	h.must(err)
	if p := h.verified(string(access), start); p.User != ana() || p.Subject != "ana" {
		h.Fatalf("%+v", p)
	}
	return string(refresh)
}

func (h *fixture) refresh(token string, now mayfly.Instant) string {
	h.Helper()
	access, next, user, err := h.accounts.Refresh(h.Context(), token, now)
	h.must(err)
	if p := h.verified(string(access), now); user != ana() || p.User != ana() || p.Subject != "ana" || len(p.Scopes) != 1 || !p.Has(account.User) {
		h.Fatalf("%+v", p)
	}
	return string(next)
}

func (h *fixture) notRefreshed(why, token string, now mayfly.Instant) {
	h.Helper()
	access, next, user, err := h.accounts.Refresh(h.Context(), token, now)
	wantRefusal(h, why, err)
	if access != "" || next != "" || !user.IsZero() {
		h.Errorf("%s: refused, and yet tokens", why)
	}
}

func TestRefreshTokensFollowOneAnother(t *testing.T) {
	h := open(t)
	token, seen := h.issue(), map[string]bool{}
	for n := range 100 { // each within its thirty days, for years
		if seen[token] {
			t.Fatal("a token came twice")
		}
		seen[token] = true
		token = h.refresh(token, within(time.Duration(n)*29*24*time.Hour))
	}
}

func TestSigningOutEndsTheFamilyOfATokenAndNoOther(t *testing.T) {
	h := open(t)
	old, other := h.issue(), h.issue()
	current := h.refresh(old, start)
	forged := []byte(current)
	if at := len(forged) - 2; forged[at] == 'A' {
		forged[at] = 'B'
	} else {
		forged[at] = 'A'
	}
	for _, token := range []string{string(forged), "forged", ""} {
		h.must(h.accounts.SignOut(t.Context(), token, start))
	}
	current = h.refresh(current, within(time.Minute)) // a forged token ends nothing
	h.must(h.accounts.SignOut(t.Context(), old, within(2*time.Minute)))
	h.must(h.accounts.SignOut(t.Context(), old, within(2*time.Minute)))
	h.notRefreshed("signed out", current, within(2*time.Minute))
	h.notRefreshed("an old one of the same login", old, within(2*time.Minute))
	h.refresh(other, within(2*time.Minute))
}

func TestARefreshTokenThatComesAgainEndsItsFamily(t *testing.T) {
	h := open(t)
	stolen, other := h.issue(), h.issue()
	next := h.refresh(stolen, within(time.Minute))
	h.notRefreshed("an old one", stolen, within(time.Minute+10*time.Second))
	h.notRefreshed("the good one of a family that ended", next, within(2*time.Minute))
	h.notRefreshed("an old one, again", stolen, within(2*time.Minute))
	h.refresh(other, within(2*time.Minute)) // another family of the same user
}

func TestARetryOfALostAnswerGetsTheSameNextToken(t *testing.T) {
	h := open(t)
	first := h.issue()
	next := h.refresh(first, within(time.Minute))
	if again := h.refresh(first, within(time.Minute+10*time.Second)-1); again != next {
		t.Fatal("a retry made a second token")
	}
	after := h.refresh(next, within(2*time.Minute))
	h.notRefreshed("one before the one before", first, within(2*time.Minute)+1)
	h.notRefreshed("the good one of a family that ended", after, within(3*time.Minute))
}

func TestARefreshTokenIsOverAfterThirtyDaysToTheMillisecond(t *testing.T) {
	h := open(t)
	month := 30 * 24 * time.Hour
	h.notRefreshed("over", h.issue(), within(month))
	h.refresh(h.issue(), within(month)-1)
}

func TestForgedRefreshTokensRevokeNoFamily(t *testing.T) {
	h := open(t)
	good := h.issue()
	parts := strings.Split(good, ".")
	u, anas := ben(), ana()
	forged := base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{0}, 40))
	for why, token := range map[string]string{
		"nothing": "", "words": "let me in", "dots": "...", "an access token": h.mint(ana(), "ana", account.User),
		"another user's":   strings.Join([]string{parts[0], base64.RawURLEncoding.EncodeToString(u[:]), parts[2], parts[3]}, "."),
		"another family's": strings.Join([]string{parts[0], parts[1], base64.RawURLEncoding.EncodeToString(anas[:]), parts[3]}, "."),
		"a forged one":     strings.Join([]string{parts[0], parts[1], parts[2], forged}, "."),
		"another version":  "mfr2" + good[4:], "a long one": good + strings.Repeat("A", 10_000), "a short one": good[:len(good)-1],
	} {
		h.notRefreshed(why, token, start)
	}
	if _, err := h.accounts.Verify(t.Context(), good, start); !errors.Is(err, mayfly.Unauthenticated) {
		t.Errorf("a refresh token is accepted as an access token: %v", err)
	}
	h.refresh(good, start)
}

func TestOnlyTheHashOfARefreshTokenIsStored(t *testing.T) {
	h := open(t)
	token := h.issue()
	token = h.refresh(token, start)
	secret, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[3])
	h.must(err)
	user := ana()
	rows, err := h.rows.Range(t.Context(), account.Families, store.Range{Partition: string(user[:]), Limit: 10})
	h.must(err)
	if len(rows) != 1 || bytes.Contains(rows[0].Value, secret[8:]) || bytes.Contains(rows[0].Value, []byte(token)) {
		t.Fatalf("%d rows, or the token itself", len(rows))
	}
}

func TestRacingRefreshesWithOneTokenLeaveOneFamily(t *testing.T) {
	h := open(t)
	for range 20 {
		token := h.issue()
		next, begin := make([]string, 8), make(chan struct{})
		var wg sync.WaitGroup
		for i := range next {
			wg.Go(func() {
				<-begin
				_, n, _, err := h.accounts.Refresh(t.Context(), token, start)
				if err != nil {
					t.Error(err)
				}
				next[i] = string(n)
			})
		}
		close(begin)
		wg.Wait()
		for _, n := range next {
			if n != next[0] {
				t.Fatal("racing refreshes got different tokens")
			}
		}
		h.refresh(next[0], within(time.Minute))
	}
}

func TestRacingThiefAndOwnerRevokeTheFamilyInAnyOrder(t *testing.T) {
	h := open(t)
	old := h.issue()
	good := h.refresh(old, start)
	var wg sync.WaitGroup
	later := within(time.Minute)
	wg.Go(func() { _, _, _, _ = h.accounts.Refresh(t.Context(), good, later) })
	wg.Go(func() { _, _, _, err := h.accounts.Refresh(t.Context(), old, later); wantRefusal(t, "an old one", err) })
	wg.Wait()
	h.notRefreshed("the family has ended", good, within(2*time.Minute))
}

// doubtful swaps rows and reports an unknown outcome.
type doubtful struct {
	store.Rows
	lands bool
	left  int
}

func (d *doubtful) Swap(ctx context.Context, t store.Table, key store.Key, old, new []byte, reclaimAt mayfly.Instant) (bool, []byte, error) {
	if d.left == 0 {
		return d.Rows.Swap(ctx, t, key, old, new, reclaimAt)
	}
	d.left--
	if d.lands {
		if _, _, err := d.Rows.Swap(ctx, t, key, old, new, reclaimAt); err != nil {
			return false, nil, err
		}
	}
	return false, nil, mayfly.Errorf(mayfly.Unknown, "in doubt")
}

func TestARefreshWhoseOutcomeIsInDoubtReadsTheRowBack(t *testing.T) {
	for _, lands := range []bool{true, false} {
		d := &doubtful{lands: lands}
		h := open(t, func(o *account.Options) { d.Rows = o.Rows; o.Rows = d })
		token := h.issue()
		d.left = 1
		next := h.refresh(token, start)
		h.refresh(next, within(time.Minute))
		d.left = 1
		h.notRefreshed("an old one", token, within(2*time.Minute))
		h.notRefreshed("the family has ended", next, within(2*time.Minute))
	}
}

func TestANewKeyLeavesGoodRefreshTokensGood(t *testing.T) {
	h := open(t)
	token := h.issue()
	again := open(t, func(o *account.Options) { o.Rows = h.rows })
	next := again.refresh(token, within(time.Minute))
	again.refresh(next, within(2*time.Minute))
}

func TestNoTokensAreIssuedWithoutAUser(t *testing.T) {
	h := open(t)
	if _, _, err := h.accounts.Issue(t.Context(), mayfly.UserID{}, "", start); !errors.Is(err, mayfly.Invalid) {
		t.Error(err)
	}
	if _, _, err := h.accounts.Issue(t.Context(), ana(), "a\x00b", start); !errors.Is(err, mayfly.Invalid) {
		t.Error(err)
	}
}

func TestAFamilyThatCannotBeReadIsCorruptAndGivesNothing(t *testing.T) {
	h := open(t)
	token := h.issue()
	user := ana()
	rows, err := h.rows.Range(t.Context(), account.Families, store.Range{Partition: string(user[:]), Limit: 1})
	h.must(err)
	_, _, err = h.rows.Swap(t.Context(), account.Families, store.Key{Partition: string(user[:]), Clustering: rows[0].Clustering}, rows[0].Value, []byte{9}, 0)
	h.must(err)
	if access, _, _, err := h.accounts.Refresh(t.Context(), token, start); !errors.Is(err, mayfly.Corrupt) || access != "" {
		t.Error(err)
	}
}
