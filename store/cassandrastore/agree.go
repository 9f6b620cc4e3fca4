package cassandrastore

import (
	"context"
	"fmt"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly/store/loop"
)

// agree waits until every node that answers has the same schema, by each one's own
// word: what one node says of the others is behind.
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
