package s3store

import (
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/test/faultnet"
)

// A proxy in between may answer for a store that never saw the request: a success
// has an ETag.
func TestAPutWithoutAnETagIsNotStored(t *testing.T) {
	o := quick(fakeServer(t))
	p, address := faultnet.NewProxy(t, o.Endpoint, nil)
	o.Endpoint = address
	s := connect(t, o)
	hot := tier(t, s, TierOptions{Bucket: freshBucket(t, s)})
	real, key, lies := p.Server(), mayfly.BlobKey("00/upload/0-0"), math.MaxInt
	p.Handle(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && lies > 0 {
			lies--
			_, _ = io.Copy(io.Discard, r.Body)
			return
		}
		real.ServeHTTP(w, r)
	})
	_, err := hot.Put(t.Context(), key, strings.NewReader("x"))
	wantKind(t, mayfly.Unavailable, err)
	lies = 1
	mustPut(t, hot, key, []byte("x"))
	wantContent(t, hot, key, []byte("x"))
}
