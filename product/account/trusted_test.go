package account_test

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
)

// signer is a key of the embedding product.
type signer struct {
	id     string
	method jwt.SigningMethod
	key    crypto.Signer
}

func edKey(t *testing.T, id string) signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{id, jwt.SigningMethodEdDSA, key}
}

func rsaKey(t *testing.T, id string, bits int) signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return signer{id, jwt.SigningMethodRS256, key}
}

func (s signer) jwk() map[string]any {
	text := base64.RawURLEncoding.EncodeToString
	switch public := s.key.Public().(type) {
	case ed25519.PublicKey:
		return map[string]any{"kty": "OKP", "crv": "Ed25519", "kid": s.id, "use": "sig", "alg": "EdDSA", "x": text(public)}
	case *rsa.PublicKey:
		return map[string]any{"kty": "RSA", "kid": s.id, "n": text(public.N.Bytes()), "e": text(big.NewInt(int64(public.E)).Bytes())}
	default:
		panic("no such key")
	}
}

func jwks(t *testing.T, signers ...signer) []byte {
	t.Helper()
	keys := []any{map[string]any{"kty": "EC", "crv": "P-256", "kid": "of another use"}, map[string]any{"kty": "oct", "k": "c2VjcmV0", "kid": "shared"}}
	for _, s := range signers {
		keys = append(keys, s.jwk())
	}
	b, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// shops returns the claims of a valid token of the trusted issuer, with changes.
func shops(change map[string]any) map[string]any {
	claims := map[string]any{"iss": "shop", "aud": "mayfly", "sub": "ana", "iat": seconds(0), "exp": seconds(3600)}
	for name, value := range change {
		if value == nil {
			delete(claims, name)
		} else {
			claims[name] = value
		}
	}
	return claims
}

func (s signer) token(t *testing.T, change map[string]any) string {
	t.Helper()
	header := map[string]any{}
	if s.id != "" {
		header["kid"] = s.id
	}
	return sign(t, s.method, s.key, header, shops(change))
}

func jwksFile(t *testing.T, signers ...signer) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(path, jwks(t, signers...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func trustFile(path string) func(*account.Options) {
	return func(o *account.Options) { o.Trusted = account.Trusted{Issuer: "shop", File: path} }
}

func TestTokensOfATrustedIssuerAreBelieved(t *testing.T) {
	ed, rs := edKey(t, "ed"), rsaKey(t, "rs", 2048)
	path := jwksFile(t, ed, rs)
	h := open(t, trustFile(path))
	for _, s := range []signer{ed, rs} {
		p := h.verified(s.token(t, nil), start)
		if p.User != mayfly.UserOf("shop", "ana") || !p.Has(account.User) || p.Issuer != "shop" {
			t.Errorf("%s: %+v", s.id, p)
		}
		h.verified(s.token(t, map[string]any{"aud": []string{"x", "mayfly"}, "iat": nil, "exp": seconds(86_400)}), start)
	}
	// C8: a UUID subject is the user only of the home issuer.
	uuid := map[string]any{"sub": ben().String()}
	if p := h.verified(ed.token(t, uuid), start); p.User != mayfly.UserOf("shop", ben().String()) {
		t.Errorf("%+v", p)
	}
	home := open(t, trustFile(path), func(o *account.Options) { o.Home = "shop" })
	if p := home.verified(ed.token(t, uuid), start); p.User != ben() {
		t.Errorf("%+v", p)
	}
	if u, err := home.accounts.UserNamed("~ana"); err != nil || u != mayfly.UserOf("shop", "ana") {
		t.Errorf("%s, %v", u, err)
	}
	// A claim of ours means nothing in others' tokens.
	if p := home.verified(ed.token(t, map[string]any{"user": ben().String()}), start); p.User != mayfly.UserOf("shop", "ana") {
		t.Errorf("%+v", p)
	}
}

func TestTokensThatATrustedIssuerMayNotMakeAreRefused(t *testing.T) {
	ed, rs, weak, unlisted := edKey(t, "ed"), rsaKey(t, "rs", 2048), rsaKey(t, "weak", 1024), edKey(t, "unlisted")
	h := open(t, trustFile(jwksFile(t, ed, rs, weak)))
	rsPublic := rs.key.Public().(*rsa.PublicKey).N.Bytes()
	crossed, nameless := signer{"rs", ed.method, ed.key}, signer{"", ed.method, ed.key}
	for why, token := range map[string]string{
		"a day and a second":        ed.token(t, map[string]any{"exp": seconds(86_401)}),
		"long, of unknown date":     ed.token(t, map[string]any{"exp": seconds(86_401), "iat": nil}),
		"no time":                   ed.token(t, map[string]any{"exp": nil}),
		"over":                      ed.token(t, map[string]any{"exp": seconds(0), "iat": seconds(-60)}),
		"issued tomorrow":           ed.token(t, map[string]any{"iat": seconds(3000)}),
		"another audience":          ed.token(t, map[string]any{"aud": "shop"}),
		"our name":                  ed.token(t, map[string]any{"iss": "mayfly"}),
		"another name":              ed.token(t, map[string]any{"iss": "Shop"}),
		"a weak key":                weak.token(t, nil),
		"an unlisted key":           unlisted.token(t, nil),
		"another key's name":        crossed.token(t, nil),
		"no key's name, and many":   nameless.token(t, nil),
		"RS512":                     sign(t, jwt.SigningMethodRS512, rs.key, map[string]any{"kid": "rs"}, shops(nil)),
		"PS256":                     sign(t, jwt.SigningMethodPS256, rs.key, map[string]any{"kid": "rs"}, shops(nil)),
		"HS256 with a public key":   sign(t, jwt.SigningMethodHS256, rsPublic, map[string]any{"kid": "rs"}, shops(nil)),
		"HS256 with the shared one": sign(t, jwt.SigningMethodHS256, []byte("secret"), map[string]any{"kid": "shared"}, shops(nil)),
		"none":                      sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, map[string]any{"kid": "ed"}, shops(nil)),
		"a key in the header":       sign(t, unlisted.method, unlisted.key, map[string]any{"kid": "ed", "jwk": unlisted.jwk()}, shops(nil)),
	} {
		h.refused(why, token, start)
	}
	alone := open(t, trustFile(jwksFile(t, ed)))
	alone.verified(nameless.token(t, nil), start)
	alone.refused("the key of ours for the trusted issuer", signer{h.key.ID(), jwt.SigningMethodEdDSA, h.key.Private()}.token(t, nil), start)
}

func TestATrustedIssuerGrantsOnlyTheScopesItMay(t *testing.T) {
	ed := edKey(t, "ed")
	path := jwksFile(t, ed)
	scope := func(words string) string { return ed.token(t, map[string]any{"scope": words}) }
	h := open(t, trustFile(path))
	for _, words := range []string{"admin", "service", "moderator", "admin service", "", "other"} {
		h.refused("the scope "+words, scope(words), start)
	}
	if p := h.verified(scope("user admin service moderator"), start); !slices.Equal(p.Scopes, []account.Scope{account.User}) {
		t.Errorf("%+v", p)
	}
	wide := open(t, trustFile(path), func(o *account.Options) { o.Trusted.Scopes = []account.Scope{account.User, account.Service} })
	if p := wide.verified(scope("service admin"), start); !slices.Equal(p.Scopes, []account.Scope{account.Service}) || !p.User.IsZero() {
		t.Errorf("%+v", p)
	}
	if p := wide.verified(ed.token(t, nil), start); !slices.Equal(p.Scopes, []account.Scope{account.User}) {
		t.Errorf("without the claim: %+v", p)
	}
	services := open(t, trustFile(path), func(o *account.Options) { o.Trusted.Scopes = []account.Scope{account.Service} })
	services.refused("no claim, which means user", ed.token(t, nil), start)
}

func TestATrustedTokenOfAnotherTypeIsRefused(t *testing.T) {
	ed := edKey(t, "ed")
	h := open(t, trustFile(jwksFile(t, ed)))
	typed := func(typ any) string {
		return sign(t, ed.method, ed.key, map[string]any{"kid": "ed", "typ": typ}, shops(nil))
	}
	for _, typ := range []any{nil, "JWT", "jwt", "at+jwt", "application/at+jwt", "AT+JWT"} {
		h.verified(typed(typ), start)
	}
	for _, typ := range []any{"logout+jwt", "dpop+jwt", "secevent+jwt", "JWE", "", 7, []string{"JWT"}} {
		h.refused(fmt.Sprintf("typ %v", typ), typed(typ), start)
	}
}

// look reads the trusted keys again if they are due, and waits for it. A read
// that an earlier token started may have seen the old keys.
func (h *fixture) look(now mayfly.Instant) {
	h.accounts.Settle()
	h.accounts.Touch(now)
	h.accounts.Settle()
}

func TestKeysInAFileTurnOverWhenItChanges(t *testing.T) {
	old, young := edKey(t, "old"), rsaKey(t, "young", 2048)
	path := jwksFile(t, old)
	h := open(t, trustFile(path))
	first, second := old.token(t, nil), young.token(t, nil)
	h.verified(first, start)
	h.refused("not yet listed", second, start)
	write := func(b []byte) { h.must(os.WriteFile(path, b, 0o600)) }

	write(jwks(t, old, young))
	h.look(within(20 * time.Second))
	h.verified(second, within(21*time.Second))
	h.verified(first, within(21*time.Second))

	write(jwks(t, young))
	h.look(within(40 * time.Second))
	h.refused("no longer listed, though remembered", first, within(41*time.Second))
	h.verified(second, within(41*time.Second))

	write([]byte("{"))
	h.look(within(60 * time.Second))
	h.verified(second, within(61*time.Second)) // what was read stays good
	if h.accounts.TrustedFailure() == nil {
		t.Error("the failure to read the file is not reported")
	}
	write([]byte(`{"keys":[]}`))
	h.look(within(80 * time.Second))
	h.refused("the issuer took every key back", second, within(81*time.Second))
	if err := h.accounts.TrustedFailure(); err != nil {
		t.Error(err)
	}
}

// keyServer serves a JWKS that can be changed, and counts the requests.
type keyServer struct {
	*httptest.Server
	asked  atomic.Int64
	mu     sync.Mutex
	answer http.HandlerFunc
}

func serveKeys(t *testing.T) *keyServer {
	t.Helper()
	s := &keyServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		s.mu.Lock()
		answer := s.answer
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *keyServer) with(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *keyServer) keys(b []byte) {
	s.with(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(b) })
}

func (s *keyServer) trust(o *account.Options) {
	o.Trusted = account.Trusted{Issuer: "shop", URL: s.URL + "/keys"}
}

func TestKeysAtAURLTurnOverAndAreAskedForSeldom(t *testing.T) {
	s, old, young := serveKeys(t), edKey(t, "old"), edKey(t, "young")
	s.keys(jwks(t, old))
	h := open(t, s.trust)
	first, second := old.token(t, nil), young.token(t, nil)
	for range 10 {
		h.verified(first, start)
	}
	if n := s.asked.Load(); n != 1 {
		t.Fatalf("asked %d times", n)
	}
	for i := range 100 { // tokens with unknown keys cause no more reads
		h.refused("unknown", second, within(time.Duration(i)*100*time.Millisecond)-1)
	}
	if n := s.asked.Load(); n > 1 {
		t.Fatalf("asked %d times", n)
	}
	s.keys(jwks(t, old, young))
	h.verified(second, within(10*time.Second)) // unknown: asked for at once, and waited for
	if n := s.asked.Load(); n != 2 {
		t.Fatalf("asked %d times", n)
	}
	s.keys(jwks(t, young))
	h.look(within(5*time.Minute + 10*time.Second))
	h.refused("no longer listed", first, within(5*time.Minute+12*time.Second))
	h.verified(second, within(5*time.Minute+12*time.Second))
}

func TestKeysThatWereReadStayGoodWhileTheURLFails(t *testing.T) {
	s, ed := serveKeys(t), edKey(t, "ed")
	s.keys(jwks(t, ed))
	h := open(t, s.trust)
	h.verified(ed.token(t, nil), start)
	elsewhere := serveKeys(t)
	elsewhere.keys(jwks(t, edKey(t, "ed")))
	for i, answer := range []http.HandlerFunc{
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) },
		func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"keys":[],"x":"%s"}`, strings.Repeat("x", 1<<20))
		},
		func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"keys":[%s{}]}`, strings.Repeat("{},", 100))
		},
		func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) },
		func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/keys", http.StatusFound) },
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		s.with(answer)
		now := within(time.Duration(i+1) * 5 * time.Minute)
		h.look(now)
		if h.accounts.TrustedFailure() == nil {
			t.Errorf("answer %d was taken", i)
		}
		h.verified(ed.token(t, nil), now)
	}
	if elsewhere.asked.Load() != 0 {
		t.Error("a redirect to another host was followed")
	}
	s.with(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			http.Redirect(w, r, "/other", http.StatusFound)
			return
		}
		_, _ = w.Write(jwks(t, ed))
	})
	h.look(within(55 * time.Minute))
	if err := h.accounts.TrustedFailure(); err != nil {
		t.Errorf("a redirect on the same host: %v", err)
	}
}

