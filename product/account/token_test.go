package account_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
)

func TestATokenSpeaksForWhomItWasMinted(t *testing.T) {
	h := open(t)
	for name, c := range map[string]struct {
		token  string
		user   mayfly.UserID
		viewer mayfly.Viewer
		actor  string
	}{
		"a user":               {h.mint(ana(), "ana", account.User), ana(), mayfly.ViewerOf(ana()), "ana"},
		"a user by number":     {h.mint(ana(), "", account.User), ana(), mayfly.ViewerOf(ana()), ana().String()},
		"a service":            {h.mint(mayfly.UserID{}, "feed", account.Service), mayfly.UserID{}, mayfly.Viewer{}, "feed"},
		"a service of a user":  {h.mint(ana(), "feed", account.Service), mayfly.UserID{}, mayfly.Viewer{}, "feed"},
		"a moderator":          {h.mint(ana(), "ana", account.Moderator), ana(), mayfly.ModeratorOf(ana()), "ana"},
		"a nameless moderator": {h.mint(mayfly.UserID{}, "support", account.Moderator), mayfly.UserID{}, mayfly.ModeratorOf(mayfly.UserID{}), "support"},
		"an administrator":     {h.mint(ana(), "ana", account.Admin), mayfly.UserID{}, mayfly.Viewer{}, "ana"},
		"both":                 {h.mint(ana(), "ana", account.User, account.Admin), ana(), mayfly.ViewerOf(ana()), "ana"},
	} {
		for range 2 { // checked, and remembered
			p := h.verified(c.token, start)
			if p.User != c.user || p.Viewer() != c.viewer || p.Actor() != (audit.Actor{Issuer: "mayfly", Subject: c.actor}) {
				t.Errorf("%s: %+v, %s", name, p, p.Actor())
			}
		}
	}
	if p := (account.Principal{}); p.Viewer() != (mayfly.Viewer{}) || p.Actor() != (audit.Actor{Subject: "anonymous"}) || p.Has(account.User) || !p.IsAnonymous() {
		t.Errorf("the zero principal is %+v", p)
	}
}

func TestATokenIsOverToTheMillisecondAlsoWhenItIsRemembered(t *testing.T) {
	h := open(t)
	token := h.mint(ana(), "ana", account.User)
	h.verified(token, start)
	h.verified(token, within(15*time.Minute)-1)
	h.refused("over", token, within(15*time.Minute))
	fresh := open(t, func(o *account.Options) { o.Key = h.key }) // remembers nothing
	fresh.refused("over", token, within(15*time.Minute))
	fresh.refused("not good yet", token, within(-6*time.Second))
	fresh.verified(token, within(-4*time.Second)) // another node's clock
}

