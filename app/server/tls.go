package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
)

// tlsConfig returns how the listeners serve TLS, with a certificate from files or from
// an ACME CA (C7); nil if the configuration names none.
func tlsConfig(ctx context.Context, c config.Config, log *slog.Logger) (*tls.Config, error) {
	switch {
	case c.Listen.Cert != "":
		files := &certFiles{cert: c.Listen.Cert, key: c.Listen.Key, log: log}
		if err := files.load(); err != nil {
			return nil, err
		}
		return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: files.current}, nil
	case len(c.Listen.ACME) > 0:
		magic, err := acme(ctx, c, log)
		if err != nil {
			return nil, err
		}
		secure := magic.TLSConfig()
		secure.NextProtos = append([]string{"h2", "http/1.1"}, secure.NextProtos...)
		return secure, nil
	default:
		return nil, nil
	}
}

// useTLS serves TLS unless secure is nil.
func (l *listener) useTLS(secure *tls.Config) {
	if secure != nil {
		l.server.TLSConfig, l.secure, l.url = secure, true, "https"+strings.TrimPrefix(l.url, "http")
	}
}

// certFiles is a certificate in files. It is reloaded when they change, so that a
// renewal needs no restart.
type certFiles struct {
	cert, key string
	log       *slog.Logger

	mu      sync.Mutex
	loaded  *tls.Certificate
	stamp   [2]time.Time // modification times of the files
	checked time.Time
}

// checkEvery is how often a handshake checks whether the files have changed.
const checkEvery = 5 * time.Second

func (f *certFiles) load() error {
	stamp, err := f.stampNow()
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return mayfly.Wrap(mayfly.Invalid, fmt.Errorf("TLS certificate: %w", err), "listen.cert_file and listen.key_file must name a certificate in PEM and its key")
	}
	f.loaded, f.stamp = &pair, stamp
	return nil
}

func (f *certFiles) stampNow() (stamp [2]time.Time, err error) {
	for i, name := range []string{f.cert, f.key} {
		info, err := os.Stat(name)
		if err != nil {
			return stamp, mayfly.Wrap(mayfly.Invalid, fmt.Errorf("TLS certificate: %w", err), "listen.cert_file and listen.key_file must name files that exist")
		}
		stamp[i] = info.ModTime()
	}
	return stamp, nil
}

// current returns the certificate for a handshake. While the files cannot be read
// the last good certificate stays in use: they may be half replaced.
func (f *certFiles) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.checked) < checkEvery {
		return f.loaded, nil
	}
	f.checked = time.Now()
	stamp, err := f.stampNow()
	if err == nil && stamp != f.stamp {
		if err = f.load(); err == nil {
			f.log.Info("TLS certificate reloaded", "file", f.cert)
		}
	}
	if err != nil {
		f.log.Warn("cannot reload TLS certificate, keeping the last one", "error", err)
	}
	return f.loaded, nil
}

// acme obtains and renews certificates until ctx ends. The CA connects to port
// 443 of the domains (TLS-ALPN), which must lead to this listener.
func acme(ctx context.Context, c config.Config, log *slog.Logger) (*certmagic.Config, error) {
	quiet := zap.NewNop() // OnEvent logs what matters
	var magic *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return magic, nil }, Logger: quiet,
	})
	context.AfterFunc(ctx, cache.Stop)
	magic = certmagic.New(cache, certmagic.Config{
		Storage: &certmagic.FileStorage{Path: filepath.Join(c.Data, "acme")}, Logger: quiet,
		OnEvent: func(_ context.Context, event string, data map[string]any) error {
			switch event {
			case "cert_obtained":
				log.Info("certificate obtained", "domain", data["identifier"])
			case "cert_failed":
				log.Warn("cannot obtain certificate, will retry", "domain", data["identifier"], "error", data["error"])
			}
			return nil
		},
	})
	magic.Issuers = []certmagic.Issuer{certmagic.NewACMEIssuer(magic, certmagic.ACMEIssuer{
		CA: orLetsEncrypt(c.Listen.Authority), Email: c.Listen.Email, Agreed: true, DisableHTTPChallenge: true, Logger: quiet,
	})}
	if err := magic.ManageAsync(ctx, c.Listen.ACME); err != nil {
		return nil, mayfly.Wrap(mayfly.Invalid, fmt.Errorf("certificates for %s: %w", strings.Join(c.Listen.ACME, ", "), err), "check listen.acme_domains and listen.acme_email")
	}
	return magic, nil
}

func orLetsEncrypt(ca string) string {
	if ca != "" {
		return ca
	}
	return certmagic.LetsEncryptProductionCA
}
