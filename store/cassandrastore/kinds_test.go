package cassandrastore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly"
)

func TestOnlyARequestThatWasNeverStartedIsUnavailable(t *testing.T) {
	for _, c := range []struct {
		err  error
		want mayfly.Kind
	}{
		{&gocql.RequestErrUnavailable{}, mayfly.Unavailable},
		{&gocql.RequestErrBootstrapping{}, mayfly.Unavailable},
		{&gocql.RequestErrInvalid{}, mayfly.Unavailable},
		{&gocql.RequestErrUnauthorized{}, mayfly.Unavailable},
		{gocql.ErrNoConnections, mayfly.Unavailable},
		{gocql.ErrSessionClosed, mayfly.Unavailable},
		{&gocql.RequestErrWriteTimeout{WriteType: "CAS"}, mayfly.Unknown},
		{&gocql.RequestErrCASWriteUnknown{}, mayfly.Unknown},
		{&gocql.RequestErrWriteFailure{}, mayfly.Unknown},
		{&gocql.RequestErrReadTimeout{}, mayfly.Unknown}, // of a conditional write: its round may go on
		{&gocql.RequestErrOverloaded{}, mayfly.Unknown},
		{gocql.ErrTimeoutNoResponse, mayfly.Unknown},
		{gocql.ErrConnectionClosed, mayfly.Unknown},
		{context.DeadlineExceeded, mayfly.Unknown},
		{io.EOF, mayfly.Unknown},
		{mayfly.Errorf(mayfly.Corrupt, "bytes"), mayfly.Corrupt},
	} {
		err := writeError(birth, "write", fmt.Errorf("wrapped: %w", c.err))
		if !errors.Is(err, c.want) {
			t.Errorf("a write that ends with %T is %v, want %s", c.err, err, c.want)
		}
		want := mayfly.Unavailable
		if c.want == mayfly.Corrupt {
			want = mayfly.Corrupt
		}
		if err := readError("read", c.err); !errors.Is(err, want) {
			t.Errorf("a read that ends with %T is %v, want %s", c.err, err, want)
		}
	}
}

// With Paxos v1 the coordinator may find too few copies when it commits what was
// accepted: the next one who reads at SERIAL completes it.
func TestAConditionalWriteReportedAsUnavailableIsUnknown(t *testing.T) {
	few := fmt.Errorf("wrapped: %w", &gocql.RequestErrUnavailable{Required: 2, Alive: 1})
	for d := readLedger; d <= setUp; d++ {
		if unsent(d, few) != (d != change) {
			t.Errorf("operation %d that is called unavailable is unsent: %t", d, d == change)
		}
	}
	err := writeError(change, "swap", few)
	if ours := (*mayfly.Error)(nil); !errors.As(err, &ours) || ours.Kind != mayfly.Unknown || !strings.Contains(ours.Hint, "bring nodes back") {
		t.Errorf("it is %v, want Unknown with a hint", err)
	}
	for _, never := range []error{&gocql.RequestErrBootstrapping{}, &gocql.RequestErrInvalid{}, gocql.ErrNoConnections, gocql.ErrNoStreams} {
		if err := writeError(change, "swap", never); !errors.Is(err, mayfly.Unavailable) {
			t.Errorf("a conditional write that ends with %T is %v, want Unavailable", never, err)
		}
	}
}

func TestAConditionalWriteIsNeverSentAgain(t *testing.T) {
	s := &Store{session: &gocql.Session{}}
	for d := readLedger; d <= setUp; d++ {
		if q := s.query(d, "SELECT"); q.IsIdempotent() != (d != change && d != setUp) {
			t.Errorf("operation %d may be sent again: %t", d, q.IsIdempotent())
		}
	}
	b := s.batch(change)
	add(b, birth, "INSERT")
	if !b.IsIdempotent() {
		t.Error("a batch of births may be sent again")
	}
	if add(b, change, "UPDATE"); b.IsIdempotent() {
		t.Error("a batch with a conditional write may be sent again")
	}
}
