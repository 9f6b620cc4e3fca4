package httpapi

import (
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
)

// MediaURL returns the URL by which the holder of a pass gets its object (ST3).
func (c *Call) MediaURL(key *account.Key, p account.Pass) string {
	var b strings.Builder
	b.WriteString(c.URL("/v1/media/"))
	b.WriteString(p.ID.String())
	b.WriteByte('/')
	b.WriteString(p.Object)
	b.WriteByte('?')
	b.WriteString(key.SignPass(p))
	return b.String()
}

// AvatarURL returns the URL of a user's avatar; empty: there is none.
func (c *Call) AvatarURL(p account.Profile) string {
	if p.Picture.IsZero() {
		return p.Avatar
	}
	return c.URL("/v1/users/" + p.User.String() + "/avatar/" + p.Picture.String())
}

// Lasting returns an instant that is between half of lasts and lasts ahead. It is the
// same for all callers for a while, so that equal URLs are cached once and an ETag stays
// valid.
func Lasting(now mayfly.Instant, lasts time.Duration) mayfly.Instant {
	half := mayfly.Instant(max(1, lasts.Milliseconds()/2))
	return now/half*half + 2*half
}
