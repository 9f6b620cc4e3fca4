package profile

import (
	"fmt"
	"os"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/conn"
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
		return nil, mayfly.Wrap(mayfly.Invalid, fmt.Errorf("config: %s.ca_file: %w", section, err), "name a file that this user may read")
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

// wireTLS reads how a connection is encrypted.
func wireTLS(section string, encrypted bool, authority string) (conn.TLS, error) {
	if !encrypted {
		return conn.TLS{}, nil
	}
	pem, err := authorityOf(section, authority)
	if err != nil {
		return conn.TLS{}, err
	}
	t := conn.TLS{Enabled: true, CA: pem}
	if _, err := t.Config(); err != nil {
		return conn.TLS{}, fmt.Errorf("config: %s.ca_file: %s: %w", section, authority, err)
	}
	return t, nil
}
