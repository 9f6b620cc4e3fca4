package cassandrastore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/loop"
)

// migrator brings the schema of a keyspace up to date. Several nodes may do so at
// once: one holds the lease and works, the others wait. The lease spares two
// coordinators from making the same table; it is a row with a TTL, because there
// is nothing that a late end of it could break.
type migrator struct {
	*Store
	holder string
	times  schemaTimes
}

const (
	lookAgain   = 250 * time.Millisecond
	looks       = 40
	schemaScope = "schema"
	leaseNumber = 0
)

func prepareSchema(ctx context.Context, o Options) error {
	times := timesFor(o.Timeout)
	o.Timeout = times.statement
	session, err := connect(ctx, o, "")
	if err != nil {
		return err
	}
	defer session.Close()
	m := migrator{newStore(o, session), rand.Text(), times}
	if err = m.probe(ctx); err == nil {
		err = m.prepare(ctx)
	}
	if err != nil {
		return readError("schema of "+o.Keyspace, err)
	}
	return nil
}

// prepare makes what is missing. A server lists a table a little before it knows
// it, so that one that another node is making may be there and not there: then
// everything is looked at once more, a few times.
func (m migrator) prepare(ctx context.Context) (err error) {
	for range looks {
		if err = m.ground(ctx); err == nil {
			err = m.copies(ctx)
		}
		if err == nil {
			err = m.climb(ctx)
		}
		if err == nil || !unsettled(err) {
			return err
		}
		if loop.Rest(ctx, lookAgain) != nil {
			return err
		}
	}
	return err
}

// unsettled says that the same may go better in a moment: a table is being made, or
// the servers are busy. All of it may be done again.
func unsettled(err error) bool {
	var answer gocql.RequestError
	if !errors.As(err, &answer) {
		return false
	}
	switch answer.Code() {
	case gocql.ErrCodeServer, gocql.ErrCodeInvalid, gocql.ErrCodeReadTimeout, gocql.ErrCodeWriteTimeout, gocql.ErrCodeCASWriteUnknown:
		return true
	default:
		return false
	}
}

// probe refuses a server that cannot hold the schema, before anything is made.
func (m migrator) probe(ctx context.Context) error {
	var version string
	err := m.query(setUp, "SELECT release_version FROM system.local WHERE key = 'local'").Consistency(gocql.One).ScanContext(ctx, &version)
	if err != nil {
		return err
	}
	if !recent(version) {
		return mayfly.Errorf(mayfly.Unsupported, "the server is Cassandra %s", version).WithHint(fmt.Sprintf("it has to be %d.0 or later", oldestServer))
	}
	m.warn(m.settings(ctx))
	return nil
}

// oldestServer is the first version with UnifiedCompactionStrategy.
const oldestServer = 5

func recent(version string) bool {
	major, _, _ := strings.Cut(version, ".")
	number, err := strconv.Atoi(major)
	return err == nil && number >= oldestServer
}

// ground makes the keyspace and the table of migrations where they are missing: a
// user without the right to make them can run on what an operator has made.
func (m migrator) ground(ctx context.Context) error {
	for _, g := range []struct{ exists, create string }{
		{"SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?", createKeyspace(m.opts)},
		{"SELECT table_name FROM system_schema.tables WHERE keyspace_name = ? AND table_name = 'migrations'", createMigrations(m.opts.Keyspace)},
	} {
		var name string
		err := m.query(setUp, g.exists, m.opts.Keyspace).Consistency(gocql.One).ScanContext(ctx, &name)
		if errors.Is(err, gocql.ErrNotFound) {
			err = m.query(setUp, g.create).ExecContext(ctx)
		}
		if err != nil {
			return err
		}
		if err := m.agree(ctx); err != nil {
			return err
		}
	}
	return nil
}

// climb does the steps that are not done, or waits until another node has.
func (m migrator) climb(ctx context.Context) error {
	for {
		done, err := m.done(ctx)
		if err != nil {
			return err
		}
		todo, err := pending(migrations(m.opts.Keyspace, m.opts.Tables), done)
		if err != nil {
			return err
		}
		if len(todo) == 0 {
			return m.agree(ctx)
		}
		held, err := m.hold(ctx)
		if err != nil {
			return err
		}
		if held {
			err := m.steps(ctx, todo)
			if !answered(err) {
				return err // a server may still be at it: the lease keeps others off until it ends
			}
			return errors.Join(err, m.release(ctx))
		}
		if err := loop.Rest(ctx, lookAgain); err != nil {
			return err
		}
	}
}

// steps does the steps in order.
func (m migrator) steps(ctx context.Context, todo []migration) error {
	for _, step := range todo {
		if err := m.step(ctx, step); err != nil {
			return fmt.Errorf("migration %d, %s: %w", step.number, step.name, err)
		}
		m.opts.Logger.Info("cassandra: schema", "migration", step.number, "name", step.name)
	}
	return nil
}

func (m migrator) step(ctx context.Context, step migration) error {
	for _, statement := range step.statements {
		if err := m.underLease(ctx, m.query(setUp, statement).ExecContext); err != nil {
			return err
		}
	}
	err := m.underLease(ctx, m.agree)
	for ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) { // it takes longer than the lease
		err = m.underLease(ctx, m.agree)
	}
	if err != nil {
		return err
	}
	record := fmt.Sprintf("INSERT INTO %s.migrations (scope, number, name) VALUES (?, ?, ?) IF NOT EXISTS", m.opts.Keyspace)
	return m.underLease(ctx, m.query(setUp, record, schemaScope, step.number, step.name).ExecContext)
}

// done are the steps that were done, by number.
func (m migrator) done(ctx context.Context) (map[int]string, error) {
	read := fmt.Sprintf("SELECT number, name FROM %s.migrations WHERE scope = ? AND number > ?", m.opts.Keyspace)
	iter := m.query(settleDoubt, read, schemaScope, leaseNumber).IterContext(ctx)
	done := map[int]string{}
	var number int
	var name string
	for iter.Scan(&number, &name) {
		done[number] = name
	}
	return done, iter.Close()
}
