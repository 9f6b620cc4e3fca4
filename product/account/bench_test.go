package account_test

import (
	"testing"

	"github.com/mayflyhq/mayfly/product/account"
)

// Every request verifies a token, so a cached one must be cheap (ST2).
func BenchmarkVerifyOfARememberedToken(b *testing.B) {
	h := open(b)
	token := h.mint(ana(), "ana", account.User)
	for b.Loop() {
		if _, err := h.accounts.Verify(b.Context(), token, start); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRelation(b *testing.B) {
	h := open(b)
	h.relate(ana(), ben(), 1, 0)
	for b.Loop() {
		if h.relation(ana(), ben()) != 1 {
			b.Fatal("lost")
		}
	}
}