func TestKeysThatWereNeverReadAreAnOutageAndNoBadToken(t *testing.T) {
	s, ed := serveKeys(t), edKey(t, "ed")
	s.with(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	h := open(t, s.trust)
	for range 5 {
		if _, err := h.accounts.Verify(t.Context(), ed.token(t, nil), start); !errors.Is(err, mayfly.Unavailable) {
			t.Fatal(err)
		}
	}
	if n := s.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	h.verified(h.mint(ana(), "ana", account.User), start) // our own need no others' keys
	s.keys(jwks(t, ed))
	h.verified(ed.token(t, nil), within(10*time.Second))
}

func TestWaitingForKeysEndsWithTheContext(t *testing.T) {
	s, ed := serveKeys(t), edKey(t, "ed")
	hang, begun := make(chan struct{}), make(chan struct{})
	s.with(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	h := open(t, s.trust)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	if _, err := h.accounts.Verify(ctx, ed.token(t, nil), start); !errors.Is(err, mayfly.Unavailable) {
		t.Error(err)
	}
	h.must(h.accounts.Close()) // ends the reading
	close(hang)
}

func TestManyTokensWithANewKeyCauseOneRead(t *testing.T) {
	s, ed := serveKeys(t), edKey(t, "ed")
	s.keys(jwks(t, ed))
	h := open(t, s.trust)
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			token := ed.token(t, map[string]any{"jti": fmt.Sprint(i)})
			if _, err := h.accounts.Verify(t.Context(), token, start); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := s.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}
