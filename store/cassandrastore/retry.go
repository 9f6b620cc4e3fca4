package cassandrastore

import (
	"errors"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// again is the retry policy: reads and writes that are the same when they are
// sent twice go to another node, a few times. The driver asks it of nothing else.
type again struct{}

const tries = 3

// Attempt says whether there may be one more try.
func (again) Attempt(q gocql.RetryableQuery) bool { return q.Attempts() < tries }

// GetRetryType says where the next try goes.
func (again) GetRetryType(err error) gocql.RetryType {
	var (
		slowRead  *gocql.RequestErrReadTimeout
		slowWrite *gocql.RequestErrWriteTimeout
	)
	switch {
	case wrong(err):
		return gocql.Rethrow
	case errors.As(err, &slowRead), errors.As(err, &slowWrite):
		return gocql.Retry // it answered: ask it once more, it may be the only one
	default:
		return gocql.RetryNextHost
	}
}
