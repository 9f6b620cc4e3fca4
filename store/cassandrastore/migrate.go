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
// once: one holds the lease and works, the others wait. The lease keeps two
// coordinators from creating the same table. It is a row with a TTL: nothing breaks
// if it ends late.
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

// prepare creates what is missing. A server lists a table shortly before it can use
// it, so that a table that another node is creating may be listed and still be
// unknown: then prepare starts again, a few times.
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

// unsettled reports whether the same work may succeed in a moment, because a table is
// being created or the servers are busy. All of it may be done again.
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

// probe refuses a server that cannot hold the schema, before anything is created.
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

// ground creates the keyspace and the table of migrations if they are missing, so that
// a user without the permission to create them can use those that an operator created.
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

// climb does the pending steps, or waits until another node has done them.
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
				return err // a server may still work on it: the lease keeps other nodes away until it ends
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

// done returns the steps that were done, by number.
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

// schemaTimes are the longest time of a statement of the schema, and of the lease that
// is renewed before it.
type schemaTimes struct{ statement, lease time.Duration }

const (
	// statementTime is how long the creation of a table may take: on a busy cluster
	// much longer than a request.
	statementTime = 45 * time.Second
	// leaseMargin allows for clocks that differ in speed, and for a server that
	// still works on a statement after its timeout.
	leaseMargin = 15 * time.Second
)

// timesFor derives both from the timeout of a request, so that the lease always lasts
// longer than the statement.
func timesFor(request time.Duration) schemaTimes {
	statement := max(request, statementTime)
	return schemaTimes{statement, statement + leaseMargin}
}

// seconds returns the TTL of the lease.
func (t schemaTimes) seconds() int { return int((t.lease + time.Second - 1) / time.Second) }

// underLease renews the lease and does one piece of work, which ends before the lease:
// its timeout starts before the renewal is sent.
func (m migrator) underLease(ctx context.Context, work func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, m.times.statement)
	defer cancel()
	held, err := m.hold(ctx)
	if err != nil || !held {
		return errors.Join(err, mayfly.Errorf(mayfly.Unavailable, "the lease is lost"))
	}
	return work(ctx)
}

// answered reports whether a server answered, so that none still works on the request.
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

// agree waits until every node that answers has the same schema. It asks each node for
// itself, because what a node knows of the others is out of date.
func (m migrator) agree(ctx context.Context) error {
	for {
		versions := map[string]bool{}
		for _, host := range m.session.GetHosts() {
			if !host.IsUp() {
				continue
			}
			var version gocql.UUID
			err := m.query(setUp, "SELECT schema_version FROM system.local WHERE key = 'local'").
				Consistency(gocql.One).SetHostID(host.HostID()).ScanContext(ctx, &version)
			if err != nil && ctx.Err() != nil {
				return ctx.Err()
			}
			if err == nil { // a node that is going down catches up when it is back
				versions[version.String()] = true
			}
		}
		if len(versions) == 1 {
			return nil
		}
		if err := loop.Rest(ctx, lookAgain); err != nil {
			return fmt.Errorf("%d versions of the schema: %w", len(versions), err)
		}
	}
}
