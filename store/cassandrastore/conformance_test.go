//go:build servers

package cassandrastore

import (
	"testing"

	"github.com/mayflyhq/mayfly/store/storetest"
)

func TestCassandraKeepsTheContracts(t *testing.T) {
	t.Parallel()
	const driver = "cassandrastore"
	t.Run("writer", func(t *testing.T) { storetest.Writer(t, driver, openSet) })
	t.Run("ledger", func(t *testing.T) { storetest.Ledger(t, driver, openSet) })
	t.Run("rows", func(t *testing.T) { storetest.Rows(t, driver, openSet) })
	t.Run("lease", func(t *testing.T) { storetest.Lease(t, driver, openSet) })
}

func TestCassandraAnswersAsTheModelDoes(t *testing.T) {
	t.Parallel()
	storetest.Random(t, "cassandrastore", openSet)
}
