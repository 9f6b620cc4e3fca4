package s3store

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/test/faultnet"
)

// The test checks the request itself, because a server may accept a storage class and
// report another one.
func TestACopyCarriesTheStorageClassOfItsTierAndAsksForAChecksum(t *testing.T) {
	copyCarriesItsClass(t, fakeServer(t))
}

func copyCarriesItsClass(t *testing.T, o Options) {
	p, address := faultnet.NewProxy(t, o.Endpoint, nil)
	o.Endpoint = address
	s := connect(t, o)
	bucket := freshBucket(t, s)
	hot := tier(t, s, TierOptions{Bucket: bucket, Prefix: "hot"})
	cold := tier(t, s, TierOptions{Bucket: bucket, Prefix: "cold", Class: "GLACIER_IR"})
	small, long := freshKey(), freshKey()
	data := noise(seeded(t), minPart+100)
	mustPut(t, hot, small, data[:1000])
	mustPut(t, hot, long, data)
	for _, r := range p.Requests() {
		if r.Header.Get("X-Amz-Storage-Class") != "" {
			t.Errorf("%s %s names a class, and the hot tier has none", r.Method, r.URL)
		}
		if r.Header.Get("X-Amz-Checksum-Sha256") != "" {
			t.Errorf("%s %s tells the server what it has to compute by itself", r.Method, r.URL)
		}
	}
	for key, content := range map[mayfly.BlobKey][]byte{small: data[:1000], long: data} {
		p.Forget()
		if _, err := hot.CopyTo(t.Context(), cold, key, key); err != nil {
			t.Fatal(err)
		}
		r := p.Find(t, func(r *http.Request) bool {
			return strings.HasSuffix(r.URL.Path, string(key)) && (r.Header.Get("X-Amz-Metadata-Directive") != "" || r.URL.Query().Has("uploads"))
		})
		if r.Header.Get("X-Amz-Storage-Class") != "GLACIER_IR" || r.Header.Get(hashHeader) == "" || r.Header.Get(sumsHeader) != sumsOf(content) {
			t.Errorf("the copy of %d bytes is asked for with %v", len(content), r.Header)
		}
		if r.Method == http.MethodPut && r.Header.Get("X-Amz-Checksum-Algorithm") != "SHA256" {
			t.Error("the server is not asked to compute a hash of its own")
		}
		wantContent(t, cold, key, content)
	}
	p.Forget()
	mustPut(t, cold, freshKey(), data[:10])
	if r := p.Find(t, func(r *http.Request) bool { return r.Method == http.MethodPut }); r.Header.Get("X-Amz-Storage-Class") != "GLACIER_IR" {
		t.Errorf("a put to the cold tier is asked for with %v", r.Header)
	}
}

func TestEveryByteThatIsSentIsSigned(t *testing.T) {
	o := fakeServer(t)
	p, address := faultnet.NewProxy(t, o.Endpoint, nil)
	o.Endpoint = address
	s := connect(t, o)
	hot := tier(t, s, TierOptions{Bucket: freshBucket(t, s)})
	p.Forget()
	rng := seeded(t)
	for _, size := range []int{0, 10, 8*mebibyte + 10} {
		mustPut(t, hot, freshKey(), noise(rng, size))
	}
	if n := len(p.Requests()); n < 8 {
		t.Errorf("%d requests were seen", n)
	}
	for _, r := range p.Requests() {
		hash := r.Header.Get("X-Amz-Content-Sha256")
		if r.ContentLength > 0 && len(hash) != 64 || !strings.Contains(r.Header.Get("Authorization"), "x-amz-content-sha256") {
			t.Errorf("%s %s is signed over %q", r.Method, r.URL, hash)
		}
	}
}

func TestAClassThatCannotBeReadAtOnceIsRefused(t *testing.T) {
	s := connect(t, fakeServer(t))
	for _, class := range []string{"GLACIER", "DEEP_ARCHIVE"} {
		_, err := s.Tier(TierOptions{Bucket: "cold", Class: class})
		wantKind(t, mayfly.Invalid, err)
	}
}

func TestTiersThatLieInEachOtherAreRefused(t *testing.T) {
	for _, c := range []struct {
		a, b TierOptions
		fine bool
	}{
		{TierOptions{Bucket: "one"}, TierOptions{Bucket: "two"}, true},
		{TierOptions{Bucket: "one", Prefix: "hot"}, TierOptions{Bucket: "one", Prefix: "cold"}, true},
		{TierOptions{Bucket: "one", Prefix: "hot"}, TierOptions{Bucket: "one", Prefix: "hot2"}, true},
		{TierOptions{Bucket: "one"}, TierOptions{Bucket: "one", Prefix: "cold"}, false},
		{TierOptions{Bucket: "one", Prefix: "a/b"}, TierOptions{Bucket: "one", Prefix: "a"}, false},
		{TierOptions{Bucket: "one"}, TierOptions{Bucket: "one"}, false},
	} {
		s := connect(t, fakeServer(t))
		tier(t, s, c.a)
		if _, err := s.Tier(c.b); (err == nil) != c.fine {
			t.Errorf("%+v beside %+v: %v", c.b, c.a, err)
		}
	}
}
