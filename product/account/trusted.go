package account

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/mayflyhq/mayfly"
)

// Trusted is the issuer of the embedding product and the location of its public
// keys: a JWKS in a file or at a URL (C1).
type Trusted struct {
	Issuer  string
	File    string        // read again when it changes
	URL     string        // https, or http on this machine; read again after Every
	Every   time.Duration // default 5 min
	Longest time.Duration // lifetime of its tokens; default 24 h
	Scopes  []Scope       // what its tokens may grant; default user
}

const (
	fileEvery    = time.Second      // how often a file is read again
	unknownEvery = 10 * time.Second // shortest time between two reads that tokens with unknown keys cause
	readWithin   = 5 * time.Second
)

func (o Trusted) withDefaults() (Trusted, error) {
	if o.Every == 0 {
		o.Every = 5 * time.Minute
	}
	if o.Longest == 0 {
		o.Longest = 24 * time.Hour
	}
	if len(o.Scopes) == 0 {
		o.Scopes = []Scope{User}
	}
	if o.File != "" {
		o.Every = min(o.Every, fileEvery)
	}
	if o.Issuer == "" || (o.File == "") == (o.URL == "") || o.Every < 0 || o.Longest < 0 {
		return o, mayfly.Errorf(mayfly.Invalid, "a trusted issuer needs a name, and either a file or a URL of its keys").
			WithHint("set tokens.trusted, and one of tokens.jwks_file and tokens.jwks_url")
	}
	if o.URL == "" {
		return o, nil
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return o, mayfly.Errorf(mayfly.Invalid, "the keys of %s cannot be read from %q", o.Issuer, o.URL).
			WithHint("use an https URL, so that the keys cannot be changed in transit; http is allowed for this machine only")
	}
	return o, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// trustedKeys has the keys of the trusted issuer. Requests cause reads in the
// background; only a request with an unknown key waits for one. Keys stay valid
// while later reads fail.
type trustedKeys struct {
	o      Trusted
	client *http.Client
	set    atomic.Pointer[keySet] // nil: never read

	ctx  context.Context // ends with close
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	looked  mayfly.Instant // when the last read began
	reading chan struct{}  // closed when the running read ends; nil if none runs
	failed  error          // of the last read
}

func newTrustedKeys(o Trusted) (*trustedKeys, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	t := &trustedKeys{o: o, client: jwksClient()}
	t.ctx, t.stop = context.WithCancel(context.Background())
	if o.File == "" {
		return t, nil
	}
	if err := t.read(t.ctx); err != nil { // a bad file is an error at start
		return nil, mayfly.Wrap(mayfly.Invalid, err, "write the issuer's public keys there, as a JWKS: {\"keys\": [...]}")
	}
	return t, nil
}

func (t *trustedKeys) close() {
	t.mu.Lock()
	t.stop()
	t.mu.Unlock()
	t.wg.Wait()
}

// current returns the keys; nil if they were never read.
func (t *trustedKeys) current() *keySet {
	if t == nil {
		return nil
	}
	return t.set.Load()
}

// touch starts a read of the keys when one is due.
func (t *trustedKeys) touch(now mayfly.Instant) { t.begin(now, t.o.Every) }

// begin starts a read if the last one began at least that long ago. It returns a
// channel that is closed when the running read ends; nil if none runs.
func (t *trustedKeys) begin(now mayfly.Instant, after time.Duration) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reading != nil {
		return t.reading
	}
	// The absolute difference: requests come out of order, and the clock may be set back (L7).
	if t.looked != 0 && now.Sub(t.looked).Abs() < after || t.ctx.Err() != nil {
		return nil
	}
	done := make(chan struct{})
	t.looked, t.reading = now, done
	t.wg.Go(func() {
		ctx, cancel := context.WithTimeout(t.ctx, readWithin)
		defer cancel()
		err := t.read(ctx)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.failed, t.reading = err, nil
		close(done)
	})
	return done
}

