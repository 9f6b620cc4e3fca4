package profile

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/mayflyhq/mayfly"
)

const (
	inFile        = "file:"
	longestSecret = 1 << 16
)

// secret is what a setting says, or what the file holds that it names.
func secret(key string, s mayfly.Secret) (mayfly.Secret, error) {
	path, named := strings.CutPrefix(s.Reveal(), inFile)
	if !named {
		return s, nil
	}
	text, err := readSmall(path)
	if err != nil {
		return "", mayfly.Wrap(mayfly.Invalid, fmt.Errorf("config: %s: %w", key, err), "name a file that this user may read")
	}
	return mayfly.Secret(strings.TrimRight(string(text), "\r\n")), nil
}

// authorityOf reads who signed a server's certificate; nil: the system's authorities.
func authorityOf(section, path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	pem, err := readSmall(path)
	if err != nil {
		return nil, mayfly.Wrap(mayfly.Invalid, fmt.Errorf("config: %s.authority: %w", section, err), "name a file that this user may read")
	}
	return pem, nil
}

func readSmall(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > longestSecret {
		return nil, fmt.Errorf("%s is no file of at most %d bytes", path, longestSecret)
	}
	return os.ReadFile(path)
}

// wireTLS is how a connection is encrypted; nil: not at all.
func wireTLS(section string, encrypted bool, authority string) (*tls.Config, error) {
	if !encrypted {
		return nil, nil
	}
	pem, err := authorityOf(section, authority)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if pem == nil {
		return c, nil
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, mayfly.Errorf(mayfly.Invalid, "config: %s.authority: there is no certificate in %s", section, authority).
			WithHint("it must be in PEM, between BEGIN CERTIFICATE and END CERTIFICATE")
	}
	return c, nil
}
