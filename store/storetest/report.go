package storetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// reportFolder is the environment variable with the folder to which tests write rows of
// the closing table; without it they only log.
const reportFolder = "MAYFLY_REPORT"

func reportCase(t *testing.T, driver, name string, passed bool) {
	t.Helper()
	verdict := "fail"
	if passed {
		verdict = "pass"
	}
	reportRow(t, "conformance", driver, name, verdict)
}

// Proof logs a figure that says how much a test has tried, and writes it into the
// closing table.
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
	// One file per process and one write per row, because test binaries run in parallel.
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
