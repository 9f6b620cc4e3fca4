package s3store

import (
	"fmt"
	"net/http"
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

func TestVersionsAreNoticedByWhatIsWrittenToo(t *testing.T) {
	const keeps, asks = "the bucket keeps old versions: what is deleted", "ask whether the bucket keeps old versions"
	for _, c := range []struct {
		name    string
		version string // that a PUT answers with
		status  int    // of the answer to the question
		code    string
		answers int // how many of the questions are answered so; then the bucket says that it keeps none
		says    string
		saysNot string
	}{
		{"a plain bucket", "", 0, "", 0, "", keeps},
		{"a versioned one that may not be asked", "v7Kd", http.StatusForbidden, "AccessDenied", 99, keeps, asks},
		{"a versioned one that says it is not", "v7Kd", 0, "", 0, keeps, asks},
		{"a suspended one that may not be asked", "null", http.StatusForbidden, "AccessDenied", 99, "", "versions"},
		{"a server that does not know the question", "", http.StatusNotImplemented, "NotImplemented", 99, "", "versions"},
		{"a server that fails once", "", http.StatusServiceUnavailable, "SlowDown", 1, "", "versions"},
		{"a server that fails for good", "", http.StatusInternalServerError, "InternalError", 99, asks, keeps},
		{"a versioned one that fails for good", "v7Kd", http.StatusInternalServerError, "InternalError", 99, keeps, asks},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := quick(fakeServer(t))
			bucket := freshBucket(t, connect(t, o))
			p, address := before(t, o.Endpoint, nil)
			p.alter(func(res *http.Response) error {
				if res.Request.Method == http.MethodPut && c.version != "" {
					res.Header.Set("X-Amz-Version-Id", c.version)
				}
				return nil
			})
			real, left := p.server(), c.answers
			p.handle(func(w http.ResponseWriter, r *http.Request) {
				if !r.URL.Query().Has("versioning") || left == 0 {
					real.ServeHTTP(w, r)
					return
				}
				left--
				w.WriteHeader(c.status)
				_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>no</Message></Error>`, c.code)
			})
			o.Endpoint = address
			err := tier(t, connect(t, o), TierOptions{Bucket: bucket}).Probe(t.Context()) // it is refused for other reasons, too
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), c.saysNot) {
				t.Errorf("the probe says\n%v\nwant %q and not %q", err, c.says, c.saysNot)
			}
			if c.says == keeps && !strings.Contains(err.Error(), "suspend versioning of the bucket") {
				t.Errorf("there is no hint in %v", err)
			}
			p.find(t, func(r *http.Request) bool { return r.URL.Query().Has("versioning") })
		})
	}
}
