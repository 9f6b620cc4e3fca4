package kafkastore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mayflyhq/mayfly"
)

func wrapped(what string, err error) error { return fmt.Errorf("kafka: %s: %w", what, err) }

// unavailable wraps err as Unavailable, unless it already has a kind.
func unavailable(what string, err error) error {
	if ours := (*mayfly.Error)(nil); errors.As(err, &ours) {
		return wrapped(what, err)
	}
	return mayfly.Wrap(mayfly.Unavailable, wrapped(what, err), hintOf(err))
}

func hintOf(err error) string {
	distrusted := (*tls.CertificateVerificationError)(nil)
	switch {
	case errors.As(err, &distrusted):
		return "set ca_file to the CA that signed the brokers' certificates"
	case errors.Is(err, kerr.SaslAuthenticationFailed), errors.Is(err, kerr.UnsupportedSaslMechanism):
		return "check user, password and mechanism"
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return "allow the user to read, write, create and describe the topics, and to describe their configs"
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return "allow the user to read the groups"
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		return "allow the user to create topics, or create them by hand"
	case errors.Is(err, kerr.InvalidReplicationFactor):
		return "there are fewer brokers than replicas: start more brokers, or lower replication_factor"
	case errors.Is(err, kerr.InvalidTimestamp):
		return "the clocks of this node and of the broker differ, or the topic has a small message.timestamp.after.max.ms"
	case errors.Is(err, kerr.NotEnoughReplicas), errors.Is(err, kerr.NotEnoughReplicasAfterAppend):
		return "fewer replicas are in sync than min.insync.replicas: bring brokers back"
	default:
		return ""
	}
}

// unanswered reports whether err means that no broker answered, or none is ready yet.
// It is false for a refusal by a broker, which waiting would not change.
func unanswered(err error) bool {
	var wire *net.OpError
	var answer *kerr.Error
	switch {
	case errors.As(err, &answer):
		return answer.Retriable
	case errors.As(err, &wire):
		return wire.Op == "dial" || wire.Timeout()
	default:
		return errors.Is(err, context.DeadlineExceeded)
	}
}

// fate is the outcome of a record that was passed to the client.
type fate uint8

const (
	landed   fate = iota
	unsent        // no broker can have it
	doubtful      // a broker may have it, or receive it later
)

// fateOf returns a record's fate from its error. The client reports the end of a
// record's context only if no request that contains the record awaits an answer;
// after any other error the record may be in the log.
func fateOf(err error) fate {
	switch {
	case err == nil:
		return landed
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, kgo.ErrMaxBuffered):
		return unsent
	default:
		return doubtful
	}
}

// appendError returns the error of a call with these fates: Unavailable if no event
// of it can be in the log, now or later, otherwise Unknown.
func appendError(fates []fate, err error) error {
	kind := mayfly.Unavailable
	for _, f := range fates {
		if f != unsent {
			kind = mayfly.Unknown
		}
	}
	return mayfly.Wrap(kind, wrapped("append", err), hintOf(err))
}
