package s3store

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/test/faultnet"
)

func TestAServerThatIgnoresSignaturesIsRefused(t *testing.T) {
	s := connect(t, fakeServer(t))
	err := tier(t, s, TierOptions{Bucket: freshBucket(t, s)}).Probe(t.Context())
	wantKind(t, mayfly.Unsupported, err)
	for _, what := range []string{"without a signature are taken", "with a wrong signature are taken", "unsigned trailer and a wrong signature are taken", "with another signature is taken", "not those that were signed", "make the bucket private"} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("the probe does not say %q:\n%v", what, err)
		}
	}
}

// gatekeeper checks requests in front of a server that checks no signatures, and
// accepts one kind of request that it should refuse.
func gatekeeper(t *testing.T, o Options, but string) Options {
	t.Helper()
	refuses := map[string]func(r *http.Request) bool{
		"unsigned list":  func(r *http.Request) bool { return unsigned(r) && r.URL.Query().Has("list-type") },
		"unsigned write": func(r *http.Request) bool { return unsigned(r) && r.Method == http.MethodPut },
		"unsigned read":  func(r *http.Request) bool { return unsigned(r) && !r.URL.Query().Has("list-type") },
		"forged trailer": func() func(r *http.Request) bool {
			first := true // the probe forges the first one
			return func(r *http.Request) bool { was := first && trailing(r); first = first && !was; return was }
		}(),
	}
	for method, verb := range map[string]string{http.MethodGet: " read", http.MethodPut: " write"} {
		by := func(r *http.Request) url.Values { // of the address
			if r.Method != method {
				return nil
			}
			return r.URL.Query()
		}
		refuses["forged"+verb] = func(r *http.Request) bool { return strings.HasPrefix(by(r).Get("X-Amz-Signature"), "0000") }
		refuses["renamed"+verb] = func(r *http.Request) bool { return by(r).Has("X-Amz-Signature") && strings.HasSuffix(r.URL.Path, "-0") }
		refuses["stale"+verb] = func(r *http.Request) bool { return by(r).Get("X-Amz-Expires") == "1" }
	}
	refuses["longer write"] = func(r *http.Request) bool {
		return r.Method == http.MethodPut && r.URL.Query().Has("X-Amz-Signature") && r.ContentLength > int64(len(rand.Text()))
	}
	if but != "" && refuses[but] == nil {
		t.Fatalf("the gatekeeper refuses no %s", but)
	}
	delete(refuses, but)
	p, address := faultnet.NewProxy(t, o.Endpoint, nil)
	real := p.Server()
	p.Handle(func(w http.ResponseWriter, r *http.Request) {
		for _, is := range refuses {
			if is(r) {
				w.WriteHeader(http.StatusForbidden)
				return
			}
		}
		real.ServeHTTP(w, r)
	})
	o.Endpoint = address
	return o
}

func trailing(r *http.Request) bool {
	return r.Header.Get("X-Amz-Content-Sha256") == "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
}

func unsigned(r *http.Request) bool {
	return r.Header.Get("Authorization") == "" && !r.URL.Query().Has("X-Amz-Signature")
}

// A presigned URL gives access to its object and method until it expires, and to
// nothing else.
func TestAServerThatGivesAPresignedURLMoreAccessIsRefused(t *testing.T) {
	said := map[string]string{
		"unsigned list":  "the bucket is listed without a signature",
		"forged read":    "with another signature is taken: any client may read",
		"forged write":   "with another signature is taken: any client may write",
		"renamed read":   "taken for another: any client may read",
		"renamed write":  "taken for another: any client may write",
		"longer write":   "taken for more bytes than were signed",
		"forged trailer": "unsigned trailer and a wrong signature are taken",
		"stale read":     "taken after its time",
		"stale write":    "taken after its time",
		"":               "",
	}
	for but, says := range said {
		t.Run(but, func(t *testing.T) {
			t.Parallel()
			o := quick(fakeServer(t))
			bucket := freshBucket(t, connect(t, o))
			hot := tier(t, connect(t, gatekeeper(t, o, but)), TierOptions{Bucket: bucket, Prefix: "hot"})
			err := hot.Probe(t.Context()) // it is refused for other reasons, too
			wantKind(t, mayfly.Unsupported, err)
			for _, other := range said {
				if other != "" && strings.Contains(fmt.Sprint(err), other) != (other == says) {
					t.Errorf("the probe says\n%v\nwant %q", err, says)
				}
			}
			if names := leftOver(t, hot); len(names) > 0 {
				t.Errorf("the probe left %q behind", names)
			}
		})
	}
}

