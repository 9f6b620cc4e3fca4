package cassandrastore

import (
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// operation is a kind of request. Its level says how many replicas must answer and
// whether it may be sent twice; this is the only place that decides it.
type operation uint8

const (
	readLedger   operation = iota // gate and walk: sees every acknowledged write
	readRows                      // tables, of both modes
	birth                         // stamped 1: may be sent again at any time
	eraseContent                  // stamped 2 and 3: the same
	writePlain                    // carries its stamp: sent again, it is the same write
	change                        // conditional: an outcome that did not come is not known
	settleDoubt                   // reads at SERIAL, which ends what is under way
	setUp                         // schema and its migrations
)

type level struct {
	copies gocql.Consistency
	again  bool // asked twice it is the same: may be sent again after a failure, and to a second node when the first is slow
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

// pageSize is how many rows one answer brings; longer reads take several.
const pageSize = 1000

// secondAfter is how long a node may be silent until a second one is asked too. A
// node that hangs is no node that is down: its copies are tried first for as long
// as its neighbours believe in it.
const secondAfter = 500 * time.Millisecond

func secondAsking() gocql.SpeculativeExecutionPolicy {
	return &gocql.SimpleSpeculativeExecution{NumAttempts: 1, TimeoutDelay: secondAfter}
}

// patience is what the driver does about a node that is silent. In a ring of one
// there is no other node to ask.
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
		DefaultTimestamp(false). // stamps stand in the statements; conditional writes take the server's ballot
		PageSize(pageSize)
}

func (s *Store) batch(d operation) *gocql.Batch {
	l := d.level()
	return s.session.Batch(gocql.UnloggedBatch).
		Consistency(l.copies).SerialConsistency(agreement).SpeculativeExecutionPolicy(s.patience(l)).DefaultTimestamp(false)
}

// add puts a statement into b; a batch is sent again only if all in it may be.
func add(b *gocql.Batch, d operation, statement string, values ...any) {
	b.Entries = append(b.Entries, gocql.BatchEntry{Stmt: statement, Args: values, Idempotent: d.level().again})
}
