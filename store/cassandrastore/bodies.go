package cassandrastore

import (
	"context"
	"errors"
	"fmt"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// A body is born stamped 1, emptied stamped 2 and removed stamped 3: whatever
// lands late, and whatever the clocks say, the later step holds.

const readBody = "SELECT body FROM bodies WHERE id = ?"

func insertBody() string {
	return fmt.Sprintf("INSERT INTO bodies (id, body) VALUES (?, ?) USING TIMESTAMP %d", stampBorn)
}

// emptyBody leaves an empty value and no tombstone, so that a birth inserted
// again finds it whatever the server has compacted.
func emptyBody() string {
	return fmt.Sprintf("INSERT INTO bodies (id, body) VALUES (?, 0x) USING TIMESTAMP %d", stampErased)
}

func removeBody() string {
	return fmt.Sprintf("DELETE FROM bodies USING TIMESTAMP %d WHERE id = ?", stampRemoved)
}

// Body implements store.Ledger.
func (s ledger) Body(ctx context.Context, ids ...mayfly.ID) ([]store.FoundBody, error) {
	if err := begin(ctx); err != nil {
		return nil, err
	}
	found := make([]store.FoundBody, len(ids))
	err := each(ctx, len(ids), func(ctx context.Context, i int) error {
		var body []byte
		id := ids[i] // ours: a second asking may outlast the call
		err := s.query(readLedger, readBody, id[:]).ScanContext(ctx, &body)
		if errors.Is(err, gocql.ErrNotFound) || err == nil && len(body) == 0 { // never was, or was erased
			return nil
		}
		if err == nil {
			found[i].Body, err = store.ReadBody(body)
			found[i].Found = err == nil
		}
		if err != nil {
			return readError("body of "+ids[i].String(), err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}
