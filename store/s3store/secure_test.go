//go:build servers

package s3store

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
)

func TestASecureServerNeedsTheSecretAndItIsNeverPrinted(t *testing.T) {
	good := quick(serverAt(t, secureServer))
	s := connect(t, good)
	hot := tier(t, s, TierOptions{Bucket: freshBucket(t, s)})
	if err := hot.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustPut(t, hot, "00/x", []byte("x"))
	wantContent(t, hot, "00/x", []byte("x"))
	shown := ""
	for about, c := range map[string]struct {
		spoil func(*Options)
		hint  string // or words of the cause
	}{
		"a wrong secret":  {func(o *Options) { o.Credentials.Password += "x" }, "check the access key, its secret"},
		"an unknown user": {func(o *Options) { o.Credentials.User = "stranger" }, "check the access key, its secret"},
		"an unknown CA":   {func(o *Options) { o.CA = nil }, "set ca_file"},
		"no TLS":          {func(o *Options) { o.Endpoint = strings.Replace(o.Endpoint, "https:", "http:", 1) }, "http://"},
	} {
		o := good
		c.spoil(&o)
		bad := tier(t, connect(t, o), TierOptions{Bucket: hot.opts.Bucket})
		_, put := bad.Put(t.Context(), "00/y", strings.NewReader("y"))
		for doing, err := range map[string]error{"put": put, "probe": bad.Probe(t.Context())} {
			if !errors.Is(err, mayfly.Unavailable) || !strings.Contains(err.Error(), c.hint) {
				t.Errorf("%s: the %s is answered with %v, want Unavailable with %q", about, doing, err, c.hint)
			}
			shown += fmt.Sprintf("%v %+v %#v", err, err, err)
		}
	}
	if strings.Contains(shown, good.Credentials.Password.Reveal()) {
		t.Error("the secret is in an error")
	}
}
