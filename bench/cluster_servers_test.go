//go:build servers

package bench

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly/engine/verify"
)

// The whole trial on real servers, in its quick form or, with MAYFLY_LONG, in full:
// batches against single rows, and 100,000 stories through their lives.
func TestTheBenchmarkOnAClusterAnswersWithItsFiguresAndLosesNothing(t *testing.T) {
	if os.Getenv(testPrefix+"CASSANDRA") == "" {
		t.Fatal("no servers are named: eval \"$(go run ./deploy/servers up)\"")
	}
	var out, errs bytes.Buffer
	o := Options{Name: "cluster", JSON: true, Dir: t.TempDir(), Quick: os.Getenv("MAYFLY_LONG") == "", Seed: 1, Out: &out, Diagnostics: &errs}
	o.Config.Environ = os.Environ()
	if err := Run(t.Context(), o); err != nil {
		t.Fatalf("%v: %s\n%s", err, errs.String(), out.String())
	}
	t.Log(out.String())
	values := make(map[string]float64)
	for line := range strings.Lines(out.String()) {
		var f struct {
			Name  string
			Value float64
		}
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		values[f.Name] = f.Value
	}
	zeros := map[string]bool{"cluster.retries": true}
	for w := range verify.Words {
		name := "cluster." + strings.ToLower(w.String())
		if zeros[name] = true; values[name] != 0 {
			t.Errorf("%s is %v", name, values[name])
		}
	}
	for _, f := range benchFigures() {
		if !strings.HasPrefix(f.name, "cluster.") {
			continue
		}
		if value, found := values[f.name]; !found || value <= 0 && !zeros[f.name] {
			t.Errorf("%s is %v, found: %t", f.name, value, found)
		}
	}
	if ratio := values["cluster.sweep_ratio"]; ratio < 8 {
		t.Errorf("a batch is %.1f times as fast as single rows: less than 8", ratio)
	}
}
