package redisstore

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/mayflyhq/mayfly"
)

const (
	hintAway       = "the answer is the same without Redis, only slower; check that it runs and can be reached"
	hintRefused    = "check user, password, TLS and ACL of Redis; options.go lists what its user needs"
	hintDistrusted = "name the authority that signed the certificates of Redis"
)

// unavailable says that Redis did not do what was being done: whoever asked has
// a way without it.
func unavailable(doing string, err error) error {
	hint := hintAway
	if distrusted := (*tls.CertificateVerificationError)(nil); errors.As(err, &distrusted) {
		hint = hintDistrusted
	} else if refused(err) {
		hint = hintRefused
	}
	return mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("redis: %s: %w", doing, err), hint)
}

// refused says whether waiting will not help: Redis answers, and will not have us.
func refused(err error) bool {
	var answer *rueidis.RedisError
	if !errors.As(err, &answer) {
		return false
	}
	text := answer.Error()
	for _, code := range []string{"NOAUTH", "WRONGPASS", "NOPERM", "WRONGTYPE", "ERR unknown command", "ERR AUTH"} {
		if strings.HasPrefix(text, code) {
			return true
		}
	}
	// A script passes on, in the words of its version, what a command in it was refused for.
	for _, words := range []string{"ACL failure in script", "The user executing the script can't", "Unknown Redis command called from script", "WRONGTYPE"} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}
