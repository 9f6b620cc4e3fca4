// Package storetest is in charge of holding drivers to the contracts of package
// store. Each contract has a suite: a fixed list of cases, each a sentence. A
// driver is held to all of them: it can neither skip nor override one.
//
// The cases run on shared, long-lived servers too: they use names that nobody
// else has, assume no empty store, and wait only where the contract lets a
// driver be late. A suite expects nobody else to append to the log meanwhile.
//
// Beside the suites stand the Model (the oracle for Random), Prefix (a store
// that stops between stages and lets failed writes land late) and FaultyBlobs.
// Only tests import this package.
package storetest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// Open makes the store that a suite is run on. It is called once per suite, and
// cleans up after itself by t.Cleanup.
type Open = func(t *testing.T) store.Set

// patience bounds a case: a driver on the other side of a network has to be
// done by then. MAYFLY_PATIENCE sets another bound.
func patience() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("MAYFLY_PATIENCE")); err == nil && d > 0 {
		return d
	}
	return time.Minute
}

// trial is one case being tried.
type trial struct {
	*testing.T
	ctx context.Context
	set store.Set
}

type testCase struct {
	name string // a sentence
	run  func(*trial)
}

// All holds driver to every contract.
func All(t *testing.T, driver string, open Open) {
	for _, s := range []struct {
		name string
		hold func(*testing.T, string, Open)
	}{
		{"writer", Writer},
		{"ledger", Ledger},
		{"rows", Rows},
		{"log", Log},
		{"blobs", Blobs},
		{"limits", Limits},
		{"signals", Signals},
		{"lease", Lease},
	} {
		t.Run(s.name, func(t *testing.T) { s.hold(t, driver, open) })
	}
}

// Writer holds driver to the contract of store.Writer.
func Writer(t *testing.T, driver string, open Open) { hold(t, driver, "writer", open, writerCases()) }

// Ledger holds driver to the contract of store.Ledger. It writes through the
// set's Writer.
func Ledger(t *testing.T, driver string, open Open) { hold(t, driver, "ledger", open, ledgerCases()) }

// Rows holds driver to the contract of store.Rows. It writes plain tables
// through the set's Writer.
func Rows(t *testing.T, driver string, open Open) { hold(t, driver, "rows", open, rowsCases()) }

// Log holds driver to the contract of store.Log.
func Log(t *testing.T, driver string, open Open) { hold(t, driver, "log", open, logCases()) }

// Blobs holds the set's Hot to the contract of store.Blobs, with Cold as the
// other tier.
func Blobs(t *testing.T, driver string, open Open) { hold(t, driver, "blobs", open, blobsCases()) }

// Limits holds driver to the contract of store.Limits.
func Limits(t *testing.T, driver string, open Open) { hold(t, driver, "limits", open, limitsCases()) }

// Signals holds driver to the contract of store.Signals.
func Signals(t *testing.T, driver string, open Open) {
	hold(t, driver, "signals", open, signalsCases())
}

// Lease holds walk.Lease on the driver's Rows to its promises.
func Lease(t *testing.T, driver string, open Open) {
	hold(t, driver, "lease", open, append(leaseCases(), rollCases()...))
}

func hold(t *testing.T, driver, contract string, open Open, cases []testCase) {
	t.Helper()
	set := open(t)
	for _, c := range cases {
		ran := false // a case that -run left out has no verdict
		passed := t.Run(c.name, func(t *testing.T) {
			ran = true
			t.Cleanup(func() {
				if t.Skipped() {
					t.Error("a case of a contract cannot be skipped")
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), patience())
			defer cancel()
			if end, ok := t.Deadline(); ok { // fail with a reason before the test binary is stopped
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
