package node

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/product/account"
)

func keyFile(c config.Config) string {
	if c.Tokens.KeyFile != "" {
		return c.Tokens.KeyFile
	}
	return filepath.Join(c.Data, "key")
}

// TokenRequest is what an access token is to say.
type TokenRequest struct {
	User  string // UUID, ~name or name; may be empty for other scopes than user
	Scope string // user, service, moderator or admin
	Lasts time.Duration
}

// MintToken signs an access token with the key that a configuration names; no
// server is needed. It makes no key: only a server's is good for anything.
func MintToken(c config.Config, r TokenRequest, now mayfly.Instant) (account.Token, error) {
	if _, err := os.Stat(keyFile(c)); errors.Is(err, fs.ErrNotExist) {
		return "", mayfly.Errorf(mayfly.NotFound, "there is no key at %s", keyFile(c)).WithHint("name the server's data folder with --data; mayfly serve makes the key at its first start")
	}
	key, err := LoadKey(c)
	if err != nil {
		return "", err
	}
	g := account.Grant{Issuer: c.Tokens.Issuer, Audience: c.Tokens.Audience, Scopes: []account.Scope{account.Scope(r.Scope)}, Lasts: r.Lasts, Subject: r.Scope}
	if r.User != "" {
		g.User, g.Subject = UserNamed(c, r.User), strings.TrimPrefix(r.User, "~")
	}
	return key.Mint(g, now)
}

// UserNamed is the user that text names: a UUID, or a name that the home issuer
// knows them by, with ~ or without.
func UserNamed(c config.Config, text string) mayfly.UserID {
	home := c.Tokens.Home
	if home == "" {
		home = c.Tokens.Issuer
	}
	return mayfly.HomeUserOf(home, strings.TrimPrefix(text, "~"))
}
