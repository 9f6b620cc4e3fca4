package storetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// reportFolder names the folder that tests write rows of the closing table to;
// without it they only log.
const reportFolder = "MAYFLY_REPORT"

func reportCase(t *testing.T, driver, name string, passed bool) {
	t.Helper()
	verdict := "fail"
	if passed {
		verdict = "pass"
	}
	reportRow(t, "conformance", driver, name, verdict)
}

// Proof logs one figure of what a test has tried, and puts it into the closing
// table: a proof says how much it covers.
func Proof(t testing.TB, name, figure string, value any) {
	t.Helper()
	text := fmt.Sprint(value)
	t.Logf("proof %s: %s = %s", name, figure, text)
	reportRow(t, "proof", name, figure, text)
}

func reportRow(t testing.TB, cells ...string) {
	t.Helper()
	folder := os.Getenv(reportFolder)
	if folder == "" {
		return
	}
	for i, cell := range cells {
		cells[i] = strings.Join(strings.Fields(cell), " ")
	}
	// One file per process, one write per row: test binaries run side by side.
	name := filepath.Join(folder, fmt.Sprintf("rows-%d.tsv", os.Getpid()))
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Errorf("report: %v", err)
		return
	}
	if _, err := f.WriteString(strings.Join(cells, "\t") + "\n"); err != nil {
		t.Errorf("report: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("report: %v", err)
	}
}
