package s3store

import (
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
)

func TestAServerThatLooksAtNoSignatureIsRefused(t *testing.T) {
	s := connect(t, fakeServer(t))
	err := tier(t, s, TierOptions{Bucket: freshBucket(t, s)}).Probe(t.Context())
	wantKind(t, mayfly.Unsupported, err)
	for _, what := range []string{"without a signature are taken", "with a wrong signature are taken", "not those that were signed", "make the bucket private"} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("the probe does not say %q:\n%v", what, err)
		}
	}
}

// What a fake says of itself is not believed: it hands back what it was told.
func TestAServerThatComputesNothingIsNotReliedOn(t *testing.T) {
	s := connect(t, fakeServer(t))
	cold := tier(t, s, TierOptions{Bucket: freshBucket(t, s)})
	_ = cold.Probe(t.Context()) // it is refused for other reasons
	key := freshKey()
	mustPut(t, cold, key, []byte("x"))
	_, err := cold.Checksum(t.Context(), key)
	wantKind(t, mayfly.Unsupported, err)
}
