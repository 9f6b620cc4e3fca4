//go:build servers

package s3store

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func TestAPresignedURLGivesAccessToNothingElse(t *testing.T) {
	s := connect(t, realServer(t))
	hot := tier(t, s, TierOptions{Bucket: freshBucket(t, s)})
	key, other := freshKey(), freshKey()
	mustPut(t, hot, key, []byte("one"))
	mustPut(t, hot, other, []byte("other"))
	read, err := hot.PresignGet(t.Context(), key, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		method, address string
		want            int
	}{
		"what it is for":      {http.MethodGet, read, http.StatusOK},
		"another key":         {http.MethodGet, strings.Replace(read, string(key), string(other), 1), http.StatusForbidden},
		"a longer life":       {http.MethodGet, strings.Replace(read, "X-Amz-Expires=60", "X-Amz-Expires=600", 1), http.StatusForbidden},
		"writing":             {http.MethodPut, read, http.StatusForbidden},
		"deleting":            {http.MethodDelete, read, http.StatusForbidden},
		"without a signature": {http.MethodGet, strings.Split(read, "?")[0], http.StatusForbidden},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, c.address, strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != c.want {
			t.Errorf("%s: %s, want %d", name, res.Status, c.want)
		}
	}
	wantContent(t, hot, key, []byte("one"))
}

// The length is signed: the server refuses a longer body, and a shorter one too, and
// stores nothing of either.
func TestAPresignedPutIsForOneLength(t *testing.T) {
	s := connect(t, realServer(t))
	hot := tier(t, s, TierOptions{Bucket: freshBucket(t, s)})
	key, data := freshKey(), noise(seeded(t), 1000)
	address, err := hot.PresignPut(t.Context(), key, int64(len(data)), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	put := func(body io.Reader, length int64) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, address, body)
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = length
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	for name, length := range map[string]int{"one byte more": 1001, "64 times as much": 64_000, "one byte less": 999, "nothing": 0} {
		body := make([]byte, length)
		if status := put(bytes.NewReader(body), int64(length)); status != http.StatusForbidden {
			t.Errorf("%s: %d, want 403", name, status)
		}
	}
	if status := put(bytes.NewReader(make([]byte, 2000)), -1); status/100 == 2 { // chunked: no length at all
		t.Errorf("without a length: %d", status)
	}
	if o, err := hot.Stat(t.Context(), key); !errors.Is(err, mayfly.NotFound) {
		t.Errorf("%+v, %v: something was stored", o, err)
	}
	if status := put(bytes.NewReader(data), int64(len(data))); status != http.StatusOK {
		t.Errorf("the signed length: %d", status)
	}
	wantContent(t, hot, key, data)
}

// An object put through a presigned URL has no hash. It can be read, also in ranges,
// and copied, and no hash is reported for it (L11).
func TestAnObjectPutThroughAPresignedURLHasNoHashAndIsReadable(t *testing.T) {
	s := connect(t, realServer(t))
	bucket := freshBucket(t, s)
	hot, cold := tier(t, s, TierOptions{Bucket: bucket, Prefix: "hot"}), tier(t, s, TierOptions{Bucket: bucket, Prefix: "cold"})
	key, data := freshKey(), noise(seeded(t), 600_000)
	address, err := hot.PresignPut(t.Context(), key, int64(len(data)), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, address, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _ = res.Body.Close(); res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	wantContent(t, hot, key, data)
	for _, o := range []func() (store.Object, error){
		func() (store.Object, error) { return hot.Stat(t.Context(), key) },
		func() (store.Object, error) { return hot.CopyTo(t.Context(), cold, key, key) },
	} {
		if found, err := o(); err != nil || found != (store.Object{Key: key, Size: int64(len(data))}) {
			t.Errorf("%+v, %v", found, err)
		}
	}
	got, _, err := readAll(t.Context(), cold, key, store.Span{Offset: 300_000, Length: 1000})
	if err != nil || !bytes.Equal(got, data[300_000:301_000]) {
		t.Errorf("a range: %d bytes, %v", len(got), err)
	}
}
