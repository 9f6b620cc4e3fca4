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
	"net/http"
	"os"

	"github.com/golang-jwt/jwt/v5"

	"github.com/mayflyhq/mayfly"
)

const (
	maxJWKS    = 1 << 20 // bytes
	maxKeys    = 100
	minRSABits = 2048
	maxRSABits = 8192 // a larger one only costs
)

// keySet is a JWKS as it was read. It is shared and never changed.
type keySet struct {
	sum  [sha256.Size]byte // of its bytes
	keys []trustedKey
}

type trustedKey struct {
	id     string
	alg    string
	public crypto.PublicKey
}

// find is the key of an id, if it is of the algorithm. A token that names no key
// is checked with the only one there is.
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

// read reads the keys from where they are. The same bytes are the same set, so
// that tokens that were checked stay so.
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
		_ = answer.Body.Close() // nothing of it is read
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
		return nil, mayfly.Errorf(mayfly.TooLarge, "they are more than %d bytes", maxJWKS)
	}
	return text, nil
}

// jwksClient follows a redirect on the same host only, and never to plain HTTP:
// whoever answers there says who everybody is.
func jwksClient() *http.Client {
	return &http.Client{
		Timeout:   readWithin,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if first := via[0].URL; r.URL.Host != first.Host || r.URL.Scheme != first.Scheme || len(via) > 3 {
				return mayfly.Errorf(mayfly.Invalid, "the keys are redirected to another host").WithHint("set tokens.jwksurl to where they are")
			}
			return nil
		},
	}
}

// jwk is a key as RFC 7517 and 8037 write it.
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

// readJWKS reads the keys that can sign tokens, and passes over the others: a
// product has keys for other uses too. A set of none is what its issuer says.
func readJWKS(text []byte) (*keySet, error) {
	var all struct {
		Keys *[]jwk `json:"keys"`
	}
	if err := json.Unmarshal(text, &all); err != nil || all.Keys == nil {
		return nil, mayfly.Errorf(mayfly.Invalid, "they are no JWKS")
	}
	if len(*all.Keys) > maxKeys {
		return nil, mayfly.Errorf(mayfly.TooLarge, "they are more than %d keys", maxKeys)
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
