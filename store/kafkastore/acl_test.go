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

// bits encodes operations as a broker reports them.
func bits(ops ...kmsg.ACLOperation) (reported int32) {
	for _, op := range ops {
		reported |= 1 << op
	}
	return reported
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

func TestAMissingTopicPermissionIsReportedWithTheCommandThatGrantsIt(t *testing.T) {
	const read, write, describe = kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationDescribe
	ana, anonymous := principal{"ana", []string{"a:1", "b:2"}}, principal{"", []string{"a:1"}}
	for _, c := range []struct {
		about     string
		principal principal
		reported  int32
		op        kmsg.ACLOperation
		hint      string // "" if nothing is missing
	}{
		{"all is allowed", ana, bits(read, write, describe), write, ""},
		{"a broker that reports no operations", ana, math.MinInt32, write, ""},
		{"no write", ana, bits(read, describe), write, "kafka-acls.sh --bootstrap-server a:1,b:2 --add --allow-principal User:ana --operation write --topic ends"},
		{"no read", ana, bits(write, describe), read, "kafka-acls.sh --bootstrap-server a:1,b:2 --add --allow-principal User:ana --operation read --topic ends"},
		{"no credentials", anonymous, bits(describe), write, "kafka-acls.sh --bootstrap-server a:1 --add --allow-principal User:ANONYMOUS --operation write --topic ends"},
	} {
		wantHint(t, c.about, c.principal.checkTopic("ends", kadm.DecodeACLOperations(c.reported), c.op), c.hint)
	}
}

func TestAMissingGroupPermissionIsReportedWithTheCommandThatGrantsIt(t *testing.T) {
	ana := principal{"ana", []string{"a:1"}}
	for _, good := range []error{nil, kerr.UnknownMemberID, kerr.IllegalGeneration} {
		wantHint(t, "an unknown member", ana.checkHeartbeat("ends.", good), "")
	}
	wantHint(t, "no read", ana.checkHeartbeat("ends.", kerr.GroupAuthorizationFailed),
		"kafka-acls.sh --bootstrap-server a:1 --add --allow-principal User:ana --operation read --group ends. --resource-pattern-type prefixed")
	if err := ana.checkHeartbeat("ends.", context.DeadlineExceeded); !errors.Is(err, mayfly.Unavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no answer: %v", err)
	}
}
