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

// checkPermissions refuses a user who may not do op with one of the topics: the brokers
// would refuse every event.
func (s *Store) checkPermissions(ctx context.Context, op kmsg.ACLOperation) error {
	found, err := s.admin.ListTopics(kadm.WithAuthorizedOps(ctx), s.opts.topics()...)
	if err != nil {
		return unavailable("ask for the permissions on the topics", err)
	}
	var errs []error
	for _, topic := range s.opts.topics() {
		errs = append(errs, s.principal.checkTopic(topic, found[topic].AuthorizedOperations, op))
	}
	return errors.Join(errs...)
}

// Check checks the permissions of readers. A node does not need them, so Open does not
// check them; mayfly replay does. Check reads nothing and joins no group. Errors:
// Unavailable.
func (s *Store) Check(ctx context.Context) error {
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	errs := []error{s.checkPermissions(ctx, kmsg.ACLOperationRead)}
	for _, topic := range s.opts.topics() {
		errs = append(errs, s.checkGroups(ctx, topic+"."))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("check the permissions for mayfly replay: %w", err)
	}
	return nil
}

// checkGroups refuses a user without permission to read in groups with this prefix.
// It sends a heartbeat, which needs the same permission as reading, for a member that
// does not exist: the answer "unknown member" means that the permission is there.
func (s *Store) checkGroups(ctx context.Context, prefix string) error {
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Group, beat.MemberID = prefix+"check", "check"
	answer, err := beat.RequestWith(ctx, s.reach)
	if err == nil {
		err = kerr.ErrorForCode(answer.ErrorCode)
	}
	return s.principal.checkHeartbeat(prefix, err)
}

// principal is the user whose permissions are checked.
type principal struct {
	user    string // empty without credentials
	brokers []string
}

// checkTopic returns an error if op is not among the allowed operations. Old brokers
// report none at all, and brokers without an authorizer report all of them.
func (p principal) checkTopic(topic string, allowed []kmsg.ACLOperation, op kmsg.ACLOperation) error {
	if len(allowed) == 0 || slices.Contains(allowed, op) {
		return nil
	}
	return p.lacks(op, "topic "+topic, "--topic "+topic)
}

func (p principal) checkHeartbeat(prefix string, err error) error {
	switch {
	case err == nil, errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.IllegalGeneration):
		return nil
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return p.lacks(kmsg.ACLOperationRead, "groups "+prefix+"*", "--group "+prefix+" --resource-pattern-type prefixed")
	default:
		return unavailable("ask for the permissions on the groups", err)
	}
}

func (p principal) lacks(op kmsg.ACLOperation, where, option string) error {
	name := strings.ToLower(op.String())
	user := cmp.Or(p.user, "ANONYMOUS") // the principal of connections without credentials
	return mayfly.Errorf(mayfly.Unavailable, "kafka: user %s lacks the permission %s on %s", user, name, where).
		WithHint(fmt.Sprintf("kafka-acls.sh --bootstrap-server %s --add --allow-principal User:%s --operation %s %s",
			strings.Join(p.brokers, ","), user, name, option))
}
