//go:build servers

package kafkastore

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
)

// noted is a log that is read while it is written.
type noted struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (n *noted) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.out.Write(p)
}

func (n *noted) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.out.String()
}

func TestASecureBrokerLetsInWhoKnowsThePasswordAndNobodyReadsIt(t *testing.T) {
	b := startBroker(t, "--secure")
	good := b.options()
	var log noted
	good.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := open(t, good)
	events := life(t, 3)
	if err := s.Append(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	r := join(t, s, "secure")
	if records, err := r.Next(t.Context(), 10); err != nil || records[0].Event != events[0] {
		t.Fatalf("%v, %v", records, err)
	}
	if err := r.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for about, spoil := range map[string]func(*Options){
		"a wrong password":     func(o *Options) { o.Credentials.Password += "x" },
		"a stranger":           func(o *Options) { o.Credentials.User = "stranger" },
		"another mechanism":    func(o *Options) { o.Credentials.Mechanism = ScramSHA256 },
		"no credentials":       func(o *Options) { o.Credentials = Credentials{} },
		"no TLS":               func(o *Options) { o.TLS = nil },
		"an unknown authority": func(o *Options) { o.TLS = o.TLS.Clone(); o.TLS.RootCAs = nil },
	} {
		o := good
		o.Patience = 2 * time.Second
		spoil(&o)
		bad, err := Open(t.Context(), o)
		if err == nil {
			t.Errorf("%s is let in: %v", about, bad.Close())
			continue
		}
		t.Logf("%s: %v", about, err)
		if !errors.Is(err, mayfly.Unavailable) {
			t.Errorf("%s: %v", about, err)
		}
		log.Write([]byte(err.Error()))
	}
	if strings.Contains(log.String(), good.Credentials.Password) {
		t.Error("the password is in the log or in an error")
	}
}
