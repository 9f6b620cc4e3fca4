package cassandrastore

import (
	"context"
	"errors"
	"fmt"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly"
)

// schemaTimes are how long one statement of the schema may take and how long the
// lease lasts that is renewed before it.
type schemaTimes struct{ statement, lease time.Duration }

const (
	// statementTime is what a table may take: on a busy cluster much longer than a
	// request.
	statementTime = 45 * time.Second
	// leaseMargin is for clocks that differ in pace, and for a statement that a
	// server still does when it was given up.
	leaseMargin = 15 * time.Second
)

// timesFor derives one from the other, so that the lease always outlasts the
// statement, whatever a request may take.
func timesFor(request time.Duration) schemaTimes {
	statement := max(request, statementTime)
	return schemaTimes{statement, statement + leaseMargin}
}

// seconds is the TTL of the lease.
func (t schemaTimes) seconds() int { return int((t.lease + time.Second - 1) / time.Second) }

// underLease renews the lease and does one piece of work, which ends before the
// lease can: its time counts from before the renewal was sent.
func (m migrator) underLease(ctx context.Context, work func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, m.times.statement)
	defer cancel()
	held, err := m.hold(ctx)
	if err != nil || !held {
		return errors.Join(err, mayfly.Errorf(mayfly.Unavailable, "the lease is lost"))
	}
	return work(ctx)
}

// answered says that no server is still at what was asked.
func answered(err error) bool {
	var answer gocql.RequestError
	return err == nil || errors.As(err, &answer)
}

// hold takes the lease or renews it.
func (m migrator) hold(ctx context.Context) (bool, error) {
	update := fmt.Sprintf("UPDATE %s.migrations USING TTL %d SET name = ? WHERE scope = ? AND number = ? IF name = ", m.opts.Keyspace, m.times.seconds())
	renewed, holder, err := compared(m.query(setUp, update+"?", m.holder, schemaScope, leaseNumber, m.holder).IterContext(ctx))
	if err != nil || renewed || holder != nil {
		return renewed, err
	}
	taken, _, err := compared(m.query(setUp, update+"null", m.holder, schemaScope, leaseNumber).IterContext(ctx))
	return taken, err
}

func (m migrator) release(ctx context.Context) error {
	end := fmt.Sprintf("DELETE FROM %s.migrations WHERE scope = ? AND number = ? IF name = ?", m.opts.Keyspace)
	_, _, err := compared(m.query(setUp, end, schemaScope, leaseNumber, m.holder).IterContext(ctx))
	return err
}