// key returns the issuer's key with that id and algorithm. An unknown key may be
// new, so the keys are read again, at most once per unknownEvery.
func (t *trustedKeys) key(ctx context.Context, id, alg string, now mayfly.Instant) (any, *keySet, error) {
	set := t.current()
	if key, ok := set.find(id, alg); ok {
		return key, set, nil
	}
	if done := t.begin(now, unknownEvery); done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return nil, nil, mayfly.Wrap(mayfly.Unavailable, ctx.Err(), "try again")
		}
	}
	set = t.current()
	if set == nil {
		return nil, nil, mayfly.Errorf(mayfly.Unavailable, "the keys of the trusted issuer cannot be read").WithHint("try again later; check tokens.jwks_file or tokens.jwks_url")
	}
	if key, ok := set.find(id, alg); ok {
		return key, set, nil
	}
	return nil, nil, refuse("the token is signed with a key that is not in its issuer's JWKS", "sign it with a key of the JWKS, EdDSA or RS256, and set the header kid")
}

// checkType refuses what its issuer has not signed as an access token, such as a
// logout token. Many issuers set no type, or JWT.
func checkType(header map[string]any) error {
	typ, set := header["typ"]
	if !set || typ == nil {
		return nil
	}
	text, _ := typ.(string)
	switch strings.TrimPrefix(strings.ToLower(text), "application/") {
	case "jwt", accessType:
		return nil
	}
	return refuse("the token is not an access token", "the header typ is JWT or at+jwt, or is left out")
}

// checkSpan refuses tokens with a long lifetime, because its issuer cannot revoke them here.
func (t *trustedKeys) checkSpan(c *claims, now mayfly.Instant) error {
	from := now.Time()
	if c.IssuedAt != nil {
		from = c.IssuedAt.Time
	}
	if c.ExpiresAt.Sub(from) > t.o.Longest {
		return refuse("the token lasts too long", "a trusted issuer's token lasts "+t.o.Longest.String()+" at most")
	}
	return nil
}

// TrustedFailure returns the error of the last read of the trusted issuer's keys;
// nil if it succeeded or no issuer is trusted.
func (a *Accounts) TrustedFailure() error {
	if a.trusted == nil {
		return nil
	}
	a.trusted.mu.Lock()
	defer a.trusted.mu.Unlock()
	return a.trusted.failed
}

const (
	maxJWKS    = 1 << 20 // bytes
	maxKeys    = 100
	minRSABits = 2048
	maxRSABits = 8192 // larger keys only cost time
)

// keySet is a parsed JWKS. It is shared and never changed.
type keySet struct {
	sum  [sha256.Size]byte // of its bytes
	keys []trustedKey
}

type trustedKey struct {
	id     string
	alg    string
	public crypto.PublicKey
}

// find returns the key with that id and algorithm. A token without a key id is
// verified with the only key of the set, if there is only one.
func (s *keySet) find(id, alg string) (crypto.PublicKey, bool) {
	if s == nil {
		return nil, false
	}
	for _, k := range s.keys {
		if k.alg == alg && (k.id == id || id == "" && len(s.keys) == 1) {
			return k.public, true
		}
	}
	return nil, false
}

// read reads the keys. If the bytes have not changed the set stays the same one, so
// that cached tokens stay valid.
func (t *trustedKeys) read(ctx context.Context) error {
	text, err := t.text(ctx)
	if err != nil {
		return fmt.Errorf("keys of %s: %w", t.o.Issuer, err)
	}
	if old := t.set.Load(); old != nil && old.sum == sha256.Sum256(text) {
		return nil
	}
	set, err := readJWKS(text)
	if err != nil {
		return fmt.Errorf("keys of %s: %w", t.o.Issuer, err)
	}
	t.set.Store(set)
	return nil
}