// sign makes a token with any key.
func sign(t testing.TB, method jwt.SigningMethod, key any, header, claims map[string]any) string {
	t.Helper()
	token := jwt.NewWithClaims(method, jwt.MapClaims(claims))
	maps.Copy(token.Header, header)
	signed, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// ours returns the claims of a valid token, with changes.
func ours(change map[string]any) map[string]any {
	claims := map[string]any{
		"iss": "mayfly", "aud": "mayfly", "sub": "ana", "user": ana().String(), "scope": "user",
		"iat": seconds(0), "nbf": seconds(0), "exp": seconds(900), "jti": "1",
	}
	for name, value := range change {
		if value == nil {
			delete(claims, name)
		} else {
			claims[name] = value
		}
	}
	return claims
}

func TestTokensThatAreNotOursAreRefused(t *testing.T) {
	h := open(t)
	_, foreign, err := ed25519.GenerateKey(rand.Reader)
	h.must(err)
	good := h.mint(ana(), "ana", account.User)
	h.verified(good, start)
	parts := strings.Split(good, ".")
	header := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	named := map[string]any{"typ": "at+jwt", "kid": h.key.ID()}
	swapped := []byte(parts[1])
	swapped[10] ^= 1
	public := []byte(h.key.Public())
	for why, token := range map[string]string{
		"nothing":                   "",
		"dots":                      "...",
		"one dot":                   ".",
		"words":                     "let me in",
		"two parts":                 parts[0] + "." + parts[1],
		"four parts":                good + "." + parts[2],
		"a dot behind":              good + ".",
		"no signature":              parts[0] + "." + parts[1] + ".",
		"another signature":         parts[0] + "." + parts[1] + "." + strings.Repeat("A", 86),
		"padding":                   good + "==",
		"a blank behind":            good + " ",
		"other claims":              parts[0] + "." + string(swapped) + "." + parts[2],
		"no algorithm":              sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, named, ours(nil)),
		"alg none on a good one":    header(`{"alg":"none","typ":"at+jwt","kid":"`+h.key.ID()+`"}`) + "." + parts[1] + ".",
		"alg nOnE":                  header(`{"alg":"nOnE","typ":"at+jwt","kid":"`+h.key.ID()+`"}`) + "." + parts[1] + ".",
		"HS256 with the public key": sign(t, jwt.SigningMethodHS256, public, named, ours(nil)),
		"HS512 with the public key": sign(t, jwt.SigningMethodHS512, public, named, ours(nil)),
		"an unknown algorithm":      header(`{"alg":"ROT13"}`) + "." + parts[1] + "." + parts[2],
		"another's key":             sign(t, jwt.SigningMethodEdDSA, foreign, named, ours(nil)),
		"another key's name":        sign(t, jwt.SigningMethodEdDSA, foreign, map[string]any{"typ": "at+jwt", "kid": "x"}, ours(nil)),
		"too large":                 good + strings.Repeat("A", 8<<10),
	} {
		h.refused(why, token, start)
	}
	// Only Mayfly has the key; tokens that it never signs are refused all the same.
	signs := func(header, claims map[string]any) string {
		full := maps.Clone(named)
		maps.Copy(full, header)
		return sign(t, jwt.SigningMethodEdDSA, h.key.Private(), full, claims)
	}
	h.verified(signs(nil, ours(nil)), start)
	for why, token := range map[string]string{
		"no time":               signs(nil, ours(map[string]any{"exp": nil})),
		"a time in words":       signs(nil, ours(map[string]any{"exp": "tomorrow"})),
		"over":                  signs(nil, ours(map[string]any{"exp": seconds(0)})),
		"not good yet":          signs(nil, ours(map[string]any{"nbf": seconds(60)})),
		"issued tomorrow":       signs(nil, ours(map[string]any{"iat": seconds(86_400)})),
		"another audience":      signs(nil, ours(map[string]any{"aud": "elsewhere"})),
		"no audience":           signs(nil, ours(map[string]any{"aud": nil})),
		"another issuer":        signs(nil, ours(map[string]any{"iss": "elsewhere"})),
		"no issuer":             signs(nil, ours(map[string]any{"iss": nil})),
		"no subject":            signs(nil, ours(map[string]any{"sub": nil})),
		"a subject of controls": signs(nil, ours(map[string]any{"sub": "a\nb"})),
		"a long subject":        signs(nil, ours(map[string]any{"sub": strings.Repeat("x", 257)})),
		"another type":          signs(map[string]any{"typ": "JWT"}, ours(nil)),
		"no type":               signs(map[string]any{"typ": nil}, ours(nil)),
		"critical extensions":   signs(map[string]any{"crit": []string{"exp"}}, ours(nil)),
		"scopes in a list":      signs(nil, ours(map[string]any{"scope": []string{"user"}})),
	} {
		h.refused(why, token, start)
	}
	p := h.verified(signs(nil, ours(map[string]any{"scope": "openid user user root"})), start)
	if !slices.Equal(p.Scopes, []account.Scope{account.User}) {
		t.Errorf("%v", p.Scopes)
	}
	if p := h.verified(signs(nil, ours(map[string]any{"scope": ""})), start); len(p.Scopes) > 0 || p.Viewer() != (mayfly.Viewer{}) || p.IsAnonymous() {
		t.Errorf("%+v", p)
	}
}

func TestNoRefusalContainsPartOfTheToken(t *testing.T) {
	h := open(t)
	token := h.mint(ana(), "a-very-private-name", account.User)
	_, err := h.accounts.Verify(t.Context(), token, within(time.Hour))
	if err == nil || strings.Contains(err.Error(), "private") || strings.Contains(err.Error(), token[:20]) {
		t.Fatal(err)
	}
	_, err = h.accounts.Verify(t.Context(), "secret.secret.secret", start)
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Fatal(err)
	}
}

