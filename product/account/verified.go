package account

import (
	"crypto/sha256"

	"github.com/maypok86/otter/v2"

	"github.com/mayflyhq/mayfly"
)

// verified is a token that was checked. It is shared and never changed.
type verified struct {
	principal   Principal
	from, until mayfly.Instant
	keys        *keySet // a trusted issuer's, that it was checked with; nil: our own key
}

// verifiedTokens remembers checked tokens by their hash, so that the store of
// what was sent holds nothing that can be sent.
type verifiedTokens struct {
	tokens *otter.Cache[[sha256.Size]byte, *verified] // nil when nothing is remembered
}

func newVerifiedTokens(most int) *verifiedTokens {
	if most < 0 {
		return &verifiedTokens{}
	}
	return &verifiedTokens{tokens: otter.Must(&otter.Options[[sha256.Size]byte, *verified]{MaximumSize: most})}
}

// get is a token that is still good: within its time, and checked with keys that
// its issuer has not changed since.
func (t *verifiedTokens) get(sum [sha256.Size]byte, now mayfly.Instant, keys *keySet) (*verified, bool) {
	if t.tokens == nil {
		return nil, false
	}
	v, ok := t.tokens.GetIfPresent(sum)
	if !ok || now < v.from || now >= v.until || v.keys != nil && v.keys != keys {
		return nil, false
	}
	return v, true
}

func (t *verifiedTokens) keep(sum [sha256.Size]byte, v *verified) {
	if t.tokens != nil {
		t.tokens.Set(sum, v)
	}
}
