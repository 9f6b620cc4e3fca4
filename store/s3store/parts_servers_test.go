//go:build servers

package s3store

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/faultnet"
)

func TestAStreamOfUnknownLengthGoesInPartsAndIsDescribedWhole(t *testing.T) {
	s := connect(t, quick(realServer(t)))
	hot := tier(t, s, TierOptions{Bucket: freshBucket(t, s)})
	rng := seeded(t)
	for _, size := range []int{minPart - 1, minPart, minPart + 1, 2 * minPart, 2*minPart + 12345} {
		key, data := freshKey(), noise(rng, size)
		o, err := hot.Put(t.Context(), key, struct{ io.Reader }{bytes.NewReader(data)})
		if err != nil {
			t.Fatal(err)
		}
		want := store.Object{Key: key, Size: int64(size), SHA256: sha256.Sum256(data)}
		if found, err := hot.Stat(t.Context(), key); o != want || err != nil || found != want {
			t.Errorf("%d bytes: put answers %+v, stat %+v, %v", size, o, found, err)
		}
		wantContent(t, hot, key, data)
		span := store.Span{Offset: int64(size) / 2, Length: 300_000}
		got, _, err := readAll(t.Context(), hot, key, span)
		if err != nil || !bytes.Equal(got, data[span.Offset:span.Offset+span.Length]) {
			t.Errorf("a range of %d bytes: %d, %v", size, len(got), err)
		}
	}
	if names := leftOver(t, hot); len(names) > 0 {
		t.Errorf("left behind: %q", names)
	}
}

func TestAPutThatBreaksOffBetweenPartsLeavesNothing(t *testing.T) {
	s := connect(t, quick(realServer(t)))
	hot := tier(t, s, TierOptions{Bucket: freshBucket(t, s)})
	torn := errors.New("the client disconnected")
	key := freshKey()
	_, err := hot.Put(t.Context(), key, io.MultiReader(bytes.NewReader(noise(seeded(t), minPart+1000)), &failingReader{torn}))
	if !errors.Is(err, torn) {
		t.Errorf("put answers %v, want what the reader returned", err)
	}
	_, err = hot.Stat(t.Context(), key)
	wantKind(t, mayfly.NotFound, err)
	if names := leftOver(t, hot); len(names) > 0 {
		t.Errorf("left behind: %q", names)
	}
}

func TestALongObjectIsCopiedInPartsWithHashAndSums(t *testing.T) {
	s := connect(t, quick(realServer(t)))
	bucket := freshBucket(t, s)
	hot := tier(t, s, TierOptions{Bucket: bucket, Prefix: "hot"})
	cold := tier(t, s, TierOptions{Bucket: bucket, Prefix: "cold", Class: "GLACIER_IR"})
	key, as, data := freshKey(), freshKey(), noise(seeded(t), 2*minPart+777)
	want := mustPut(t, hot, key, data)
	want.Key = as
	if o, err := hot.CopyTo(t.Context(), cold, key, as); err != nil || o != want {
		t.Fatalf("copy answers %+v, %v", o, err)
	}
	if o, err := cold.Stat(t.Context(), as); err != nil || o != want {
		t.Errorf("stat answers %+v, %v", o, err)
	}
	h, err := cold.head(t.Context(), as, cold.name(as))
	if err != nil || h.noted != sumsOf(data) {
		t.Errorf("the sums did not come along: %v", err)
	}
	wantContent(t, cold, as, data)
	if names := leftOver(t, cold); len(names) > 0 {
		t.Errorf("left behind: %q", names)
	}
}

func TestPutsWaitForASlot(t *testing.T) {
	o := quick(realServer(t))
	o.Parts = 1
	s := connect(t, o)
	hot := tier(t, s, TierOptions{Bucket: freshBucket(t, s)})
	data := noise(seeded(t), minPart+10)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			key := freshKey()
			if _, err := hot.Put(t.Context(), key, bytes.NewReader(data)); err != nil {
				t.Error(err)
			}
			wantContent(t, hot, key, data)
		})
	}
	all.Wait()
	if len(s.slots) != 0 || s.spool.used.Load() != 0 {
		t.Errorf("%d slots and %d spooled bytes were not given back", len(s.slots), s.spool.used.Load())
	}
}

func isComplete(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
}

// The server has made the object of the parts and its answer got lost: to the
// second try it says that there is no such upload.
func TestACompletionWhoseAnswerGotLostIsFoundByItsMark(t *testing.T) {
	o := quick(realServer(t))
	lost := 0
	_, address := faultnet.NewProxy(t, o.Endpoint, func(r *http.Request) faultnet.Fault {
		if isComplete(r) && lost < 1 {
			lost++
			return faultnet.LostReply
		}
		return faultnet.Fine
	})
	o.Endpoint = address
	s := connect(t, o)
	hot := tier(t, s, TierOptions{Bucket: freshBucket(t, s)})
	key, data := freshKey(), noise(seeded(t), minPart+10)
	mustPut(t, hot, key, data)
	wantContent(t, hot, key, data)
	if lost != 1 {
		t.Error("no answer got lost")
	}
}

// The upload was aborted and another writer put an object of that name: that object
// does not show that this upload was completed.
func TestALostUploadIsNotTakenForDoneWhenAnotherObjectIsThere(t *testing.T) {
	s := connect(t, quick(realServer(t)))
	hot := tier(t, s, TierOptions{Bucket: freshBucket(t, s)})
	key := freshKey()
	u, err := hot.begin(t.Context(), key, hot.name(key), placing{})
	if err != nil {
		t.Fatal(err)
	}
	if err := u.send(t.Context(), payloadOf("mine")); err != nil {
		t.Fatal(err)
	}
	if err := u.abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustPut(t, hot, key, []byte("hers"))
	_, err = u.complete(t.Context(), 4)
	wantKind(t, mayfly.Unavailable, err)
	if errors.Is(err, mayfly.NotFound) {
		t.Errorf("it looks like absence: %v", err)
	}
	wantContent(t, hot, key, []byte("hers"))
}

// The object is replaced after its hash was asked for and before it is copied:
// the copy has the hash of the bytes that it has.
func TestACopyOfWhatIsReplacedMeanwhileHasTheRightHash(t *testing.T) {
	for name, size := range map[string]int{"in one request": 5000, "in parts": minPart + 10} {
		t.Run(name, func(t *testing.T) {
			o := quick(realServer(t))
			direct := connect(t, o)
			bucket := freshBucket(t, direct)
			plain := tier(t, direct, TierOptions{Bucket: bucket})
			rng := seeded(t)
			key, as, next := freshKey(), freshKey(), noise(rng, size)
			replaced := false
			_, address := faultnet.NewProxy(t, o.Endpoint, func(r *http.Request) faultnet.Fault {
				if r.Header.Get("X-Amz-Copy-Source") != "" && strings.HasSuffix(r.URL.Path, string(as)) && !replaced {
					replaced = true
					mustPut(t, plain, key, next)
				}
				return faultnet.Fine
			})
			mustPut(t, plain, key, noise(rng, size))
			o.Endpoint = address
			hot := tier(t, connect(t, o), TierOptions{Bucket: bucket})
			copied, err := hot.CopyTo(t.Context(), hot, key, as)
			if err != nil || copied.SHA256 != sha256.Sum256(next) || !replaced {
				t.Errorf("copy answers %+v, %v", copied, err)
			}
			wantContent(t, plain, as, next)
		})
	}
}

func TestACopyInPartsCarriesTheStorageClassOfItsTier(t *testing.T) {
	copyCarriesItsClass(t, quick(realServer(t)))
}
