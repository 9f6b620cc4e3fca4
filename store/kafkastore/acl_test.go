package kafkastore

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mayflyhq/mayfly"
)

// bits are operations as a broker tells them.
func bits(ops ...kmsg.ACLOperation) (told int32) {
	for _, op := range ops {
		told |= 1 << op
	}
	return told
}

func wantHint(t *testing.T, about string, err error, hint string) {
	t.Helper()
	if hint == "" {
		if err != nil {
			t.Errorf("%s: %v", about, err)
		}
		return
	}
	if ours := (*mayfly.Error)(nil); !errors.As(err, &ours) || ours.Kind != mayfly.Unavailable || ours.Hint != hint {
		t.Errorf("%s: %v\nwant the hint %s", about, err, hint)
	}
}

func TestARightThatIsMissingOnATopicIsSaidWithTheCommandThatGivesIt(t *testing.T) {
	const read, write, describe = kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationDescribe
	ana, nobody := who{"ana", []string{"a:1", "b:2"}}, who{"", []string{"a:1"}}
	for _, c := range []struct {
		about string
		who   who
		told  int32
		op    kmsg.ACLOperation
		hint  string // "" if nothing is missing
	}{
		{"all is allowed", ana, bits(read, write, describe), write, ""},
		{"a broker that does not tell", ana, math.MinInt32, write, ""},
		{"no write", ana, bits(read, describe), write, "kafka-acls.sh --bootstrap-server a:1,b:2 --add --allow-principal User:ana --operation write --topic ends"},
		{"no read", ana, bits(write, describe), read, "kafka-acls.sh --bootstrap-server a:1,b:2 --add --allow-principal User:ana --operation read --topic ends"},
		{"no credentials", nobody, bits(describe), write, "kafka-acls.sh --bootstrap-server a:1 --add --allow-principal User:ANONYMOUS --operation write --topic ends"},
	} {
		wantHint(t, c.about, c.who.judge("ends", kadm.DecodeACLOperations(c.told), c.op), c.hint)
	}
}

func TestARightThatIsMissingOnGroupsIsSaidWithTheCommandThatGivesIt(t *testing.T) {
	ana := who{"ana", []string{"a:1"}}
	for _, good := range []error{nil, kerr.UnknownMemberID, kerr.IllegalGeneration} {
		wantHint(t, "a member that nobody knows", ana.judgeBeat("ends.", good), "")
	}
	wantHint(t, "no read", ana.judgeBeat("ends.", kerr.GroupAuthorizationFailed),
		"kafka-acls.sh --bootstrap-server a:1 --add --allow-principal User:ana --operation read --group ends. --resource-pattern-type prefixed")
	if err := ana.judgeBeat("ends.", context.DeadlineExceeded); !errors.Is(err, mayfly.Unavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no answer: %v", err)
	}
}
