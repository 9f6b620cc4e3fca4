package cassandrastore

import (
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

func TestEveryOperationHasTheConsistencyLevelThatItNeeds(t *testing.T) {
	want := map[operation]gocql.Consistency{
		readLedger: gocql.Quorum, readRows: gocql.Quorum, // meet every acknowledged write in one copy
		birth: gocql.Quorum, eraseContent: gocql.Quorum, writePlain: gocql.Quorum,
		change:      gocql.Quorum, // of the commit: a read at QUORUM sees it
		settleDoubt: gocql.Serial, // a read at less leaves what is under way as it is
		setUp:       gocql.Quorum,
	}
	s := &Store{session: &gocql.Session{}, second: secondAsking()}
	for d := readLedger; d <= setUp; d++ {
		copies, reported := want[d]
		q, b := s.query(d, "x"), s.batch(d)
		if got := d.level().copies; !reported || got != copies || q.GetConsistency() != copies || b.GetConsistency() != copies {
			t.Errorf("operation %d: %s, a query %s, a batch %s, want %s", d, got, q.GetConsistency(), b.GetConsistency(), copies)
		}
		// Never LOCAL_SERIAL: two data centres would decide apart.
		if got, there := b.GetSerialConsistency(); !there || got != gocql.Serial {
			t.Errorf("operation %d: a batch is decided at %s", d, got)
		}
	}
	if agreement != gocql.Serial {
		t.Errorf("conditional writes are decided at %s", agreement)
	}
}
