package storetest

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskstore"
	"github.com/mayflyhq/mayfly/store/memstore"
	"github.com/mayflyhq/mayfly/test/pace"
)

// breakage is a store that breaks one promise, and the case that must notice.
type breakage struct {
	name   string
	suite  func(*testing.T, string, Open)
	bitten string
	spoil  func(m *Model, set *store.Set)
}

func breakages() []breakage {
	var all []breakage
	for _, some := range [][]breakage{
		brokenWriters(), brokenBirths(), brokenTransitions(), brokenWalks(), brokenRanges(), brokenSwaps(),
		brokenLogs(), brokenReaders(), brokenTiers(), brokenLimits(), brokenSignals(), brokenTimes(), brokenAtRandom(),
	} {
		all = append(all, some...)
	}
	return all
}

const atRandom = "random operations agree with the model"

// brokenAtRandom holds some of the broken stores to the model instead of to a suite.
func brokenAtRandom() []breakage {
	random := func(t *testing.T, driver string, open Open) {
		t.Run(atRandom, func(t *testing.T) { Random(t, driver, open, Options{Checks: 200, Seed: 1}) })
	}
	var some []breakage
	for _, b := range slices.Concat(brokenBirths(), brokenTransitions(), brokenWalks(), brokenRanges(), brokenSwaps(), brokenLogs()) {
		if slices.Contains([]string{
			"insert overwrites", "insert resurrects the deleted", "a transition looks at the state only", "a call reads its rows once at the beginning",
			"a walk hands out one early", "a walk leaves its position's deadline out", "items that never expire come newest first",
			"a range includes its end", "a drop takes the partitions whose name begins with its own", "an empty value is absence",
			"a swap takes an empty value for absence", "a swap to absence leaves an empty row", "remove takes what it can of a refused call", "remove leaves the body",
		}, b.name) {
			some = append(some, breakage{b.name + ", at random", random, atRandom, b.spoil})
		}
	}
	return some
}

// openWhole is a store that keeps every contract.
func openWhole(t *testing.T) (*Model, store.Set) {
	m := NewModel()
	set := m.Set()
	fs := vfs.NewMem()
	tier := func(dir string) store.Blobs {
		s, err := diskstore.Open(diskstore.Options{FS: fs, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	set.Hot, set.Cold = tier("hot"), tier("cold")
	set.Limits, set.Signals = memstore.NewLimits(0), memstore.NewSignals()
	return m, set
}

func TestWholeStoreKeepsEveryContract(t *testing.T) {
	// Without a driver's name of its own in the closing table: the drivers are
	// held to the suites in their own packages.
	t.Setenv(reportFolder, "")
	All(t, "whole", func(t *testing.T) store.Set {
		_, set := openWhole(t)
		return set
	})
}

// broken names the breakage that a child process is to be held to its suite with.
const broken = "MAYFLY_BROKEN"

// skipping is a case that skips itself, which no case may.
const skipping = "a case that is skipped fails"

// A suite takes a *testing.T, so that a failure can be seen only from outside:
// the test runs itself again, once per broken store, and wants that to fail.
func TestEveryBrokenStoreIsCaughtByItsCase(t *testing.T) {
	pace.Slow(t, "a process for each broken store")
	if name := os.Getenv(broken); name != "" {
		holdBroken(t, name)
		return
	}
	all := append(breakages(), breakage{name: skipping, bitten: skipping})
	faults := make([]string, len(all))
	var wg sync.WaitGroup
	atOnce := make(chan struct{}, 8) // most of them only wait
	for i, b := range all {
		wg.Go(func() {
			atOnce <- struct{}{}
			faults[i] = runBroken(t, b)
			<-atOnce
		})
	}
	wg.Wait()
	caught, cases := 0, map[string]bool{}
	for i, b := range all {
		t.Run(b.name, func(t *testing.T) {
			if faults[i] != "" {
				t.Fatal(faults[i])
			}
			caught++
			cases[b.bitten] = true
		})
	}
	Proof(t, "suites bite", "broken stores caught", caught)
	Proof(t, "suites bite", "cases that caught one", len(cases))
}

// runBroken says why the case did not catch the broken store; "" if it did.
func runBroken(t *testing.T, b breakage) string {
	only := "^" + t.Name() + "$/^" + regexp.QuoteMeta(b.bitten) + "$"
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", only, "-test.v", "-test.timeout", "1m", "-rapid.shrinktime", "100ms")
	child.Env = append(os.Environ(), broken+"="+b.name, reportFolder+"=", "MAYFLY_PATIENCE=2s")
	out, err := child.CombinedOutput()
	fails := "--- FAIL: " + t.Name() + "/" + strings.ReplaceAll(b.bitten, " ", "_")
	switch {
	case err == nil:
		return fmt.Sprintf("the case %q does not notice\n%s", b.bitten, out)
	case !strings.Contains(string(out), fails):
		return fmt.Sprintf("it fails, but not in the case %q\n%s", b.bitten, out)
	}
	return ""
}

func holdBroken(t *testing.T, name string) {
	if name == skipping {
		hold(t, "broken", "contract", func(*testing.T) store.Set { return store.Set{} }, []testCase{
			{skipping, func(c *trial) { c.Skip("this driver cannot") }},
		})
		return
	}
	for _, b := range breakages() {
		if b.name == name {
			b.suite(t, "broken", func(t *testing.T) store.Set {
				m, set := openWhole(t)
				b.spoil(m, &set)
				return set
			})
			return
		}
	}
	t.Fatalf("no breakage is called %q", name)
}