func (t *trustedKeys) text(ctx context.Context) ([]byte, error) {
	if t.o.File != "" {
		f, err := os.Open(t.o.File)
		if err != nil {
			return nil, err
		}
		return limited(f)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.o.URL, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/jwk-set+json, application/json")
	answer, err := t.client.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		_ = answer.Body.Close() // the body is not needed
		return nil, mayfly.Errorf(mayfly.Unavailable, "%s answers %s", t.o.URL, answer.Status)
	}
	return limited(answer.Body)
}

func limited(r io.ReadCloser) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxJWKS+1))
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	if len(text) > maxJWKS {
		return nil, mayfly.Errorf(mayfly.TooLarge, "JWKS is larger than %d bytes", maxJWKS)
	}
	return text, nil
}

// jwksClient returns an HTTP client that follows redirects on the same host and
// scheme only: a host that serves the keys can impersonate every user.
func jwksClient() *http.Client {
	return &http.Client{
		Timeout:   readWithin,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if first := via[0].URL; r.URL.Host != first.Host || r.URL.Scheme != first.Scheme || len(via) > 3 {
				return mayfly.Errorf(mayfly.Invalid, "the keys are redirected to another host").WithHint("set tokens.jwks_url to the final URL")
			}
			return nil
		},
	}
}

// jwk is a key in the format of RFC 7517 and 8037.
type jwk struct {
	Type  string `json:"kty"`
	ID    string `json:"kid"`
	Use   string `json:"use"`
	Alg   string `json:"alg"`
	Curve string `json:"crv"`
	X     string `json:"x"`
	N     string `json:"n"`
	E     string `json:"e"`
}

// readJWKS returns the keys that can sign tokens and ignores keys for other uses.
// An empty set is valid.
func readJWKS(text []byte) (*keySet, error) {
	var all struct {
		Keys *[]jwk `json:"keys"`
	}
	if err := json.Unmarshal(text, &all); err != nil || all.Keys == nil {
		return nil, mayfly.Errorf(mayfly.Invalid, "not a JWKS")
	}
	if len(*all.Keys) > maxKeys {
		return nil, mayfly.Errorf(mayfly.TooLarge, "JWKS has more than %d keys", maxKeys)
	}
	set := &keySet{sum: sha256.Sum256(text)}
	for _, k := range *all.Keys {
		if key, ok := k.trusted(); ok {
			set.keys = append(set.keys, key)
		}
	}
	return set, nil
}

func (k jwk) trusted() (trustedKey, bool) {
	if k.Use != "" && k.Use != "sig" {
		return trustedKey{}, false
	}
	t := trustedKey{id: k.ID}
	switch {
	case k.Type == "OKP" && k.Curve == "Ed25519":
		t.alg = jwt.SigningMethodEdDSA.Alg()
		x, err := base64.RawURLEncoding.DecodeString(k.X)
		if err != nil || len(x) != ed25519.PublicKeySize {
			return trustedKey{}, false
		}
		t.public = ed25519.PublicKey(x)
	case k.Type == "RSA":
		t.alg = jwt.SigningMethodRS256.Alg()
		public, ok := k.rsa()
		if !ok {
			return trustedKey{}, false
		}
		t.public = public
	default:
		return trustedKey{}, false
	}
	return t, k.Alg == "" || k.Alg == t.alg || k.Alg == "Ed25519" && k.Type == "OKP"
}

func (k jwk) rsa() (*rsa.PublicKey, bool) {
	n, bad := base64.RawURLEncoding.DecodeString(k.N)
	e, worse := base64.RawURLEncoding.DecodeString(k.E)
	if bad != nil || worse != nil || len(e) == 0 || len(e) > 4 {
		return nil, false
	}
	public := &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(new(big.Int).SetBytes(e).Int64())}
	bits := public.N.BitLen()
	return public, bits >= minRSABits && bits <= maxRSABits && public.E >= 3 && public.E&1 == 1
}
