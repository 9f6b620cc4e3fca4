package cassandrastore

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/conn"
)

func TestInvalidOptionsAreRefused(t *testing.T) {
	good := Options{Hosts: []string{"h"}, Log: noLog{}, Now: wall}
	if o, err := good.complete(); err != nil || o.Keyspace != "mayfly" || o.Port != 9042 || o.Copies != 3 {
		t.Fatalf("the least options: %+v, %v", o, err)
	}
	for name, spoil := range map[string]func(*Options){
		"no hosts":                func(o *Options) { o.Hosts = nil },
		"an empty host":           func(o *Options) { o.Hosts = []string{"a", ""} },
		"port":                    func(o *Options) { o.Port = 70000 },
		"keyspace with a quote":   func(o *Options) { o.Keyspace = "k'; DROP" },
		"keyspace that is long":   func(o *Options) { o.Keyspace = strings.Repeat("k", 49) },
		"copies":                  func(o *Options) { o.Copies = -1 },
		"data centre with a mark": func(o *Options) { o.DataCentres = map[string]int{"a'": 1} },
		"data centre of nothing":  func(o *Options) { o.DataCentres = map[string]int{"a": 0} },
		"user without password":   func(o *Options) { o.Credentials.User = "ana" },
		"time-out":                func(o *Options) { o.Timeout = -1 },
		"connections":             func(o *Options) { o.Connections = 65 },
		"no log":                  func(o *Options) { o.Log = nil },
		"no clock":                func(o *Options) { o.Now = nil },
	} {
		o := good
		spoil(&o)
		if _, err := Open(t.Context(), o); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%s: %v, want Invalid", name, err)
		}
	}
}

// The fields of a store are unexported, so that fmt prints them without calling the
// methods that hide credentials (store/conn).
func TestAStoreDoesNotKeepThePassword(t *testing.T) {
	o := Options{Hosts: []string{"h"}, Credentials: conn.Credentials{User: "ana", Password: "hunter-of-mayflies"}}
	if shown := fmt.Sprintf("%+v %#v %+v", o, o, newStore(o, nil)); strings.Contains(shown, "hunter") {
		t.Errorf("the password is in %s", shown)
	}
}

func TestAnUnreachableServerIsUnavailable(t *testing.T) {
	o := Options{Hosts: []string{"127.0.0.1"}, Port: 1, Log: noLog{}, Now: wall}
	if _, err := Open(t.Context(), o); !errors.Is(err, mayfly.Unavailable) {
		t.Errorf("%v, want Unavailable", err)
	}
}
