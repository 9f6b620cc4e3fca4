//go:build servers

package kafkastore

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

func TestASecureBrokerNeedsThePasswordAndItIsNeverLogged(t *testing.T) {
	t.Parallel()
	good := brokerAt(t, secureBroker)
	var log storetest.LogBuffer
	good.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := open(t, good)
	events := life(t, 3)
	if err := s.Append(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	r := join(t, s, "secure")
	if records, err := next(t, r, 10); err != nil || records[0].Event != events[0] {
		t.Fatalf("%v, %v", records, err)
	}
	if err := r.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	type private struct{ opts Options } // fmt prints unexported fields without calling their methods
	fmt.Fprintf(&log, "%+v", private{s.opts})
	for about, c := range map[string]struct {
		spoil func(*Options)
		hint  string
	}{
		"a wrong password":  {func(o *Options) { o.Credentials.Password += "x" }, "check user, password"},
		"an unknown user":   {func(o *Options) { o.Credentials.User = "stranger" }, "check user, password"},
		"another mechanism": {func(o *Options) { o.Mechanism = ScramSHA256 }, "check user, password"},
		"no credentials":    {func(o *Options) { o.Credentials = conn.Credentials{} }, ""},
		"no TLS":            {func(o *Options) { o.TLS = conn.TLS{} }, ""},
		"an unknown CA":     {func(o *Options) { o.TLS.CA = nil }, "set ca_file"},
	} {
		o := good
		o.Timeout, o.Late = time.Second, true // which changes nothing: a broker answers
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
		log.Write([]byte(err.Error()))
	}
	if strings.Contains(log.String(), good.Credentials.Password.Reveal()) {
		t.Error("the password is in the log or in an error")
	}
}
