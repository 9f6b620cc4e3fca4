package s3store

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/conn"
)

func TestSecretsAreNeverPrinted(t *testing.T) {
	const key, secret, session = "AKANAOWNKEY", "anas-own-secret", "anas-session"
	o := Options{Endpoint: "http://127.0.0.1:1", Credentials: conn.Credentials{User: key, Password: secret}, Session: session}
	s := connect(t, o)
	hot := tier(t, s, TierOptions{Bucket: "hot"})
	type bare Server // without String: its private fields, which print themselves
	var log strings.Builder
	logger := slog.New(slog.NewJSONHandler(&log, nil))
	text := slog.New(slog.NewTextHandler(&log, nil))
	for _, v := range []any{o, &o, o.Credentials, o.Credentials.Password, (*bare)(s), s.String(), hot.String()} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			_, _ = fmt.Fprintf(&log, verb, v)
		}
		logger.Info("x", "v", v)
		text.Info("x", "v", v)
		if out, err := json.Marshal(v); err == nil {
			log.Write(out)
		}
	}
	_, err := hot.Stat(t.Context(), "00/x")
	log.WriteString(fmt.Sprint(err))
	for _, word := range []string{key, secret, session, fmt.Sprintf("%x", secret)} {
		if strings.Contains(log.String(), word) {
			t.Errorf("%q is shown in\n%s", word, log.String())
		}
	}
}

func TestCredentialsComeFromTheEnvironmentWhenNoneAreGiven(t *testing.T) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_SESSION_TOKEN"} {
		t.Setenv(name, "")
	}
	o := Options{Endpoint: "http://127.0.0.1:1"}
	_, err := Connect(o)
	wantKind(t, mayfly.Invalid, err)
	if err == nil || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
		t.Errorf("there is no hint in %v", err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "ana")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	s := connect(t, o)
	if value, err := s.signer.GetWithContext(nil); err != nil || value.AccessKeyID != "ana" {
		t.Errorf("the key is %q, %v", value.AccessKeyID, err)
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	fine := Options{Endpoint: "https://s3.example", Credentials: conn.Credentials{User: "ana", Password: "x"}}
	if _, err := Connect(fine); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Options){
		"no address":             func(o *Options) { o.Endpoint = "" },
		"no scheme":              func(o *Options) { o.Endpoint = "s3.example:9000" },
		"a path":                 func(o *Options) { o.Endpoint = "https://s3.example/bucket" },
		"a secret in an address": func(o *Options) { o.Endpoint = "https://ana:secret@s3.example" },
		"another public address": func(o *Options) { o.Public = "ftp://s3.example" },
		"half of the secret":     func(o *Options) { o.Credentials.Password = "" },
		"parts too small":        func(o *Options) { o.PartBytes = 1000 },
		"copies too big":         func(o *Options) { o.CopyBytes = 6 * gibibyte },
		"negative tries":         func(o *Options) { o.Tries = -1 },
		"negative rate":          func(o *Options) { o.Writes = -1 },
		"no certificate":         func(o *Options) { o.CA = []byte("secret") },
	} {
		o := fine
		change(&o)
		_, err := Connect(o)
		if wantKind(t, mayfly.Invalid, err); err == nil || strings.Contains(err.Error(), "secret@") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestACertificateIsTrustedOnlyWithItsCA(t *testing.T) {
	server := httptest.NewTLSServer(gofakes3.New(s3mem.New()).Server())
	t.Cleanup(server.Close)
	o := quick(Options{Endpoint: server.URL, Credentials: conn.Credentials{User: "ana", Password: "secret"}})
	_, err := tier(t, connect(t, o), TierOptions{Bucket: "hot"}).Put(t.Context(), "00/x", strings.NewReader("x"))
	wantKind(t, mayfly.Unavailable, err)
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("the error does not speak of the certificate: %v", err)
	}
	o.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	s := connect(t, o)
	hot := tier(t, s, TierOptions{Bucket: freshBucket(t, s)})
	mustPut(t, hot, "00/x", []byte("x"))
	wantContent(t, hot, "00/x", []byte("x"))
}
