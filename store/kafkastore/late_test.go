//go:build servers

package kafkastore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
)

func TestALateStoreOpensWithoutBrokersAndChecksTheTopicsBeforeTheFirstAppend(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	o := b.options()
	o.Partitions, o.Timeout = 2, 2*time.Second
	before := open(t, o)
	retention := before.setting(t, o.topic(mayfly.Births), "retention.ms")
	before.alter(t, o.topic(mayfly.Births), "retention.ms", "3600000")
	b.kill()

	if s, err := Open(t.Context(), o); !errors.Is(err, mayfly.Unavailable) {
		t.Fatalf("without a broker: %v, %v", s, err)
	}
	o.Late = true
	late := open(t, o)
	e := life(t, 1)[0]
	refused := func(why string) {
		t.Helper()
		var err error
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(pollInterval) {
			if err = late.Append(t.Context(), e); !errors.Is(err, mayfly.Unavailable) || errors.Is(err, mayfly.Invalid) {
				t.Fatalf("%v, want it Unavailable", err)
			}
			if strings.Contains(err.Error(), why) {
				return
			}
		}
		t.Fatalf("%v does not say %q", err, why)
	}
	refused("did not answer")
	b.start()
	refused("retention.ms") // and nothing was appended
	before.alter(t, o.topic(mayfly.Births), "retention.ms", retention)
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(pollInterval) {
		if err = late.Append(t.Context(), e); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	r := join(t, late, "late")
	got, err := next(t, r, 10)
	if err != nil || len(got) != 1 || got[0].Event.Key() != e.Key() {
		t.Errorf("%v, %v: want one %v", got, err, e.Key())
	}
}

func TestALateStoreReturnsARefusalOfTheBroker(t *testing.T) {
	t.Parallel()
	o := brokerOptions(t)
	o.Late, o.ReplicationFactor = true, 9
	if s, err := Open(t.Context(), o); !errors.Is(err, mayfly.Unavailable) || !strings.Contains(err.Error(), "fewer brokers than replicas") {
		t.Errorf("%v, %v", s, err)
	}
}
