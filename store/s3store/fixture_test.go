package s3store

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/conn"
)

func connect(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := Connect(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func tier(t testing.TB, s *Server, o TierOptions) *Store {
	t.Helper()
	tier, err := s.Tier(o)
	if err != nil {
		t.Fatal(err)
	}
	return tier
}

// fakeServer is an S3 server in memory that checks no signatures: enough to see the
// requests, no proof of behaviour.
func fakeServer(t testing.TB) Options {
	t.Helper()
	server := httptest.NewServer(gofakes3.New(s3mem.New()).Server())
	t.Cleanup(server.Close)
	return Options{Endpoint: server.URL, Credentials: conn.Credentials{User: "ana", Password: "anas-own-secret"}}
}

// quick makes retries cheap: many faults happen here.
func quick(o Options) Options {
	o.Pause, o.Tries, o.Timeout = time.Millisecond, 3, 20*time.Second
	o.PartBytes, o.CopyBytes = minPart, minPart
	return o
}

// freshBucket creates a bucket and removes it after the test.
func freshBucket(t testing.TB, s *Server) string {
	t.Helper()
	name := "mayfly-" + strings.ToLower(cryptoText())
	if err := s.core.MakeBucket(t.Context(), name, minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for u := range s.core.ListIncompleteUploads(ctx, name, "", true) {
			_ = s.core.AbortMultipartUpload(ctx, name, u.Key, u.UploadID)
		}
		for o := range s.core.ListObjectsIter(ctx, name, minio.ListObjectsOptions{Recursive: true}) {
			_ = s.core.RemoveObject(ctx, name, o.Key, minio.RemoveObjectOptions{})
		}
		if err := s.core.RemoveBucket(ctx, name); err != nil {
			t.Logf("the bucket %s stays: %v", name, err)
		}
	})
	return name
}

func noise(rng *rand.Rand, n int) []byte {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rng.Uint32())
	}
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(seed).Read(b)
	return b
}

// seeded prints its seed and takes it back from MAYFLY_SEED.
func seeded(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("MAYFLY_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("MAYFLY_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func freshKey() mayfly.BlobKey {
	return mayfly.BlobKey(fmt.Sprintf("%02d/%s/0-0", rand.IntN(mayfly.Prefixes), cryptoText()))
}

func cryptoText() string { return crand.Text() }

func readAll(ctx context.Context, s store.Blobs, key mayfly.BlobKey, span store.Span) ([]byte, store.Object, error) {
	r, o, err := s.Open(ctx, key, span)
	if err != nil {
		return nil, o, err
	}
	data, err := io.ReadAll(r)
	return data, o, errors.Join(err, r.Close())
}

func mustPut(t testing.TB, s *Store, key mayfly.BlobKey, data []byte) store.Object {
	t.Helper()
	o, err := s.Put(t.Context(), key, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func wantContent(t testing.TB, s store.Blobs, key mayfly.BlobKey, want []byte) {
	t.Helper()
	data, o, err := readAll(t.Context(), s, key, store.Span{})
	if err != nil || !bytes.Equal(data, want) || o.Size != int64(len(want)) {
		t.Errorf("%s holds %d bytes described as %d, %v; want %d", key, len(data), o.Size, err, len(want))
	}
}

func wantKind(t testing.TB, kind mayfly.Kind, err error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("error is %v, want kind %s", err, kind)
	}
}

// leftOver lists what puts in parts and probes have left in the bucket.
func leftOver(t testing.TB, s *Store) (names []string) {
	t.Helper()
	for o := range s.server.core.ListObjectsIter(t.Context(), s.opts.Bucket, minio.ListObjectsOptions{Prefix: s.root + afterKeys, Recursive: true}) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		names = append(names, o.Key)
	}
	for u := range s.server.core.ListIncompleteUploads(t.Context(), s.opts.Bucket, s.root, true) {
		if u.Err != nil {
			t.Fatal(u.Err)
		}
		names = append(names, "upload of "+u.Key)
	}
	return names
}

func sumsOf(content []byte) string {
	var b blockSums
	_, _ = b.Write(content)
	return b.text()
}

func payloadOf(content string) payload {
	return payload{strings.NewReader(content), int64(len(content)), sha256.Sum256([]byte(content))}
}
