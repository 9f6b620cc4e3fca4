package storetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly/store"
)

func TestEveryCaseIsASentenceAndEachContractHasItsOwn(t *testing.T) {
	total := 0
	for contract, cases := range map[string][]testCase{
		"writer": writerCases(), "ledger": ledgerCases(), "rows": rowsCases(), "log": logCases(), "blobs": blobsCases(),
		"limits": limitsCases(), "signals": signalsCases(), "lease": leaseCases(),
	} {
		seen := map[string]bool{}
		for _, c := range cases {
			if seen[c.name] || strings.ContainsAny(c.name, "/\t\n") || len(strings.Fields(c.name)) < 3 {
				t.Errorf("%s: %q is there twice, or not a plain sentence", contract, c.name)
			}
			seen[c.name] = true
		}
		total += len(cases)
	}
	Proof(t, "conformance", "cases", total)
}

func TestRowsOfTheClosingTableAreWritten(t *testing.T) {
	folder := t.TempDir()
	t.Setenv(reportFolder, folder)
	hold(t, "some driver", "contract", func(*testing.T) store.Set { return store.Set{} }, []testCase{
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