func TestAnErasedUsersTokenIsRefusedAtOnceAlsoWhenCached(t *testing.T) {
	h := open(t)
	user, moderator, service := h.mint(ana(), "ana", account.User), h.mint(ana(), "ana", account.Moderator), h.mint(mayfly.UserID{}, "feed", account.Service)
	_, refresh, err := h.accounts.Issue(t.Context(), ana(), "ana", start)
	h.must(err)
	for _, token := range []string{user, moderator, service} {
		h.verified(token, start)
	}
	h.erase(ana())
	h.refused("erased", user, start)
	h.refused("erased", moderator, start)
	acting := h.verified(service, start)
	if p, err := h.accounts.ActFor(t.Context(), acting, ana().String()); !errors.Is(err, mayfly.Denied) || !p.IsAnonymous() {
		t.Errorf("acting for who was erased: %+v, %v", p, err)
	}
	_, _, err = h.accounts.Issue(t.Context(), ana(), "ana", start)
	wantRefusal(t, "new tokens", err)
	_, _, _, err = h.accounts.Refresh(t.Context(), string(refresh), start)
	wantRefusal(t, "next tokens", err)
}

func TestOnlyAServiceActsForAUserAndSeesWhatTheySee(t *testing.T) {
	h := open(t)
	everything := h.verified(h.mint(ben(), "feed", account.User, account.Service, account.Moderator, account.Admin), start)
	for _, header := range []string{ana().String(), "~ana"} {
		p, err := h.accounts.ActFor(t.Context(), everything, header)
		if err != nil || p.User != ana() || p.Viewer() != mayfly.ViewerOf(ana()) || p.Has(account.Moderator) || p.Has(account.Admin) || !p.Has(account.User) {
			t.Errorf("%s: %+v, %v", header, p, err)
		}
		if p.Actor() != (audit.Actor{Issuer: "mayfly", Subject: "feed", For: ana()}) {
			t.Error(p.Actor())
		}
	}
	if p, err := h.accounts.ActFor(t.Context(), everything, ""); err != nil || p.User != ben() || p.For {
		t.Errorf("%+v, %v", p, err)
	}
	for _, scope := range []account.Scope{account.User, account.Moderator, account.Admin} {
		p := h.verified(h.mint(ben(), "ben", scope), start)
		if _, err := h.accounts.ActFor(t.Context(), p, ana().String()); !errors.Is(err, mayfly.Denied) {
			t.Errorf("%s: %v", scope, err)
		}
	}
	if _, err := h.accounts.ActFor(t.Context(), account.Principal{}, ana().String()); !errors.Is(err, mayfly.Denied) {
		t.Error(err)
	}
	for _, header := range []string{"ana", "~", "~a\x00b", "~" + strings.Repeat("x", 257), strings.ToUpper(ana().String()), "00000000-0000-0000-0000-000000000000"} {
		if _, err := h.accounts.ActFor(t.Context(), everything, header); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%q: %v", header, err)
		}
	}
}

// An issuer chooses the names of its subjects.
func TestNoSubjectLooksLikeAnotherIssuers(t *testing.T) {
	admins := []account.Scope{account.Admin}
	real := account.Principal{Issuer: "mayfly", Subject: "ben", Scopes: admins}.Actor()
	for _, p := range []account.Principal{{Issuer: "shop", Subject: "ben"}, {Issuer: "shop", Subject: "ben of mayfly"}, {Issuer: "shop", Subject: `ben" of "mayfly`}, {Subject: `"ben" of "mayfly"`}} {
		p.Scopes = admins
		if got := p.Actor(); got == real || got.Issuer != p.Issuer || got.Subject != p.Subject || p.Issuer != "" && got.String() == real.String() {
			t.Errorf("%+v is recorded as %+v, %s", p, got, got)
		}
	}
}

func TestALongNameStaysAnActor(t *testing.T) {
	p := account.Principal{Subject: strings.Repeat("ä", 128), Issuer: "x" + strings.Repeat("ä", 500), Scopes: []account.Scope{account.Admin}}
	e := audit.Entry{Actor: p.Actor(), Verb: audit.Repair, Reason: "a test"}
	if err := e.Validate(); err != nil || e.Actor.Subject != p.Subject || !strings.HasPrefix(p.Issuer, e.Actor.Issuer) || len(e.Actor.Issuer) < 255 {
		t.Errorf("%v: %+v", err, e.Actor)
	}
}

