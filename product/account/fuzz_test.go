package account_test

import (
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
)

// FuzzVerify shows that no text is accepted as a token but one that the key signed,
// and that every refusal has a hint.
func FuzzVerify(f *testing.F) {
	h := open(f)
	good := h.mint(ana(), "", account.User)
	head, rest, _ := strings.Cut(good, ".")
	body, signature, _ := strings.Cut(rest, ".")
	none := "eyJhbGciOiJub25lIiwidHlwIjoiYXQrand0In0" // {"alg":"none","typ":"at+jwt"}
	for _, text := range []string{
		good, "", ".", "..", "...", head, head + "." + body, head + "." + body + ".", good + ".", good + "=", none + "." + body + ".", none + "." + body + "." + signature,
		body + "." + body + "." + signature, head + ".e30." + signature, strings.ToUpper(good), " " + good, strings.Repeat("a.", 5000),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := h.accounts.Verify(t.Context(), text, start)
		if err != nil {
			wantRefusal(t, text, err)
			return
		}
		if text != good {
			t.Fatalf("%q is accepted as %+v", text, p)
		}
	})
}

// FuzzJWKS shows that no key set makes the server panic, and that a key is taken
// from it only if it can verify.
func FuzzJWKS(f *testing.F) {
	public := strings.Repeat("A", 43)
	for _, text := range []string{
		`{"keys":[]}`, `{"keys":null}`, `[]`, `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + public + `"}]}`, `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA"}]}`,
		`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}`, `{"keys":[{"kty":"RSA","n":"` + strings.Repeat("_", 400) + `","e":"AAAA"}]}`,
		`{"keys":[{"kty":"RSA","n":"` + strings.Repeat("_", 400) + `","e":"Aw"}]}`, `{"keys":[{"kty":"EC"},{"kid":7}]}`, `{"keys":[` + strings.Repeat(`{},`, 101) + `{}]}`,
	} {
		f.Add([]byte(text))
	}
	signed := sign(f, jwt.SigningMethodEdDSA, ed25519.NewKeyFromSeed(make([]byte, 32)), map[string]any{}, shops(nil))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := account.ReadJWKS(text)
		if err != nil {
			if !errors.Is(err, mayfly.Invalid) && !errors.Is(err, mayfly.TooLarge) {
				t.Fatal(err)
			}
			return
		}
		for _, key := range keys {
			_, _ = jwt.Parse(signed, func(*jwt.Token) (any, error) { return key, nil }) // must not panic
		}
	})
}
