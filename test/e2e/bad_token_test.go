package e2e

import (
	"crypto"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
)

// badTokens are invalid tokens, and valid ones without the scope that is needed.
func (h *badServer) badTokens() []badCase {
	story := "/v1/stories/" + h.good.ID.String()
	good := h.bearer("ana")
	parts := strings.Split(good, ".")
	head, claims, signature := parts[0], parts[1], parts[2]
	now := h.node.Clock().Read().Now
	public := h.node.Key().Public()
	var all []badCase
	add := func(name, token, says string) {
		all = append(all, badCase{name, badAsk{method: http.MethodGet, target: story, header: []string{"Authorization: Bearer " + token}}, badToken(says)})
	}
	line := func(name string, want badWant, lines ...string) {
		all = append(all, badCase{name, badAsk{method: http.MethodGet, target: story, header: lines}, want})
	}
	encode := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			h.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	decode := func(part string) map[string]any {
		text, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil {
			h.Fatal(err)
		}
		v := map[string]any{}
		if err := json.Unmarshal(text, &v); err != nil {
			h.Fatal(err)
		}
		return v
	}
	header := func(change func(map[string]any)) string {
		v := decode(head)
		change(v)
		return encode(v)
	}
	algorithm := func(name string) string { return header(func(v map[string]any) { v["alg"] = name }) }
	mac := func(key []byte, text string) string {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(text))
		return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
	}
	_, another, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		h.Fatal(err)
	}
	sign := func(key ed25519.PrivateKey, text string) string {
		return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(text)))
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		h.Fatal(err)
	}
	rs256 := algorithm("RS256") + "." + claims
	sum := sha256.Sum256([]byte(rs256))
	rsaSigned, err := rsa.SignPKCS1v15(rand.Reader, rsaKey, crypto.SHA256, sum[:])
	if err != nil {
		h.Fatal(err)
	}

	add("nothing", "", "")
	add("a word", "token", "malformed")
	add("dots", "..", "")
	add("a thousand dots", strings.Repeat(".", 1000), "")
	add("four parts", good+".x", "malformed")
	add("two parts", head+"."+claims, "malformed")
	add("a dot behind it", good+".", "malformed")
	add("a dot before it", "."+good, "malformed")
	add("9 KiB", strings.Repeat("a", 9<<10), "8 KiB")
	add("9 KiB that begin well", good+strings.Repeat("a", 9<<10), "8 KiB")
	add("no algorithm", algorithm("none")+"."+claims+".", "")
	add("no algorithm, another spelling", algorithm("NoNe")+"."+claims+".", "")
	add("no algorithm, with the old signature", algorithm("none")+"."+claims+"."+signature, "")
	hs := algorithm("HS256") + "." + claims
	add("the public key as a secret", hs+"."+mac(public, hs), "")
	add("an empty secret", hs+"."+mac(nil, hs), "")
	add("an empty signature", head+"."+claims+".", "")
	add("a signature of zeros", head+"."+claims+"."+base64.RawURLEncoding.EncodeToString(make([]byte, 64)), "signature")
	add("half a signature", head+"."+claims+"."+signature[:43], "")
	add("another key", sign(another, head+"."+claims), "signature")
	add("another key that comes with it", sign(another, header(func(v map[string]any) {
		v["jwk"] = map[string]string{"kty": "OKP", "crv": "Ed25519", "x": base64.RawURLEncoding.EncodeToString(another.Public().(ed25519.PublicKey))}
		v["jku"] = "http://127.0.0.1:1/keys"
	})+"."+claims), "")
	add("RS256", rs256+"."+base64.RawURLEncoding.EncodeToString(rsaSigned), "")
	add("another kid", header(func(v map[string]any) { v["kid"] = "../../key" })+"."+claims+"."+signature, "")
	add("a kid that is a number", header(func(v map[string]any) { v["kid"] = 1 })+"."+claims+"."+signature, "")
	add("critical", header(func(v map[string]any) { v["crit"] = []string{"exp"} })+"."+claims+"."+signature, "")
	changed := decode(claims)
	changed["scope"] = "user moderator admin"
	add("more scopes", head+"."+encode(changed)+"."+signature, "signature")
	changed["iss"] = "evil"
	add("another issuer", head+"."+encode(changed)+"."+signature, "issuer")
	add("no JSON", base64.RawURLEncoding.EncodeToString([]byte("{"))+"."+claims+"."+signature, "malformed")
	add("with padding", head+"=."+claims+"=."+signature+"==", "")
	last := strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", good[len(good)-1])
	add("bits behind the signature", good[:len(good)-1]+string("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[last^1]), "")
	minted := func(g account.Grant, at mayfly.Instant) string {
		if g.Issuer == "" {
			g.Issuer = issuer
		}
		if g.Audience == "" {
			g.Audience = issuer
		}
		g.User, g.Scopes, g.Lasts = mayfly.HomeUserOf(issuer, "ana"), []account.Scope{account.User}, time.Minute
		token, err := h.node.Key().Mint(g, at)
		if err != nil {
			h.Fatal(err)
		}
		return string(token)
	}
	add("over", minted(account.Grant{}, now.Add(-2*time.Minute)), "expired")
	add("over since now", minted(account.Grant{}, now.Add(-time.Minute)), "expired")
	add("not yet", minted(account.Grant{}, now.Add(time.Hour)), "not valid yet")
	add("for another audience", minted(account.Grant{Audience: "bank"}, now), "audience")
	add("by another issuer", minted(account.Grant{Issuer: "bank"}, now), "issuer")

	line("no scheme", badToken("Bearer"), "Authorization: "+good)
	line("another scheme", badToken("Bearer"), "Authorization: Basic YW5hOmFuYQ==")
	line("an empty header", badToken("Bearer"), "Authorization:")
	line("two headers", badToken("two"), "Authorization: Bearer "+good, "Authorization: Bearer "+good)
	line("two tokens", badToken(""), "Authorization: Bearer "+good+" "+good)
	line("in the query", badWant{200, "", ""}, "Cookie: token="+good) // an anonymous request: everyone may see this story
	for name, user := range map[string]string{"ben's": "~ben", "her own": "~ana", "an id": h.good.Author.String()} {
		line("acting for/"+name, badDenied("only a service"), "Authorization: Bearer "+good, "Mayfly-User: "+user)
	}
	line("acting for/without a token", badToken("service"), "Mayfly-User: ~ana")
	line("acting for/two", badInvalid("two"), "Authorization: Bearer "+h.bearer("service"), "Mayfly-User: ~ana", "Mayfly-User: ~ben")
	line("acting for/no user", badInvalid("invalid user"), "Authorization: Bearer "+h.bearer("service"), "Mayfly-User: x")
	line("acting for/zeros", badInvalid("invalid user"), "Authorization: Bearer "+h.bearer("service"), "Mayfly-User: 00000000-0000-0000-0000-000000000000")
	line("acting for/300 letters", badInvalid("invalid user"), "Authorization: Bearer "+h.bearer("service"), "Mayfly-User: ~"+strings.Repeat("a", 300))
	line("acting for/as a moderator", badDenied("only a service"), "Authorization: Bearer "+h.bearer("moderator"), "Mayfly-User: ~ana")

	scope := func(as, method, target string, want badWant) {
		all = append(all, badCase{as + " " + method + " " + target, badAsk{as: as, method: method, target: target}, want})
	}
	scope("", "GET", "/v1/me/preflight", badToken(""))
	scope("", "DELETE", story, badToken(""))
	scope("service", "GET", "/v1/me/archive", badDenied("Mayfly-User"))
	scope("moderator", "DELETE", story, badDenied("scope"))
	scope("admin", "GET", "/v1/me/archive", badDenied("scope"))
	scope("ana", "PUT", "/v1/users/~ana/followers/~ben", badDenied("scope"))
	scope("ben", "DELETE", story, badAbsent())
	scope("ben", "GET", story+"/viewers", badAbsent())
	scope("ben", "GET", "/v1/stories/"+h.other.ID.String(), badAbsent())
	scope("", "GET", "/v1/media/"+h.other.ID.String()+"/0", badAbsent())
	return all
}
