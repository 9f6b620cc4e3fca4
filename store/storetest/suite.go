// Package storetest checks drivers against the contracts of package store. Each
// contract has a suite: a fixed list of cases, none of which a driver can skip or
// override.
//
// The cases also run on shared, long-lived servers: they use unique names, do not
// expect an empty store, and wait only where the contract allows a driver to be late.
// No other process may append to the log while a suite runs.
//
// It also has the Model (the reference for Random), Prefix (a store that stops between
// stages and does failed writes late), FaultyBlobs and Crashes. Only tests import it.
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// Open opens the store for a suite. It is called once per suite, and cleans up by
// t.Cleanup.
type Open = func(t *testing.T) store.Set

// caseTimeout is the longest time that a case may take, also over a network.
const caseTimeout = time.Minute

// trial is a running case.
type trial struct {
	*testing.T
	ctx context.Context
	set store.Set
}

type testCase struct {
	name string // a sentence about behaviour
	run  func(*trial)
}

// Writer checks a driver against the contract of store.Writer.
func Writer(t *testing.T, driver string, open Open) { run(t, driver, "writer", open, writerCases()) }

// Ledger checks a driver against the contract of store.Ledger. It writes through the
// set's Writer.
func Ledger(t *testing.T, driver string, open Open) { run(t, driver, "ledger", open, ledgerCases()) }

// Rows checks a driver against the contract of store.Rows. It writes plain tables
// through the set's Writer.
func Rows(t *testing.T, driver string, open Open) { run(t, driver, "rows", open, rowsCases()) }

// Log checks a driver against the contract of store.Log.
func Log(t *testing.T, driver string, open Open) { run(t, driver, "log", open, logCases()) }

// Blobs checks the set's Hot against the contract of store.Blobs, with Cold as the
// other tier.
func Blobs(t *testing.T, driver string, open Open) { run(t, driver, "blobs", open, blobsCases()) }

// Limits checks a driver against the contract of store.Limits.
func Limits(t *testing.T, driver string, open Open) { run(t, driver, "limits", open, limitsCases()) }

// Signals checks a driver against the contract of store.Signals.
func Signals(t *testing.T, driver string, open Open) {
	run(t, driver, "signals", open, signalsCases())
}

// Lease checks walk.Lease and the roll on the driver's Rows.
func Lease(t *testing.T, driver string, open Open) {
	run(t, driver, "lease", open, leaseCases())
}

func run(t *testing.T, driver, contract string, open Open, cases []testCase) {
	t.Helper()
	set := open(t)
	for _, c := range cases {
		ran := false // a case that -run excludes is not reported
		passed := t.Run(c.name, func(t *testing.T) {
			ran = true
			t.Cleanup(func() {
				if t.Skipped() {
					t.Error("a case of a contract cannot be skipped")
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
			defer cancel()
			if end, ok := t.Deadline(); ok { // fail with a message before the test binary is stopped
				ctx, cancel = context.WithDeadline(ctx, end.Add(-time.Second))
				defer cancel()
			}
			c.run(&trial{T: t, ctx: ctx, set: set})
		})
		if ran {
			reportCase(t, driver, contract+"/"+c.name, passed)
		}
	}
}

var (
	// PlainTable and OtherTable are plain tables of the suites.
	PlainTable = store.DeclareTable(store.Declaration{Name: "suite_plain", Number: 240, Purpose: "rows of the conformance suites", Mode: store.Plain, Erasure: store.NoUser})
	OtherTable = store.DeclareTable(store.Declaration{Name: "suite_other", Number: 241, Purpose: "rows of the conformance suites", Mode: store.Plain, Erasure: store.NoUser})
	// SwappedTable is a swapped table of the suites.
	SwappedTable = store.DeclareTable(store.Declaration{Name: "suite_swapped", Number: 242, Purpose: "rows of the conformance suites", Mode: store.Swapped, Erasure: store.NoUser})
)

// Own returns the tables that only the suites use.
func Own() []store.Table { return []store.Table{PlainTable, OtherTable, SwappedTable} }

// Tables returns the tables with which a driver under test must be opened.
func Tables() []store.Table { return append(Own(), walk.Tables()...) }

// undeclared returns a table that no driver was opened with.
func undeclared() store.Table {
	return store.DeclareTable(store.Declaration{Name: "undeclared", Number: 250, Purpose: "none", Mode: store.Plain, Erasure: store.NoUser})
}
