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

// unavailable gives a question that has no answer its kind. What has a kind keeps it.
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
		return "name the authority that signed the brokers' certificates"
	case errors.Is(err, kerr.SaslAuthenticationFailed), errors.Is(err, kerr.UnsupportedSaslMechanism):
		return "check user, password and mechanism"
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return "allow the user to read, write, create and describe the topics, and to describe their configs"
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return "allow the user to read the groups"
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		return "allow the user to create topics, or make them by hand"
	case errors.Is(err, kerr.InvalidReplicationFactor):
		return "there are fewer brokers than copies: start more, or ask for fewer copies"
	case errors.Is(err, kerr.InvalidTimestamp):
		return "the clocks of this node and of the broker differ, or the topic has a small message.timestamp.after.max.ms"
	case errors.Is(err, kerr.NotEnoughReplicas), errors.Is(err, kerr.NotEnoughReplicasAfterAppend):
		return "fewer copies are in sync than the topic needs: bring brokers back"
	default:
		return ""
	}
}

// unanswered says whether err is one of brokers that are not there, or not yet,
// rather than of what one of them has said: that would not change by waiting.
func unanswered(err error) bool {
	var wire *net.OpError
	var said *kerr.Error
	switch {
	case errors.As(err, &said):
		return said.Retriable
	case errors.As(err, &wire):
		return wire.Op == "dial" || wire.Timeout()
	default:
		return errors.Is(err, context.DeadlineExceeded)
	}
}

// fate is what became of an event that was given to the client.
type fate uint8

const (
	landed   fate = iota
	unsent        // no broker can have it
	doubtful      // a broker may have it, or get it yet
)

// fateOf reads a record's fate from its error. The client ends the wait for a
// record by its context only if no request with it is without an answer; after
// anything else the record may be in the log.
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

// appendError is the error of a call whose records met these fates: Unavailable if
// nothing of it can be in the log, now or later, else Unknown.
func appendError(fates []fate, err error) error {
	kind := mayfly.Unavailable
	for _, f := range fates {
		if f != unsent {
			kind = mayfly.Unknown
		}
	}
	return mayfly.Wrap(kind, wrapped("append", err), hintOf(err))
}
