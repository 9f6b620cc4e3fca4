package cassandrastore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly"
)

// readError gives a failed read its kind: Unavailable, unless it is Corrupt already.
func readError(what string, err error) error {
	return withKind(mayfly.Unavailable, what, err)
}

// writeError gives a failed write its kind: Unavailable if no node can have started
// it, otherwise Unknown. For a write that was retried, the last try decides: the write
// is idempotent, so that its caller repeats it in both cases.
func writeError(d operation, what string, err error) error {
	if unsent(d, err) {
		return withKind(mayfly.Unavailable, what, err)
	}
	return withKind(mayfly.Unknown, what, err)
}

func withKind(kind mayfly.Kind, what string, err error) error {
	if ours := (*mayfly.Error)(nil); errors.As(err, &ours) {
		return fmt.Errorf("cassandra: %s: %w", what, err)
	}
	return mayfly.Wrap(kind, fmt.Errorf("cassandra: %s: %w", what, err), hintOf(err))
}

func hintOf(err error) string {
	var (
		few         *gocql.RequestErrUnavailable
		credentials *gocql.RequestErrCredentials
		forbidden   *gocql.RequestErrUnauthorized
	)
	switch {
	case errors.As(err, &few):
		return fmt.Sprintf("%d copies have to answer and %d are up: bring nodes back", few.Required, few.Alive)
	case errors.As(err, &credentials):
		return "check user and password"
	case errors.As(err, &forbidden):
		return "grant the user what it needs on the keyspace"
	case errors.Is(err, gocql.ErrNoConnections):
		return "no node is reachable: check the hosts, the port and the network"
	default:
		return hintOfText(err.Error())
	}
}

// hintOfText returns a hint for a session that could not be created: the client
// library returns the cause as text only.
func hintOfText(text string) string {
	switch {
	case strings.Contains(text, "password are incorrect"), strings.Contains(text, "authentication required"):
		return "check user and password"
	case strings.Contains(text, "failed to verify certificate"):
		return "set ca_file to the CA that signed the nodes' certificates"
	default:
		return ""
	}
}

// unsent reports whether the request was refused before any replica was asked to
// write. A conditional write may be reported as unavailable as late as its commit,
// when its proposal was accepted already and the next reader completes it.
func unsent(d operation, err error) bool {
	var (
		few      *gocql.RequestErrUnavailable
		starting *gocql.RequestErrBootstrapping
	)
	return wrong(err) || d != change && errors.As(err, &few) || errors.As(err, &starting) ||
		errors.Is(err, gocql.ErrNoConnections) || errors.Is(err, gocql.ErrSessionClosed) || errors.Is(err, gocql.ErrNoStreams)
}

// wrong reports whether the request would be refused however often it is sent.
func wrong(err error) bool {
	var (
		invalid     *gocql.RequestErrInvalid
		syntax      *gocql.RequestErrSyntax
		config      *gocql.RequestErrConfig
		credentials *gocql.RequestErrCredentials
		forbidden   *gocql.RequestErrUnauthorized
	)
	return errors.As(err, &invalid) || errors.As(err, &syntax) || errors.As(err, &config) ||
		errors.As(err, &credentials) || errors.As(err, &forbidden)
}

// begin returns an error if the context has ended, before anything is sent.
func begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return mayfly.Wrap(mayfly.Unavailable, err, "")
	}
	return nil
}
