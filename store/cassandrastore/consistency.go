package cassandrastore

import (
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// operation is a kind of request. Its level says how many replicas must answer and
// whether it may be sent twice; this is the only place that decides it.
type operation uint8

const (
	readLedger   operation = iota // for gate and walks: sees every acknowledged write
	readRows                      // of plain and swapped tables
	birth                         // timestamp 1: may be sent again at any time
	eraseContent                  // timestamps 2 and 3: likewise
	writePlain                    // has its own timestamp: sent again, it is the same write
	change                        // conditional: without an answer the outcome is unknown
	settleDoubt                   // reads at SERIAL, which completes conditional writes under way
	setUp                         // schema and migrations
)

type level struct {
	copies gocql.Consistency
	again  bool // idempotent: may be sent again after a failure, and to a second node when the first is slow
}

func (d operation) level() level {
	switch d {
	case readLedger, readRows:
		return level{gocql.Quorum, true}
	case birth, eraseContent, writePlain:
		return level{gocql.Quorum, true}
	case settleDoubt:
		return level{gocql.Serial, true}
	default: // change, setUp
		return level{gocql.Quorum, false}
	}
}

// agreement is the level at which conditional writes are decided.
const agreement = gocql.Serial

// pageSize is how many rows one response has at most.
const pageSize = 1000

// secondAfter is how long a node may take until the request is also sent to a second
// one. A node that hangs is not marked as down: requests still go to it first for as
// long as its neighbours consider it up.
const secondAfter = 500 * time.Millisecond

func secondAsking() gocql.SpeculativeExecutionPolicy {
	return &gocql.SimpleSpeculativeExecution{NumAttempts: 1, TimeoutDelay: secondAfter}
}

// patience returns the policy for slow nodes. A ring of one node has no second one.
func (s *Store) patience(l level) gocql.SpeculativeExecutionPolicy {
	if !l.again || !several(s.session) {
		return gocql.NonSpeculativeExecution{}
	}
	return s.second
}

func (s *Store) query(d operation, statement string, values ...any) *gocql.Query {
	l := d.level()
	return s.session.Query(statement, values...).
		Consistency(l.copies).SerialConsistency(agreement).Idempotent(l.again).
		SetSpeculativeExecutionPolicy(s.patience(l)).
		DefaultTimestamp(false). // statements have their own timestamps; conditional writes get the server's ballot
		PageSize(pageSize)
}

func (s *Store) batch(d operation) *gocql.Batch {
	l := d.level()
	return s.session.Batch(gocql.UnloggedBatch).
		Consistency(l.copies).SerialConsistency(agreement).SpeculativeExecutionPolicy(s.patience(l)).DefaultTimestamp(false)
}

// add adds a statement to b; a batch is idempotent only if all its statements are.
func add(b *gocql.Batch, d operation, statement string, values ...any) {
	b.Entries = append(b.Entries, gocql.BatchEntry{Stmt: statement, Args: values, Idempotent: d.level().again})
}
