package kafkastore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
)

func goodOptions() Options {
	return Options{Brokers: []string{"127.0.0.1:9092"}, Now: func() mayfly.Instant { return 1 }}
}

func TestOptionsAreCompletedByDefaults(t *testing.T) {
	o, err := goodOptions().complete()
	if err != nil {
		t.Fatal(err)
	}
	if o.Partitions != 64 || o.ReplicationFactor != 3 || o.Retention != 30*24*time.Hour || o.Mechanism != ScramSHA512 || o.Logger == nil {
		t.Errorf("completed to %d partitions, %d replicas, retention %s, %s", o.Partitions, o.ReplicationFactor, o.Retention, o.Mechanism)
	}
	if got := strings.Join(o.topics(), " "); got != "births ends" {
		t.Errorf("the topics are %q", got)
	}
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Options){
		"no broker":                   func(o *Options) { o.Brokers = nil },
		"an empty broker":             func(o *Options) { o.Brokers = []string{""} },
		"a prefix with a space":       func(o *Options) { o.Prefix = "a b" },
		"partitions below zero":       func(o *Options) { o.Partitions = -1 },
		"replicas below zero":         func(o *Options) { o.ReplicationFactor = -1 },
		"a millisecond below 30 days": func(o *Options) { o.Retention = minRetention - time.Millisecond },
		"a user without password":     func(o *Options) { o.Credentials.User = "ana" },
		"a password without user":     func(o *Options) { o.Credentials.Password = "secret" },
		"an unknown mechanism":        func(o *Options) { o.Mechanism = "PLAIN" },
		"a negative timeout":          func(o *Options) { o.Timeout = -1 },
		"a session of 1 ns":           func(o *Options) { o.SessionTimeout = 1 },
		"fewer than 100 in flight":    func(o *Options) { o.MaxInFlight = 99 },
		"no clock":                    func(o *Options) { o.Now = nil },
	} {
		o := goodOptions()
		spoil(&o)
		if _, err := o.complete(); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
