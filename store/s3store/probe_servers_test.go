//go:build servers

package s3store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/faultnet"
)

func TestAGoodServerPassesTheProbe(t *testing.T) {
	s := connect(t, realServer(t))
	cold := tier(t, s, TierOptions{Bucket: freshBucket(t, s), Prefix: "cold", Class: "GLACIER_IR"})
	if err := cold.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if names := leftOver(t, cold); len(names) > 0 {
		t.Errorf("the probe left %q behind", names)
	}
}

// Each case breaks one behaviour of a complete server. The probe must report exactly
// that one, with a hint.
func TestProbeReportsWhatAServerLacks(t *testing.T) {
	o := quick(realServer(t))
	refuse := func(code int, name string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.WriteHeader(code)
			_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>no</Message></Error>`, name)
		}
	}
	for _, c := range []struct {
		name string
		when func(r *http.Request) bool
		then func(w http.ResponseWriter)
		also func(*http.Response) error
		says string
	}{
		{
			name: "the storage class", says: "storage class GLACIER_IR",
			when: func(r *http.Request) bool {
				return r.Header.Get("X-Amz-Storage-Class") != "" && r.Header.Get("X-Amz-Copy-Source") != ""
			},
			then: refuse(http.StatusBadRequest, "InvalidStorageClass"),
		},
		{
			name: "copies", says: "no object can be copied",
			when: func(r *http.Request) bool { return r.Header.Get("X-Amz-Copy-Source") != "" },
			then: refuse(http.StatusNotImplemented, "NotImplemented"),
		},
		{
			name: "bulk delete", says: "cannot be deleted together",
			when: func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Query().Has("delete") },
			then: refuse(http.StatusNotImplemented, "NotImplemented"),
		},
		{
			name: "ranges", says: "a range of an object",
			also: func(res *http.Response) error {
				if res.StatusCode == http.StatusPartialContent { // as one that does not know them
					res.StatusCode = http.StatusOK
					res.Header.Del("Content-Range")
				}
				return nil
			},
		},
		{
			name: "metadata", says: "forgets what is noted",
			also: func(res *http.Response) error { res.Header.Del(markHeader); return nil },
		},
		{
			name: "order of listings", says: "begin after the given name",
			also: func(res *http.Response) error {
				if !res.Request.URL.Query().Has("list-type") {
					return nil
				}
				return changeBody(res, func(body []byte) []byte {
					body = bytes.ReplaceAll(body, []byte("-0</Key>"), []byte("-9</Key>"))
					return bytes.ReplaceAll(bytes.ReplaceAll(body, []byte("-1</Key>"), []byte("-0</Key>")), []byte("-9</Key>"), []byte("-1</Key>"))
				})
			},
		},
		{
			name: "uploads in parts", says: "begin an upload in parts",
			when: func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Query().Has("uploads") },
			then: refuse(http.StatusNotImplemented, "NotImplemented"),
		},
		{
			name: "absence", says: "allow ListBucket",
			also: func(res *http.Response) error {
				if res.StatusCode == http.StatusNotFound && res.Request.Method == http.MethodHead {
					res.StatusCode = http.StatusForbidden
				}
				return nil
			},
		},
		{
			name: "signatures of addresses", says: "with another signature is taken",
			also: taken(func(r *http.Request) bool { return strings.HasPrefix(r.URL.Query().Get("X-Amz-Signature"), "0000") }),
		},
		{
			name: "names in addresses", says: "is taken for another",
			also: taken(func(r *http.Request) bool {
				return r.URL.Query().Has("X-Amz-Signature") && strings.HasSuffix(r.URL.Path, "-0")
			}),
		},
		{
			name: "the time of addresses", says: "is taken after its time",
			also: taken(func(r *http.Request) bool { return r.URL.Query().Get("X-Amz-Expires") == "1" }),
		},
		{
			name: "lists for strangers", says: "listed without a signature",
			when: func(r *http.Request) bool { return unsigned(r) && r.URL.Query().Has("list-type") },
			then: func(w http.ResponseWriter) {
				_, _ = io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?><ListBucketResult></ListBucketResult>`)
			},
		},
		{
			name: "addresses", says: "a presigned address to write is refused",
			when: func(r *http.Request) bool { return r.URL.Query().Has("X-Amz-Signature") },
			then: refuse(http.StatusNotImplemented, "NotImplemented"),
		},
		{
			name: "signatures of requests with a trailer", says: "unsigned trailer and a wrong signature are taken",
			also: taken(trailing),
		},
		{
			name: "deletes that delete", says: "is not gone",
			when: func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Query().Has("delete") },
			then: nil, // says that it has: see below
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, address := faultnet.NewProxy(t, o.Endpoint, nil)
			p.Alter(c.also)
			real := p.Server()
			p.Handle(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case c.when == nil || !c.when(r):
					real.ServeHTTP(w, r)
				case c.then != nil:
					c.then(w)
				default:
					sayDeleted(w, r)
				}
			})
			direct := connect(t, o)
			bucket := freshBucket(t, direct)
			broken := o
			broken.Endpoint = address
			err := tier(t, connect(t, broken), TierOptions{Bucket: bucket, Class: "GLACIER_IR"}).Probe(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Count(err.Error(), "\n") > 1 {
				t.Errorf("the probe says\n%v\nwant %q", err, c.says)
			}
			var e *mayfly.Error
			if !errors.As(err, &e) || c.name != "uploads in parts" && e.Hint == "" {
				t.Errorf("there is no hint in %v", err)
			}
		})
	}
}

