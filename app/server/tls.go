package cli

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

// useTLS makes the door a secure one, if the configuration says by which
// certificate (C7): files, or an authority that is asked for one.
func (d *door) useTLS(ctx context.Context, c config.Config, log *slog.Logger) error {
	l := c.Listen
	switch {
	case l.Cert != "":
		files := &certFiles{cert: l.Cert, key: l.Key, log: log}
		if err := files.load(); err != nil {
			return err
		}
		d.server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: files.current}
	case len(l.ACME) > 0:
		magic, err := acme(ctx, c, log)
		if err != nil {
			return err
		}
		d.server.TLSConfig = magic.TLSConfig()
		d.server.TLSConfig.NextProtos = append([]string{"h2", "http/1.1"}, d.server.TLSConfig.NextProtos...)
	default:
		return nil
	}
	d.secure, d.url = true, "https"+strings.TrimPrefix(d.url, "http")
	return nil
}

// certFiles is a certificate in files. It is read again when they change, so that
// a renewal needs no restart.
type certFiles struct {
	cert, key string
	log       *slog.Logger

	mu     sync.Mutex
	loaded *tls.Certificate
	stamp  [2]time.Time // when the files were changed
	looked time.Time
}

// lookEvery is how often the files are looked at, by the handshakes.
const lookEvery = 5 * time.Second

func (f *certFiles) load() error {
	stamp, err := f.stampNow()
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return mayfly.Wrap(mayfly.Invalid, fmt.Errorf("TLS certificate: %w", err), "listen.cert and listen.key name a certificate in PEM and its key")
	}
	f.loaded, f.stamp = &pair, stamp
	return nil
}

func (f *certFiles) stampNow() (stamp [2]time.Time, err error) {
	for i, name := range []string{f.cert, f.key} {
		info, err := os.Stat(name)
		if err != nil {
			return stamp, mayfly.Wrap(mayfly.Invalid, fmt.Errorf("TLS certificate: %w", err), "listen.cert and listen.key name files that are there")
		}
		stamp[i] = info.ModTime()
	}
	return stamp, nil
}

// current is the certificate of a handshake. Files that cannot be read leave the
// last good one in use: somebody may be half way through replacing them.
func (f *certFiles) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.looked) < lookEvery {
		return f.loaded, nil
	}
	f.looked = time.Now()
	stamp, err := f.stampNow()
	if err == nil && stamp != f.stamp {
		if err = f.load(); err == nil {
			f.log.Info("the TLS certificate was read again", "file", f.cert)
		}
	}
	if err != nil {
		f.log.Warn("the TLS certificate could not be read again; the last one stays in use", "error", err)
	}
	return f.loaded, nil
}

// acme obtains certificates, and renews them, for as long as ctx goes on. The
// authority calls back at port 443 of the domains (TLS-ALPN), which must lead here.
func acme(ctx context.Context, c config.Config, log *slog.Logger) (*certmagic.Config, error) {
	quiet := zap.NewNop() // what matters comes as an event
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
				log.Info("a certificate was obtained", "domain", data["identifier"])
			case "cert_failed":
				log.Warn("a certificate could not be obtained; it is tried again", "domain", data["identifier"], "error", data["error"])
			}
			return nil
		},
	})
	magic.Issuers = []certmagic.Issuer{certmagic.NewACMEIssuer(magic, certmagic.ACMEIssuer{
		CA: orLetsEncrypt(c.Listen.Authority), Email: c.Listen.Email, Agreed: true, DisableHTTPChallenge: true, Logger: quiet,
	})}
	if err := magic.ManageAsync(ctx, c.Listen.ACME); err != nil {
		return nil, mayfly.Wrap(mayfly.Invalid, fmt.Errorf("certificates for %s: %w", strings.Join(c.Listen.ACME, ", "), err), "look at listen.acme and listen.email")
	}
	return magic, nil
}

func orLetsEncrypt(authority string) string {
	if authority != "" {
		return authority
	}
	return certmagic.LetsEncryptProductionCA
}
