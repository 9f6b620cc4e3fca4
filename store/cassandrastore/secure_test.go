//go:build servers

package cassandrastore

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/conn"
	"github.com/mayflyhq/mayfly/store/storetest"
)

func TestASecureServerNeedsThePasswordAndItIsNeverLogged(t *testing.T) {
	t.Parallel()
	good := optionsFor(t, secureServer, testKeyspace+"_secure")
	var log storetest.LogBuffer
	good.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s, err := Open(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	fresh := births(t, 1, "24h")
	insert(t, s, fresh...)
	if found, err := s.Ledger().Get(t.Context(), fresh[0].Item.ID); err != nil || found[0].Item != fresh[0].Item {
		t.Errorf("it reads back %+v, %v", found, err)
	}
	for about, c := range map[string]struct {
		spoil func(*Options)
		hint  string
	}{
		"a wrong password": {func(o *Options) { o.Credentials.Password += "x" }, "check user and password"},
		"an unknown user":  {func(o *Options) { o.Credentials.User = "stranger" }, "check user and password"},
		"no credentials":   {func(o *Options) { o.Credentials = conn.Credentials{} }, "check user and password"},
		"no TLS":           {func(o *Options) { o.TLS = conn.TLS{} }, ""},
		"an unknown CA":    {func(o *Options) { o.TLS.CA = nil }, "set ca_file"},
	} {
		o := good
		o.Patience, o.ConnectTimeout = time.Minute, 30*time.Second // a refusal comes at once; a busy server hashes a password for seconds
		c.spoil(&o)
		bad, err := Open(t.Context(), o)
		if err == nil {
			t.Errorf("%s is accepted: %v", about, bad.Close())
			continue
		}
		t.Logf("%s: %v", about, err)
		if !errors.Is(err, mayfly.Unavailable) || !strings.Contains(err.Error(), c.hint) {
			t.Errorf("%s: %v, want Unavailable with %q", about, err, c.hint)
		}
		fmt.Fprintf(&log, "%v %+v %#v", err, err, err)
	}
	if strings.Contains(log.String(), good.Credentials.Password.Reveal()) {
		t.Error("the password is in the log or in an error")
	}
}