// taken answers what the server has refused as if it had not.
func taken(is func(r *http.Request) bool) func(*http.Response) error {
	return func(res *http.Response) error {
		if res.StatusCode == http.StatusForbidden && is(res.Request) {
			res.StatusCode = http.StatusOK
		}
		return nil
	}
}

// A proxy that calls the server by another name than its caller did breaks every
// signature; one that this node cannot reach may be reached by others.
func TestAPublicAddressLeadsToTheServerAsItIsCalled(t *testing.T) {
	o := quick(realServer(t))
	upstream, err := url.Parse(o.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	rewrites := httptest.NewServer(httputil.NewSingleHostReverseProxy(upstream))
	t.Cleanup(rewrites.Close)
	renames := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream) }})
	t.Cleanup(renames.Close)
	for _, c := range []struct{ name, public, says, warns string }{
		{"the host as it came", rewrites.URL, "", ""},
		{"another host", renames.URL, "a presigned address to write is refused: 403 Forbidden SignatureDoesNotMatch (the public address has to lead to this server", ""},
		{"no server", "http://127.0.0.1:1", "", "does not answer this node"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log strings.Builder
			o := o
			o.Public, o.Logger = c.public, slog.New(slog.NewTextHandler(&log, nil))
			s := connect(t, o)
			err := tier(t, s, TierOptions{Bucket: freshBucket(t, s)}).Probe(t.Context())
			if (err == nil) != (c.says == "") || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("the probe says %v, want %q", err, c.says)
			}
			if (log.Len() == 0) != (c.warns == "") || !strings.Contains(log.String(), c.warns) || strings.Contains(log.String(), "X-Amz") {
				t.Errorf("the log says %q, want %q", &log, c.warns)
			}
		})
	}
}

// sayDeleted answers a bulk delete as if it had been done.
func sayDeleted(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?><DeleteResult>`)
	for rest := string(body); ; {
		_, after, ok := strings.Cut(rest, "<Key>")
		key, next, _ := strings.Cut(after, "</Key>")
		if !ok {
			break
		}
		_, _ = fmt.Fprintf(w, "<Deleted><Key>%s</Key></Deleted>", key)
		rest = next
	}
	_, _ = io.WriteString(w, `</DeleteResult>`)
}

func changeBody(res *http.Response, change func([]byte) []byte) error {
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	body = change(body)
	res.Body = io.NopCloser(bytes.NewReader(body))
	res.ContentLength = int64(len(body))
	res.Header.Set("Content-Length", fmt.Sprint(len(body)))
	return nil
}

func TestABucketThatKeepsOldVersionsIsRefused(t *testing.T) {
	s := connect(t, realServer(t))
	hot := tier(t, s, TierOptions{Bucket: freshBucket(t, s)})
	if err := s.core.EnableVersioning(t.Context(), hot.opts.Bucket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background() // the test's own has ended by then
		for o := range s.core.ListObjectsIter(ctx, hot.opts.Bucket, minio.ListObjectsOptions{Recursive: true, WithVersions: true}) {
			_ = s.core.RemoveObject(ctx, hot.opts.Bucket, o.Key, minio.RemoveObjectOptions{VersionID: o.VersionID})
		}
	})
	err := hot.Probe(t.Context())
	wantKind(t, mayfly.Unsupported, err)
	if err == nil || !strings.Contains(err.Error(), "keeps old versions") {
		t.Errorf("the probe says %v", err)
	}
}

func TestAMissingBucketIsUnavailableAndNotEmpty(t *testing.T) {
	s := connect(t, quick(realServer(t)))
	none := tier(t, s, TierOptions{Bucket: "mayfly-there-is-none"})
	_, err := none.Stat(t.Context(), freshKey())
	wantKind(t, mayfly.Unavailable, err)
	if errors.Is(err, mayfly.NotFound) {
		t.Error("an object of a bucket that is not there is said to be absent")
	}
	_, _, err = none.Open(t.Context(), freshKey(), store.Span{})
	wantKind(t, mayfly.Unavailable, err)
	wantKind(t, mayfly.Unavailable, none.Probe(t.Context()))
}

func TestWrongCredentialsAreReported(t *testing.T) {
	o := quick(realServer(t))
	o.Credentials.Password = "not the secret"
	err := tier(t, connect(t, o), TierOptions{Bucket: "mayfly-any"}).Probe(t.Context())
	wantKind(t, mayfly.Unavailable, err)
	if err == nil || !strings.Contains(err.Error(), "check the access key") {
		t.Errorf("there is no hint in %v", err)
	}
}

// A hash that the server computed is asked for apart from the copy, and only of a
// server that was seen to compute one.
func TestAChecksumIsTheServersOwnOrUnsupported(t *testing.T) {
	s := connect(t, realServer(t))
	bucket := freshBucket(t, s)
	hot, cold := tier(t, s, TierOptions{Bucket: bucket, Prefix: "hot"}), tier(t, s, TierOptions{Bucket: bucket, Prefix: "cold"})
	key, data := freshKey(), noise(seeded(t), 70_000)
	mustPut(t, hot, key, data)
	if _, err := hot.CopyTo(t.Context(), cold, key, key); err != nil {
		t.Fatal(err)
	}
	_, err := cold.Checksum(t.Context(), key)
	wantKind(t, mayfly.Unsupported, err) // not probed
	if err := cold.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("the server computes hashes: %v", cold.attests.Load())
	hash, err := cold.Checksum(t.Context(), key)
	if cold.attests.Load() {
		if err != nil || hash != sha256.Sum256(data) {
			t.Errorf("checksum answers %x, %v", hash, err)
		}
		_, err = cold.Checksum(t.Context(), freshKey())
		wantKind(t, mayfly.NotFound, err)
	} else {
		wantKind(t, mayfly.Unsupported, err)
	}
}
