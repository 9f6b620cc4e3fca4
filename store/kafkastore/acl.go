package kafkastore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mayflyhq/mayfly"
)

// judgeRights refuses a user who may not do op with one of the topics: the brokers
// would refuse every event, for ever.
func (s *Store) judgeRights(ctx context.Context, op kmsg.ACLOperation) error {
	found, err := s.admin.ListTopics(kadm.WithAuthorizedOps(ctx), s.opts.topics()...)
	if err != nil {
		return unavailable("ask for the rights on the topics", err)
	}
	var errs []error
	for _, topic := range s.opts.topics() {
		errs = append(errs, s.who.judge(topic, found[topic].AuthorizedOperations, op))
	}
	return errors.Join(errs...)
}

// Check asks for the rights of readers, which a node does not need and mayfly replay
// does: Open does not look at them. It reads nothing and joins no group. Errors:
// Unavailable.
func (s *Store) Check(ctx context.Context) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Patience)
	defer cancel()
	errs := []error{s.judgeRights(ctx, kmsg.ACLOperationRead)}
	for _, topic := range s.opts.topics() {
		errs = append(errs, s.judgeGroups(ctx, topic+"."))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("what mayfly replay needs: %w", err)
	}
	return nil
}

// judgeGroups refuses a user who may not read for the groups whose names begin so.
// A member's heartbeat needs the right that reading needs; that nobody knows the
// member is the good answer.
func (s *Store) judgeGroups(ctx context.Context, prefix string) error {
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Group, beat.MemberID = prefix+"check", "check"
	answer, err := beat.RequestWith(ctx, s.reach)
	if err == nil {
		err = kerr.ErrorForCode(answer.ErrorCode)
	}
	return s.who.judgeBeat(prefix, err)
}

// who is the user of the rights.
type who struct {
	user    string // empty without credentials
	brokers []string
}

// judge refuses a topic with which op is not among what the brokers allow. They tell
// nothing if they are too old to, and everything if they check no rights.
func (w who) judge(topic string, allowed []kmsg.ACLOperation, op kmsg.ACLOperation) error {
	if len(allowed) == 0 || slices.Contains(allowed, op) {
		return nil
	}
	return w.lacks(op, "topic "+topic, "--topic "+topic)
}

func (w who) judgeBeat(prefix string, err error) error {
	switch {
	case err == nil, errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.IllegalGeneration):
		return nil
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return w.lacks(kmsg.ACLOperationRead, "groups "+prefix+"*", "--group "+prefix+" --resource-pattern-type prefixed")
	default:
		return unavailable("ask for the rights on the groups", err)
	}
}

func (w who) lacks(op kmsg.ACLOperation, where, option string) error {
	name := strings.ToLower(op.String())
	user := cmp.Or(w.user, "ANONYMOUS") // which is what brokers call whoever comes without credentials
	return mayfly.Errorf(mayfly.Unavailable, "kafka: user %s lacks the right %s on %s", user, name, where).
		WithHint(fmt.Sprintf("kafka-acls.sh --bootstrap-server %s --add --allow-principal User:%s --operation %s %s",
			strings.Join(w.brokers, ","), user, name, option))
}
