package conn

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
)

func TestTLSIsOffUnlessEnabledAndTrustsTheBundle(t *testing.T) {
	if c, err := (TLS{}).Config(); c != nil || err != nil {
		t.Errorf("%v, %v", c, err)
	}
	if c, err := (TLS{Enabled: true}).Config(); err != nil || c == nil || c.RootCAs != nil || c.MinVersion == 0 {
		t.Errorf("%v, %v", c, err)
	}
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if c, err := (TLS{Enabled: true, CA: bundle}).Config(); err != nil || c.RootCAs == nil {
		t.Errorf("%v, %v", c, err)
	}
	for _, bad := range []TLS{{CA: bundle}, {Enabled: true, CA: []byte("no certificate")}} {
		if _, err := bad.Config(); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestCredentialsComeTogetherAndNeverPrint(t *testing.T) {
	for _, half := range []Credentials{{User: "ana"}, {Password: "sesame"}} {
		if err := half.Validate(); !errors.Is(err, mayfly.Invalid) {
			t.Error("half of the credentials is accepted")
		}
	}
	whole := Credentials{User: "ana", Password: "sesame"}
	if err := errors.Join(whole.Validate(), Credentials{}.Validate()); err != nil {
		t.Error(err)
	}
	var out strings.Builder
	slog.New(slog.NewJSONHandler(&out, nil)).Info("open", "credentials", whole, "pointer", &whole)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		_, _ = fmt.Fprintf(&out, verb+verb, whole, struct{ C Credentials }{whole})
	}
	text, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)
	for _, word := range []string{"ana", "sesame", fmt.Sprintf("%x", "sesame")} {
		if strings.Contains(out.String(), word) {
			t.Errorf("%q is printed in %s", word, out.String())
		}
	}
}

func TestPausesDoubleUpToABoundAndDiffer(t *testing.T) {
	b := Backoff{First: 50 * time.Millisecond, Longest: 5 * time.Second}
	for n, want := range map[int]time.Duration{1: 50, 2: 100, 3: 200, 7: 3200, 8: 5000, 60: 5000} {
		want *= time.Millisecond
		if low, high := b.after(n, 0), b.after(n, 1); low != want/2 || high != want {
			t.Errorf("after try %d the pause is %v to %v, want %v to %v", n, low, high, want/2, want)
		}
	}
}

func TestAServerThatFailedIsAskedAgainByOneCallAtATime(t *testing.T) {
	var b Breaker
	must := func(what string, now time.Duration, want bool) {
		t.Helper()
		if b.Allow(now) != want {
			t.Fatalf("%s: allowed %t", what, !want)
		}
	}
	must("the first call", 0, true)
	must("a second one beside it", 0, true)
	b.Failed(10)
	must("a call just after a failure", 9, false)
	must("one call after the rest", 10, true)
	must("another one beside it", 100, false)
	b.Failed(110)
	must("a call just after the next failure", 109, false)
	must("one call after that rest", 110, true)
	b.Abandoned()
	must("another call when the caller of that one went away", 111, true)
	b.Answered()
	must("a call to a server that answers", 112, true)
	must("another one beside it", 112, true)
}
