package s3store

import (
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/test/faultnet"
)

type failingReader struct{ err error }

func (r *failingReader) Read([]byte) (int, error) { return 0, r.err }

// A reader that returns an error around io.EOF has failed: nothing may be stored.
func TestAReaderThatWrapsTheEndHasFailed(t *testing.T) {
	s := connect(t, fakeServer(t))
	hot := tier(t, s, TierOptions{Bucket: freshBucket(t, s)})
	key := freshKey()
	wrapped := errors.Join(errors.New("the client disconnected"), io.EOF)
	if _, err := hot.Put(t.Context(), key, io.MultiReader(strings.NewReader("half"), &failingReader{wrapped})); !errors.Is(err, wrapped) {
		t.Errorf("put returns %v, want the error of the reader", err)
	}
	_, err := hot.Stat(t.Context(), key)
	wantKind(t, mayfly.NotFound, err)
}

// A proxy may answer a request that the server never saw: only a success with an ETag
// counts.
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
