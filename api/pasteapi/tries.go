package pasteapi

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/paste"
)

// triesPer is the time in which passwordTries may be tried.
const triesPer = 10 * time.Minute

// passwordTries is how many passwords a user, or an address without one, may try for
// one paste.
func passwordTries() account.Rate { return account.Rate{Count: 10, Per: triesPer} }

// takeTry counts a password that a caller tries before it is checked, so that guesses
// at once are counted too. A password that was right for this caller a moment ago is
// no try: a player asks for one range after the other.
func (h *handlers) takeTry(c *httpapi.Call, a asked) error {
	if a.password == "" || h.right.has(c, a) {
		return nil
	}
	return c.TakeFrom("paste password "+a.id.Short(), passwordTries(), 1)
}

// noteTry notes a password that err does not call wrong. A paste that is refused for
// another reason tells nothing about it.
func (h *handlers) noteTry(c *httpapi.Call, a asked, err error) {
	if a.password != "" && (err == nil || errors.As(err, new(paste.ReadsLimited))) {
		h.right.add(c, a)
	}
}

// rightPasswords are the passwords that were right for a caller in the last minutes.
// Of each it has a MAC under a key of this process.
type rightPasswords struct {
	*sync.Mutex
	key   []byte
	until map[[sha256.Size]byte]mayfly.Instant
}

// maxRight is how many are kept: a caller whose password was forgotten uses up a try.
const maxRight = 10_000

func newRightPasswords() rightPasswords {
	return rightPasswords{Mutex: &sync.Mutex{}, key: []byte(rand.Text()), until: map[[sha256.Size]byte]mayfly.Instant{}}
}

func (r rightPasswords) of(c *httpapi.Call, a asked) [sha256.Size]byte {
	m := hmac.New(sha256.New, r.key)
	_, _ = fmt.Fprintf(m, "%s %s %s %s", a.id, c.Caller.User, c.Address, a.password)
	return [sha256.Size]byte(m.Sum(nil))
}

func (r rightPasswords) has(c *httpapi.Call, a asked) bool {
	mac := r.of(c, a)
	r.Lock()
	defer r.Unlock()
	return c.Now < r.until[mac]
}

func (r rightPasswords) add(c *httpapi.Call, a asked) {
	mac := r.of(c, a)
	r.Lock()
	defer r.Unlock()
	if len(r.until) >= maxRight {
		clear(r.until)
	}
	r.until[mac] = c.Now.Add(triesPer)
}

// drop removes what is too old at now.
func (r rightPasswords) drop(now mayfly.Instant) {
	r.Lock()
	defer r.Unlock()
	for mac, until := range r.until {
		if now >= until {
			delete(r.until, mac)
		}
	}
}
