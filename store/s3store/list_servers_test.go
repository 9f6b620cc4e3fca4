//go:build servers

package s3store

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/test/faultnet"
)

func TestAListingGoesOverPagesAndSkipsWhatIsNoKey(t *testing.T) {
	s := connect(t, realServer(t))
	hot := tier(t, s, TierOptions{Bucket: freshBucket(t, s), Prefix: "hot"})
	var want []mayfly.BlobKey
	for n := range 30 {
		key := mayfly.BlobKey(fmt.Sprintf("%02d/upload/0-%d", n%3, n))
		mustPut(t, hot, key, []byte("x"))
		want = append(want, key)
	}
	for _, name := range []string{"hot/00/upload/other.file", "hot/" + stagedNames + "x", "hot2/00/upload/0-0"} {
		if _, err := s.core.PutObject(t.Context(), hot.opts.Bucket, name, bytes.NewReader([]byte("x")), 1, "", "", putPlain()); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	listed, err := hot.List(t.Context(), "", "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]mayfly.BlobKey, len(listed))
	for i, l := range listed {
		got[i] = l.Key
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	for limit := 1; limit < 40; limit += 7 {
		listed, err := hot.List(t.Context(), "", "", limit)
		if err != nil || len(listed) != min(limit, len(want)) {
			t.Errorf("%d of %d listed, %v", len(listed), limit, err)
		}
	}
}

func TestAListingOutOfOrderIsRefused(t *testing.T) {
	o := quick(realServer(t))
	p, address := faultnet.NewProxy(t, o.Endpoint, nil)
	p.Alter(func(res *http.Response) error {
		if !res.Request.URL.Query().Has("list-type") {
			return nil
		}
		return changeBody(res, func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("0-1<"), []byte("0-3<")) })
	})
	o.Endpoint = address
	s := connect(t, o)
	hot := tier(t, s, TierOptions{Bucket: freshBucket(t, s)})
	for n := range 3 {
		mustPut(t, hot, mayfly.BlobKey(fmt.Sprintf("00/upload/0-%d", n)), []byte("x"))
	}
	_, err := hot.List(t.Context(), "", "", 10)
	if !errors.Is(err, mayfly.Unsupported) {
		t.Errorf("error is %v, want unsupported", err)
	}
	p.Alter(nil)
}