func TestGrantsThatMakeNoSenseAreRefused(t *testing.T) {
	h := open(t)
	for why, mint := range map[string]func() (account.Token, error){
		"no scope":      func() (account.Token, error) { return h.accounts.Mint(ana(), "ana", nil, 0, start) },
		"no such scope": func() (account.Token, error) { return h.accounts.Mint(ana(), "ana", []account.Scope{"root"}, 0, start) },
		"a user's of no user": func() (account.Token, error) {
			return h.accounts.Mint(mayfly.UserID{}, "ana", []account.Scope{account.User}, 0, start)
		},
		"without a user": func() (account.Token, error) {
			return h.accounts.Mint(mayfly.UserID{}, "", []account.Scope{account.Service}, 0, start)
		},
		"too long": func() (account.Token, error) {
			return h.accounts.Mint(ana(), "ana", []account.Scope{account.User}, account.LongestGrant+1, start)
		},
		"less than nothing": func() (account.Token, error) {
			return h.accounts.Mint(ana(), "ana", []account.Scope{account.User}, -time.Hour, start)
		},
	} {
		if token, err := mint(); !errors.Is(err, mayfly.Invalid) || token != "" {
			t.Errorf("%s: %v", why, err)
		}
	}
}

func TestAStoreThatIsAwayIsNoBadToken(t *testing.T) {
	var broken atomic.Bool
	h := open(t, func(o *account.Options) { o.Rows = breaking{o.Rows, &broken} })
	token := h.mint(ana(), "ana", account.User)
	h.verified(token, start)
	broken.Store(true)
	if _, err := h.accounts.Verify(t.Context(), token, start); !errors.Is(err, mayfly.Unavailable) || errors.Is(err, mayfly.Unauthenticated) {
		t.Error(err)
	}
}

type breaking struct {
	store.Rows
	broken *atomic.Bool
}

func (b breaking) Get(ctx context.Context, t store.Table, keys ...store.Key) ([][]byte, error) {
	if b.broken.Load() {
		return nil, mayfly.Errorf(mayfly.Unavailable, "away")
	}
	return b.Rows.Get(ctx, t, keys...)
}

func TestSettingsThatCannotWorkAreRefused(t *testing.T) {
	h := open(t)
	for why, change := range map[string]func(*account.Options){
		"no rows":                func(o *account.Options) { o.Rows = nil },
		"no key":                 func(o *account.Options) { o.Key = nil },
		"no signals":             func(o *account.Options) { o.Signals = nil },
		"short access":           func(o *account.Options) { o.Access = time.Millisecond },
		"short refresh":          func(o *account.Options) { o.Refresh = time.Minute },
		"a negative rate":        func(o *account.Options) { o.Reads.Count = -1 },
		"a rate of no time":      func(o *account.Options) { o.Reads.Count = 1 },
		"trusting ourselves":     func(o *account.Options) { o.Trusted = account.Trusted{Issuer: "mayfly", URL: "https://example.org"} },
		"trusted, no keys":       func(o *account.Options) { o.Trusted = account.Trusted{Issuer: "shop"} },
		"keys without an issuer": func(o *account.Options) { o.Trusted = account.Trusted{URL: "https://example.org"} },
		"two places of keys": func(o *account.Options) {
			o.Trusted = account.Trusted{Issuer: "shop", File: "x", URL: "https://example.org"}
		},
		"keys in the open":    func(o *account.Options) { o.Trusted = account.Trusted{Issuer: "shop", URL: "http://example.org"} },
		"keys nowhere":        func(o *account.Options) { o.Trusted = account.Trusted{Issuer: "shop", URL: "://"} },
		"a file not there":    func(o *account.Options) { o.Trusted = account.Trusted{Issuer: "shop", File: t.TempDir() + "/x"} },
		"a file from another": func(o *account.Options) { o.Trusted = account.Trusted{Issuer: "shop", URL: "file:///etc/keys"} },
	} {
		o := account.Options{Rows: h.rows, Signals: h.signals, Key: h.key}
		change(&o)
		if _, err := account.New(t.Context(), o); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%s: %v", why, err)
		}
	}
}

func TestAnswersAreTheSameWithoutRememberedTokens(t *testing.T) {
	h := open(t, func(o *account.Options) { o.Verified = -1 })
	token := h.mint(ana(), "ana", account.User)
	for range 2 {
		if p := h.verified(token, start); p.User != ana() {
			t.Errorf("%+v", p)
		}
	}
	h.refused("over", token, within(15*time.Minute))
}
