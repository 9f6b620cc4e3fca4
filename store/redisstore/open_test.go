package redisstore

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/conn"
	"github.com/mayflyhq/mayfly/store/loop"
)

// unusedAddress returns an address on loopback without a server.
func unusedAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// mute returns the address of a server that accepts connections and never replies.
func mute(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String() // the kernel accepts them
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	good := Options{Addresses: []string{"127.0.0.1:1"}}
	for name, spoil := range map[string]func(*Options){
		"no address":              func(o *Options) { o.Addresses = nil },
		"an address without port": func(o *Options) { o.Addresses = []string{"redis"} },
		"a URL":                   func(o *Options) { o.Addresses = []string{"redis://ana:open-sesame@host:1"} },
		"a brace in the prefix":   func(o *Options) { o.Prefix = "a}b" },
		"a lease too short":       func(o *Options) { o.Lease = time.Millisecond },
		"removed after one lease": func(o *Options) { o.Forget = time.Second },
		"a negative timeout":      func(o *Options) { o.Timeout = -1 },
		"half of the credentials": func(o *Options) { o.Credentials.User = "ana" },
		"a CA without TLS":        func(o *Options) { o.TLS.CA = []byte("x") },
		"a CA that is not PEM":    func(o *Options) { o.TLS = conn.TLS{Enabled: true, CA: []byte("x")} },
	} {
		o := good
		spoil(&o)
		s, err := Open(o)
		if err == nil {
			mustClose(t, s)
		}
		wantKind(t, mayfly.Invalid, err)
		if err != nil && strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: the error shows the password: %v", name, err)
		}
	}
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	o := Options{Addresses: []string{unusedAddress(t)}, Credentials: conn.Credentials{User: "ana", Password: "open-sesame"}}
	s := open(t, o)
	text, err := json.Marshal(struct{ Password any }{o.Credentials.Password})
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{fmt.Sprint(o), fmt.Sprintf("%+v %#v", o, o), fmt.Sprintf("%s %q %x", o.Credentials.Password, o.Credentials.Password, o.Credentials.Password), string(text), fmt.Sprintf("%+v", s.Limits())} {
		if strings.Contains(shown, "sesame") || strings.Contains(shown, fmt.Sprintf("%x", "sesame")) {
			t.Errorf("secret printed: %s", shown)
		}
	}
}

func TestAStoreOpensWhileItsServerIsUnreachable(t *testing.T) {
	o := Options{Addresses: []string{unusedAddress(t)}, Lease: 100 * time.Millisecond, Logger: quiet()}
	s := open(t, o)
	_, err := s.Limits().Take(t.Context(), "ana", hourly(5), 1, noon)
	wantKind(t, mayfly.Unavailable, err)
	wantKind(t, mayfly.Unavailable, s.Signals().Publish(t.Context(), freshSignal()))
	wantKind(t, mayfly.Unavailable, Check(t.Context(), o))
	sub, err := s.Signals().Subscribe(t.Context(), func(store.Signal) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, held := sub.Lease(); held {
		t.Error("a lease is held without a server")
	}
	if err := sub.Close(); err != nil {
		t.Error(err)
	}
}

func TestAServerThatNeverRepliesIsUnavailableSoon(t *testing.T) {
	s := open(t, Options{Addresses: []string{mute(t)}, Lease: 100 * time.Millisecond, Timeout: 50 * time.Millisecond})
	took := loop.Measure(func() {
		for range 100 {
			_, err := s.Limits().Take(t.Context(), "ana", hourly(5), 1, noon)
			wantKind(t, mayfly.Unavailable, err)
			wantKind(t, mayfly.Unavailable, s.Signals().Publish(t.Context(), freshSignal()))
		}
	})
	if took > 3*time.Second {
		t.Errorf("a hundred refusals took %v", took)
	}
}

func TestAnInvalidRateIsRefused(t *testing.T) {
	s := open(t, Options{Addresses: []string{unusedAddress(t)}})
	for _, c := range []struct {
		rate store.Rate
		cost int
	}{{store.Rate{}, 1}, {store.Rate{Count: 1}, 1}, {store.Rate{Count: -1, Per: 1}, 1}, {store.Rate{Count: 1, Per: 1}, 2}, {store.Rate{Count: 1, Per: 1}, -1}} {
		_, err := s.Limits().Take(t.Context(), "ana", c.rate, c.cost, noon)
		wantKind(t, mayfly.Invalid, err)
	}
}

func TestKeysAreSpreadTheSameInEveryProcess(t *testing.T) {
	used := map[int]bool{}
	for i := range 1000 {
		used[limitTag(fmt.Sprint("user", i))] = true
	}
	if len(used) != limitTags {
		t.Errorf("%d of %d tags are used", len(used), limitTags)
	}
	if limitTag("ana") != 5 {
		t.Errorf("ana's tag is %d: nodes of two versions would use different buckets", limitTag("ana"))
	}
}

func TestOldServersAreUnsupported(t *testing.T) {
	for info, ok := range map[string]bool{"# Server\r\nredis_version:7.0.15\r\n": true, "redis_version:10.2.1": true, "redis_version:6.2.0": false, "": false} {
		if err := checkVersion(info); (err == nil) != ok {
			t.Errorf("%q: %v", info, err)
		}
	}
}
