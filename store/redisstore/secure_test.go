//go:build servers

package redisstore

import (
	"context"
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

func TestASecureServerNeedsThePasswordAndItIsNeverPrinted(t *testing.T) {
	for _, name := range []string{secureServer, secureCluster} {
		good := at(t, name)
		var log storetest.LogBuffer
		good.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		s := open(t, good)
		if err := Check(t.Context(), good); err != nil {
			t.Fatal(err)
		}
		mustTake(t, s.Limits(), "ana", hourly(5), 1, noon)
		if err := s.Signals().Publish(t.Context(), freshSignal()); err != nil {
			t.Error(err)
		}
		for about, c := range map[string]struct {
			spoil func(*Options)
			hint  string
			waits bool // Open succeeds, since the server may come later
		}{
			"a wrong password": {func(o *Options) { o.Credentials.Password += "x" }, "check user, password", false},
			"an unknown user":  {func(o *Options) { o.Credentials.User = "stranger" }, "check user, password", false},
			"no credentials":   {func(o *Options) { o.Credentials = conn.Credentials{} }, "check user, password", false},
			"no TLS":           {func(o *Options) { o.TLS = conn.TLS{} }, "check that Redis runs", true},
			"an unknown CA":    {func(o *Options) { o.TLS.CA = nil }, "set ca_file", true},
		} {
			o := good
			o.Lease = 300 * time.Millisecond
			c.spoil(&o)
			bad, err := Open(o)
			if err == nil {
				if !c.waits {
					t.Errorf("%s: %s is accepted", name, about)
				}
				mustClose(t, bad)
				err = Check(t.Context(), o)
				for try := 1; try < 10 && errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), c.hint); try++ {
					err = Check(t.Context(), o) // on a busy machine no server has answered in time
				}
			}
			wantKind(t, mayfly.Unavailable, err)
			if err == nil || !strings.Contains(err.Error(), c.hint) {
				t.Errorf("%s: the hint for %s is not %q: %v", name, about, c.hint, err)
			}
			fmt.Fprintf(&log, "%v %+v", err, err)
		}
		if strings.Contains(log.String(), good.Credentials.Password.Reveal()) {
			t.Errorf("%s: the password is in the log or in an error", name)
		}
	}
}
