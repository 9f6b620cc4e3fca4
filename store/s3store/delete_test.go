package s3store

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/test/faultnet"
)

// Only keys that the response lists as deleted are deleted: a response that leaves keys
// out, or has an error for one, is not a success.
func TestOnlyConfirmedDeletesCount(t *testing.T) {
	o := quick(fakeServer(t))
	p, address := faultnet.NewProxy(t, o.Endpoint, nil)
	o.Endpoint = address
	s := connect(t, o)
	hot := tier(t, s, TierOptions{Bucket: freshBucket(t, s)})
	one, two := mayfly.BlobKey("00/upload/0-0"), mayfly.BlobKey("00/upload/0-1")
	mustPut(t, hot, one, []byte("x"))
	mustPut(t, hot, two, []byte("x"))
	real := p.Server()
	for name, reply := range map[string]string{
		"nothing said":         `<DeleteResult></DeleteResult>`,
		"one left out":         `<DeleteResult><Deleted><Key>00/upload/0-0</Key></Deleted></DeleteResult>`,
		"an argument disliked": `<DeleteResult><Deleted><Key>00/upload/0-0</Key></Deleted><Error><Key>00/upload/0-1</Key><Code>InvalidArgument</Code></Error></DeleteResult>`,
		"one denied":           `<DeleteResult><Deleted><Key>00/upload/0-0</Key></Deleted><Error><Key>00/upload/0-1</Key><Code>AccessDenied</Code></Error></DeleteResult>`,
	} {
		t.Run(name, func(t *testing.T) {
			p.Handle(func(w http.ResponseWriter, r *http.Request) {
				if !r.URL.Query().Has("delete") {
					real.ServeHTTP(w, r)
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?>`+reply)
			})
			wantKind(t, mayfly.Unavailable, hot.Delete(t.Context(), one, two))
		})
	}
	// A key that was left out is requested again, alone.
	asked := 0
	p.Handle(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked > 1 || !r.URL.Query().Has("delete") {
			real.ServeHTTP(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprintf(w, `<DeleteResult><Deleted><Key>%s</Key></Deleted></DeleteResult>`, one)
	})
	if err := hot.Delete(t.Context(), one, two); err != nil || asked != 2 {
		t.Errorf("asked %d times, %v", asked, err)
	}
	wantContent(t, hot, one, []byte("x")) // the server reported a delete that it did not do
	_, err := hot.Stat(t.Context(), two)
	wantKind(t, mayfly.NotFound, err)
}
