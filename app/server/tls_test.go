package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// writeCert writes a certificate for 127.0.0.1 that says name, and its key.
func writeCert(t *testing.T, folder, name string) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	for path, text := range map[string][]byte{cert: text, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key, pool
}

func TestTLSByFiles(t *testing.T) {
	folder := t.TempDir()
	cert, key, pool := writeCert(t, folder, "first")
	r := startServer(t, filepath.Join(folder, "data"), "--set", "listen.cert="+cert, "--set", "listen.key="+key)
	if !strings.HasPrefix(r.api, "https://") {
		t.Fatal(r.api)
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer c.CloseIdleConnections()
	res, err := c.Get(r.api + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK || res.TLS == nil || res.TLS.Version < tls.VersionTLS12 {
		t.Errorf("%+v", res)
	}
	if res, err := http.Get(strings.Replace(r.api, "https", "http", 1) + "/"); err == nil { // Go answers plain HTTP with 400
		_ = res.Body.Close()
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("plain HTTP: %d", res.StatusCode)
		}
	}
}

func TestACertificateThatWasReplacedIsUsedAndABrokenOneIsNot(t *testing.T) {
	folder := t.TempDir()
	cert, key, _ := writeCert(t, folder, "first")
	f := &certFiles{cert: cert, key: key, log: discard()}
	if err := f.load(); err != nil {
		t.Fatal(err)
	}
	name := func(age time.Duration) string {
		t.Helper()
		for _, file := range []string{cert, key} {
			at := time.Now().Add(-age)
			if err := os.Chtimes(file, at, at); err != nil {
				t.Fatal(err)
			}
		}
		f.looked = time.Time{} // it is time to look again
		pair, err := f.current(nil)
		if err != nil {
			t.Fatal(err)
		}
		return pair.Leaf.Subject.CommonName
	}
	if got := name(3 * time.Hour); got != "first" {
		t.Error(got)
	}
	writeCert(t, folder, "second")
	if got := name(2 * time.Hour); got != "second" {
		t.Error(got)
	}
	if err := os.WriteFile(cert, []byte("half a cert"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := name(time.Hour); got != "second" {
		t.Error(got)
	}
	for _, bad := range []*certFiles{{cert: cert, key: key}, {cert: "nowhere", key: key}} {
		if err := bad.load(); !errors.Is(err, mayfly.Invalid) {
			t.Error(err)
		}
	}
}

// The authority is away: what can be said without one is that the server starts,
// refuses handshakes, and stops in good order.
func TestAServerWhoseAuthorityIsAwayStartsAndStops(t *testing.T) {
	folder := t.TempDir()
	r := startServer(t, filepath.Join(folder, "data"),
		"--set", "listen.acme=stories.example.org", "--set", "listen.authority=https://127.0.0.1:1/directory", "--set", "listen.email=ana@example.org")
	if !strings.HasPrefix(r.api, "https://") {
		t.Fatal(r.api)
	}
	c, err := tls.Dial("tcp", strings.TrimPrefix(r.api, "https://"), &tls.Config{ServerName: "stories.example.org"})
	if err == nil {
		_ = c.Close()
		t.Error("a handshake without a certificate")
	}
	r.end()
}
