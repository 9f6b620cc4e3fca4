package cassandrastore

import (
	"context"
	"fmt"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

func TestTheLeaseOutlastsEveryStatementOfTheSchema(t *testing.T) {
	for _, request := range []time.Duration{
		0, 2 * time.Millisecond, defaultTimeout, statementTime, statementTime + 1, defaultPatience, time.Hour + time.Millisecond,
	} {
		times := timesFor(request)
		ttl := time.Duration(times.seconds()) * time.Second
		if times.statement < request || times.statement < statementTime {
			t.Errorf("requests of %s: a statement may take %s only", request, times.statement)
		}
		if ttl < times.statement+leaseMargin {
			t.Errorf("requests of %s: the lease lasts %s, a statement may take %s", request, ttl, times.statement)
		}
	}
}

func TestOnlyAnAnswerGivesTheLeaseBack(t *testing.T) {
	for err, want := range map[error]bool{
		nil: true,
		fmt.Errorf("a table: %w", &gocql.RequestErrInvalid{}): true,
		fmt.Errorf("a table: %w", gocql.ErrTimeoutNoResponse): false,
		fmt.Errorf("a table: %w", context.DeadlineExceeded):   false,
		fmt.Errorf("a table: %w", gocql.ErrConnectionClosed):  false,
	} {
		if answered(err) != want {
			t.Errorf("%v: answered %t, want %t", err, !want, want)
		}
	}
}

func TestAStartWaitsForServersThatAreBusyAndNotForThoseThatAreAway(t *testing.T) {
	for code, want := range map[int]bool{
		gocql.ErrCodeServer: true, gocql.ErrCodeInvalid: true, gocql.ErrCodeReadTimeout: true, gocql.ErrCodeWriteTimeout: true, gocql.ErrCodeCASWriteUnknown: true,
		gocql.ErrCodeUnavailable: false, gocql.ErrCodeUnauthorized: false, gocql.ErrCodeSyntax: false,
	} {
		if unsettled(fmt.Errorf("the schema: %w", reported(code))) != want {
			t.Errorf("answer %#x is unsettled: %t", code, !want)
		}
	}
}

// reported is an answer of a server.
type reported int

func (t reported) Code() int       { return int(t) }
func (t reported) Message() string { return "no" }
func (t reported) Error() string   { return t.Message() }