func TestAServerWithoutPresignedURLsIsRefusedUnlessTheyAreOff(t *testing.T) {
	for method, says := range map[string]string{
		http.MethodPut: "a presigned address to write is refused: 403 Forbidden AccessDenied",
		http.MethodGet: "a presigned address to read is refused: 403 Forbidden AccessDenied",
	} {
		o := quick(fakeServer(t))
		bucket := freshBucket(t, connect(t, o))
		p, address := faultnet.NewProxy(t, o.Endpoint, nil)
		real := p.Server()
		p.Handle(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == method && r.URL.Query().Has("X-Amz-Signature") {
				w.WriteHeader(http.StatusForbidden)
				_, _ = fmt.Fprint(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>AccessDenied</Code></Error>`)
				return
			}
			real.ServeHTTP(w, r)
		})
		o.Endpoint = address
		for _, off := range []bool{false, true} {
			o.NoPresign = off
			err := tier(t, connect(t, o), TierOptions{Bucket: bucket}).Probe(t.Context())
			if strings.Contains(fmt.Sprint(err), says+" (use a server that takes presigned addresses, or turn presigning off)") == off {
				t.Errorf("off %t: the probe says\n%v\nwant %q", off, err, says)
			}
		}
	}
}

// The fake server knows no trailers, and stores what comes.
func TestAServerThatStoresTheFramingOfATrailerIsRefused(t *testing.T) {
	for _, c := range []struct {
		name        string
		off         bool // presigning
		status      int  // of the good request; 0: the fake server stores it
		decode      bool // before the fake server stores it
		says, warns string
		asked       int // requests with a trailer
	}{
		{name: "the framing is stored", says: "is stored with its framing: 68 bytes, not 26 (use a server", asked: 2},
		{name: "trailers are decoded", decode: true, asked: 2},
		{name: "trailers are refused", status: http.StatusNotImplemented, warns: "clients that upload by presigned URLs have to send plain bodies", asked: 2},
		{name: "presigning is off", off: true, asked: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log strings.Builder
			o := quick(fakeServer(t))
			o.NoPresign, o.Logger = c.off, slog.New(slog.NewTextHandler(&log, nil))
			bucket := freshBucket(t, connect(t, o))
			p, address := faultnet.NewProxy(t, o.Endpoint, nil)
			real, asked := p.Server(), 0
			p.Handle(func(w http.ResponseWriter, r *http.Request) {
				if trailing(r) {
					switch asked++; {
					case asked == 1: // by a wrong secret
						w.WriteHeader(http.StatusForbidden)
						return
					case c.status != 0:
						w.WriteHeader(c.status)
						return
					case c.decode:
						decodeTrailing(t, r)
					}
				}
				real.ServeHTTP(w, r)
			})
			o.Endpoint = address
			err := tier(t, connect(t, o), TierOptions{Bucket: bucket}).Probe(t.Context()) // it is refused for other reasons, too
			if text := fmt.Sprint(err); strings.Contains(text, "framing") != (c.says != "") || !strings.Contains(text, c.says) || strings.Contains(text, "trailing checksum:") {
				t.Errorf("the probe says\n%v\nwant %q", err, c.says)
			}
			if strings.Contains(log.String(), "trailing") != (c.warns != "") || !strings.Contains(log.String(), c.warns) {
				t.Errorf("the log says %q, want %q", &log, c.warns)
			}
			if asked != c.asked {
				t.Errorf("%d requests with a trailer, want %d", asked, c.asked)
			}
		})
	}
}

// decodeTrailing does what a server does that knows trailers: one chunk, whose
// checksum has to match.
func decodeTrailing(t *testing.T, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	parts := strings.Split(string(body), "\r\n")
	if err != nil || len(parts) != 6 || parts[0] != fmt.Sprintf("%x", len(parts[1])) || r.Header.Get("X-Amz-Decoded-Content-Length") != strconv.Itoa(len(parts[1])) ||
		parts[2] != "0" || parts[3] != r.Header.Get("X-Amz-Trailer")+":"+base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(parts[1])))) {
		t.Errorf("not a body with a trailer: %q, %v", body, err)
		return
	}
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(parts[1])), int64(len(parts[1]))
	r.Header.Set("Content-Length", strconv.Itoa(len(parts[1])))
	r.Header.Del("Content-Encoding")
}

// The fake server returns the hash that the client sent: Probe must not accept it as
// one that the server computed.
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
			p, address := faultnet.NewProxy(t, o.Endpoint, nil)
			p.Alter(func(res *http.Response) error {
				if res.Request.Method == http.MethodPut && c.version != "" {
					res.Header.Set("X-Amz-Version-Id", c.version)
				}
				return nil
			})
			real, left := p.Server(), c.answers
			p.Handle(func(w http.ResponseWriter, r *http.Request) {
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
			p.Find(t, func(r *http.Request) bool { return r.URL.Query().Has("versioning") })
		})
	}
}
