package storetest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func TestCaseNamesAreSentencesAndUnique(t *testing.T) {
	total := 0
	for contract, cases := range map[string][]testCase{
		"writer": writerCases(), "ledger": ledgerCases(), "rows": rowsCases(), "log": logCases(), "blobs": blobsCases(),
		"limits": limitsCases(), "signals": signalsCases(), "lease": leaseCases(), "time": timeCases(), "kv": kvCases(),
	} {
		seen := map[string]bool{}
		for _, c := range cases {
			if seen[c.name] || strings.ContainsAny(c.name, "/\t\n") || len(strings.Fields(c.name)) < 3 {
				t.Errorf("%s: the name %q is used twice or is not a sentence", contract, c.name)
			}
			seen[c.name] = true
		}
		total += len(cases)
	}
	Proof(t, "conformance", "cases", total)
}

// systemTime is a store.Time without servers.
type systemTime struct{}

func (systemTime) Time(ctx context.Context) ([]mayfly.Instant, error) {
	return []mayfly.Instant{wall()}, ctx.Err()
}

func TestTheSystemTimePassesTheConformanceSuite(t *testing.T) {
	t.Setenv(reportFolder, "") // it is no driver
	Time(t, "system", func(*testing.T) store.Set { return store.Set{Time: systemTime{}} })
}

func TestCasesAndProofsAreWrittenToTheReport(t *testing.T) {
	folder := t.TempDir()
	t.Setenv(reportFolder, folder)
	run(t, "some driver", "contract", func(*testing.T) store.Set { return store.Set{} }, []testCase{
		{"a case that passes", func(*trial) {}},
	})
	reportCase(t, "some driver", "contract/a case that fails", false)
	Proof(t, "a proof", "its figure", 42)
	files, err := filepath.Glob(filepath.Join(folder, "*.tsv"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %q, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	want := "conformance\tsome driver\tcontract/a case that passes\tpass\n" +
		"conformance\tsome driver\tcontract/a case that fails\tfail\n" +
		"proof\ta proof\tits figure\t42\n"
	if string(text) != want {
		t.Errorf("rows\n got %q\nwant %q", text, want)
	}
}
