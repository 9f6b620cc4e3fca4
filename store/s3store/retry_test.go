package s3store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/conn"
)

// alone is a tier whose server is never called.
func alone(t testing.TB, o Options) *Store {
	t.Helper()
	o.Endpoint, o.Credentials = "http://127.0.0.1:1", conn.Credentials{User: "ana", Password: "secret"}
	return tier(t, connect(t, o), TierOptions{Bucket: "hot"})
}

func busy() error {
	return minio.ErrorResponse{Code: "SlowDown", StatusCode: http.StatusServiceUnavailable}
}

func TestARequestIsTriedAtMostTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t, Options{Tries: 4, Pause: time.Second})
		for _, c := range []struct {
			name  string
			err   error
			tries int
			kind  mayfly.Kind
		}{
			{"busy", busy(), 4, mayfly.Unavailable},
			{"broken", minio.ErrorResponse{Code: "InternalError", StatusCode: 500}, 4, mayfly.Unavailable},
			{"the wire", io.ErrUnexpectedEOF, 4, mayfly.Unavailable},
			{"corrupted in transit", minio.ErrorResponse{Code: "XAmzContentSHA256Mismatch", StatusCode: 400}, 4, mayfly.Unavailable},
			{"absent", minio.ErrorResponse{Code: "NoSuchKey", StatusCode: 404}, 1, mayfly.NotFound},
			{"denied", minio.ErrorResponse{Code: "AccessDenied", StatusCode: 403}, 1, mayfly.Unavailable},
			{"full", minio.ErrorResponse{Code: "QuotaExceeded", StatusCode: 403}, 1, mayfly.Full},
			{"full by status", minio.ErrorResponse{Code: "x", StatusCode: 507}, 1, mayfly.Full},
			{"range", minio.ErrorResponse{Code: "InvalidRange", StatusCode: 416}, 1, mayfly.Invalid},
			{"not implemented", minio.ErrorResponse{Code: "NotImplemented", StatusCode: 501}, 1, mayfly.Unsupported},
			{"class", minio.ErrorResponse{Code: "InvalidStorageClass", StatusCode: 400}, 1, mayfly.Unsupported},
			{"no bucket", minio.ErrorResponse{Code: "NoSuchBucket", StatusCode: 404}, 1, mayfly.Unavailable},
			{"no upload", minio.ErrorResponse{Code: "NoSuchUpload", StatusCode: 404}, 1, mayfly.Unavailable},
			{"too large", minio.ErrorResponse{Code: "EntityTooLarge", StatusCode: 400}, 1, mayfly.TooLarge},
		} {
			n, begun := 0, time.Now()
			err := s.try(t.Context(), s.reads("00/x"), func() error { n++; return c.err })
			if n != c.tries || !errors.Is(err, c.kind) {
				t.Errorf("%s: %d tries, %v", c.name, n, err)
			}
			if errors.Is(err, mayfly.NotFound) && c.kind != mayfly.NotFound {
				t.Errorf("%s looks like absence", c.name)
			}
			if took := time.Since(begun); took > 10*time.Second { // 1 + 2 + 4 and what the bucket takes
				t.Errorf("%s took %v", c.name, took)
			}
		}
	})
}

func TestASuccessfulTryIsTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := alone(t, Options{}), 0
		err := s.try(t.Context(), s.writes("00/x"), func() error {
			if n++; n < 3 {
				return busy()
			}
			return nil
		})
		if n != 3 || err != nil {
			t.Errorf("%d tries, %v", n, err)
		}
	})
}

func TestAnEndedContextEndsThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t, Options{Pause: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		err := s.try(ctx, s.reads("00/x"), busy)
		if took := time.Since(begun); took != time.Second || !errors.Is(err, mayfly.Unavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// The timeout of a try must not look like the caller's: the caller would blame the item
// for a server that hangs.
func TestTheTimeoutOfATryIsNotReportedAsTheCallers(t *testing.T) {
	s := alone(t, Options{Tries: 1})
	dial := net.Dialer{Timeout: time.Nanosecond}
	_, dialled := dial.Dial("tcp", "127.0.0.1:1")
	for name, cause := range map[string]error{
		"no answer":     context.DeadlineExceeded,
		"no connection": dialled,
		"given up":      context.Canceled,
	} {
		err := s.try(t.Context(), s.reads("00/x"), func() error { return &url.Error{Op: "Get", URL: "http://127.0.0.1:1/", Err: cause} })
		wantKind(t, mayfly.Unavailable, err)
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v is taken for the caller's own", name, err)
		}
	}
	if !errors.Is(dialled, context.DeadlineExceeded) {
		t.Errorf("%v shows nothing", dialled)
	}
}

// still is a body that sends nothing until it is closed.
type still struct{ ctx context.Context }

func (s still) Read([]byte) (int, error) { <-s.ctx.Done(); return 0, s.ctx.Err() }
func (still) Close() error               { return nil }

func TestAStalledDownloadIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := &download{ctx: ctx, cancel: cancel, body: still{ctx}, key: "00/x", left: 10, stall: 30 * time.Second}
		begun := time.Now()
		_, err := d.Read(make([]byte, 10))
		wantKind(t, mayfly.Unavailable, err)
		if took := time.Since(begun); took != 30*time.Second {
			t.Errorf("it took %v", took)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A caller that reads slowly is not a server that stalls.
func TestASlowReaderIsNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := &download{ctx: ctx, cancel: cancel, body: io.NopCloser(bytes.NewReader(make([]byte, 10))), key: "00/x", left: 10, stall: time.Second}
		for range 10 {
			time.Sleep(time.Minute)
			if _, err := d.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		if ctx.Err() != nil {
			t.Error("the download was given up")
		}
		cancel()
	})
}

func TestAServerThatNeverAnswersTimesOut(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]int{} // by the first of the names in a request
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		name := regexp.MustCompile(`00/[a-z]+`).FindString(fmt.Sprintln(r.URL.Path, r.URL.Query(), string(body)))
		mu.Lock()
		asked[name]++
		mu.Unlock()
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	s := connect(t, Options{
		Endpoint: silent.URL, Credentials: conn.Credentials{User: "ana", Password: "secret"},
		Tries: 2, Pause: time.Millisecond, Timeout: time.Second,
	})
	hot := tier(t, s, TierOptions{Bucket: "hot"})
	for name, call := range map[string]func() error{
		"open":   func() error { _, _, err := hot.Open(t.Context(), "00/open", store.Span{}); return err },
		"stat":   func() error { _, err := hot.Stat(t.Context(), "00/stat"); return err },
		"put":    func() error { _, err := hot.Put(t.Context(), "00/put", strings.NewReader("x")); return err },
		"delete": func() error { return hot.Delete(t.Context(), "00/delete") },
		"list":   func() error { _, err := hot.List(t.Context(), "00/list/a", "", 10); return err },
		"copy":   func() error { _, err := hot.CopyTo(t.Context(), hot, "00/copy", "00/y"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := call()
			wantKind(t, mayfly.Unavailable, err)
			if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
				t.Errorf("%v is taken for the caller's own", err)
			}
			mu.Lock()
			defer mu.Unlock()
			if n := asked["00/"+name]; n != 2 {
				t.Errorf("asked %d times: %v", n, asked)
			}
		})
	}
}
