package kafkastore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
)

func TestOneCallTriesBrokersThatAreAwayAndTheOthersDoNotWait(t *testing.T) {
	now := time.Duration(0)
	r := &rest{elapsed: func() time.Duration { return now }}
	away := mayfly.Errorf(mayfly.Unavailable, "no broker")
	must := func(what string, want bool) {
		t.Helper()
		if err := r.ask(); (err == nil) != want || err != nil && !errors.Is(err, mayfly.Unavailable) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	must("at first", true)
	must("a second beside it", true)
	r.tell(away)
	must("just after one waited in vain", false)
	now += restFor
	must("after a rest one tries", true)
	must("and nobody beside it", false)
	r.tell(away)
	must("which was in vain too", false)
	now += restFor
	must("again", true)
	r.tell(context.Canceled)
	must("whose caller went away: another tries", true)
	r.tell(mayfly.Errorf(mayfly.Unknown, "no answer yet"))
	must("without an answer", false)
	now += restFor
	must("once more", true)
	r.tell(nil)
	must("answered", true)
	must("by all", true)
	r.tell(mayfly.Errorf(mayfly.Invalid, "an event that is none"))
	must("whatever one said", true)
}
