package server

import (
	"context"
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
	"github.com/mayflyhq/mayfly/app/config"
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

// start starts a server on free ports of the loopback.
func start(t *testing.T, change func(c *config.Config)) *Local {
	t.Helper()
	c := config.Default()
	c.Data, c.Disk.Floor = filepath.Join(t.TempDir(), "data"), 0
	c.Listen.API, c.Listen.Admin = "127.0.0.1:0", "127.0.0.1:0"
	change(&c)
	l, err := Start(t.Context(), c, LocalOptions{Log: discard()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestTLSWithCertificateFiles(t *testing.T) {
	cert, key, pool := writeCert(t, t.TempDir(), "first")
	l := start(t, func(c *config.Config) { c.Listen.Cert, c.Listen.Key = cert, key })
	if !strings.HasPrefix(l.API(), "https://") {
		t.Fatal(l.API())
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer c.CloseIdleConnections()
	res, err := c.Get(l.API() + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK || res.TLS == nil || res.TLS.Version < tls.VersionTLS12 {
		t.Errorf("%+v", res)
	}
	if res, err := http.Get(strings.Replace(l.API(), "https", "http", 1) + "/"); err == nil { // Go answers plain HTTP with 400
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
		f.checked = time.Time{} // check again
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

// Without a CA it can be shown that the server starts, refuses handshakes, and
// stops in order.
func TestAServerWhoseACMECAIsDownStartsAndStops(t *testing.T) {
	l := start(t, func(c *config.Config) {
		c.Listen.ACME, c.Listen.Authority, c.Listen.Email = []string{"stories.example.org"}, "https://127.0.0.1:1/directory", "ana@example.org"
	})
	if !strings.HasPrefix(l.API(), "https://") {
		t.Fatal(l.API())
	}
	c, err := tls.Dial("tcp", strings.TrimPrefix(l.API(), "https://"), &tls.Config{ServerName: "stories.example.org"})
	if err == nil {
		_ = c.Close()
		t.Error("a handshake without a certificate succeeded")
	}
}
