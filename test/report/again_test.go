package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// flaky is a command that writes what go test -json does: the test fails this
// often, and passes then. It keeps its arguments.
func flaky(t *testing.T, fails int) (command []string, calls string) {
	t.Helper()
	calls = filepath.Join(t.TempDir(), "calls")
	script := fmt.Sprintf(`echo "$@" >> %[1]s
verdict=pass
[ "$(wc -l < %[1]s)" -gt %[2]d ] || verdict=fail
printf 'conformance\tpebblestore\tledger/insert\t%%s\n' $verdict >> "$MAYFLY_REPORT/rows.tsv"
echo '{"Action":"run","Package":"%[3]s/p","Test":"TestA"}'
echo '{"Action":"run","Package":"%[3]s/p","Test":"TestA/x"}'
echo '{"Action":"'$verdict'","Package":"%[3]s/p","Test":"TestA/x"}'
echo '{"Action":"'$verdict'","Package":"%[3]s/p","Test":"TestA"}'
echo '{"Action":"'$verdict'","Package":"%[3]s/p"}'
[ $verdict = pass ]
`, calls, fails, module)
	return []string{"sh", "-c", script, "go", "test", "-p", "3", "./p", module + "/q"}, calls
}

// takeProcessors has the host take a share of the processors for so many readings, and
// nothing after.
func takeProcessors(t *testing.T, share float64, readings int) {
	t.Helper()
	was := readProcessors
	t.Cleanup(func() { readProcessors = was })
	var now processors
	readProcessors = func() processors {
		now.all += 100
		if readings--; readings >= 0 {
			now.stolen += 100 * share
		}
		return now
	}
}

func TestATestThatFailsWhileProcessorsAreTakenIsRunAgainAndNamed(t *testing.T) {
	for name, c := range map[string]struct {
		share       float64
		fails, runs int
		well        bool
	}{
		"nothing is taken":                 {share: 0, fails: 1, runs: 1},
		"a little is taken":                {share: 0.09, fails: 1, runs: 1},
		"much is taken":                    {share: 0.6, fails: 1, runs: 2, well: true},
		"it fails again by itself":         {share: 0.6, fails: 9, runs: 2},
		"it passes while a lot is taken":   {share: 0.6, fails: 0, runs: 1, well: true},
		"it fails once, and all is stolen": {share: 1, fails: 1, runs: 2, well: true},
	} {
		t.Run(name, func(t *testing.T) {
			takeProcessors(t, c.share, 5) // of the package, of both tests, and at the failure
			command, calls := flaky(t, c.fails)
			r := results(t.TempDir())
			var out bytes.Buffer
			ok, err := run(t.Context(), r, &out, patience, "tests", append([]string{"drivers"}, command...))
			if err != nil || ok != c.well {
				t.Fatalf("%t, %v, want %t:\n%s", ok, err, c.well, &out)
			}
			text, err := os.ReadFile(calls)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			if len(lines) != c.runs {
				t.Errorf("ran %d times, want %d", len(lines), c.runs)
			}
			if want := "test -p 3 -run ^(TestA)$ " + module + "/p"; c.runs > 1 && lines[1] != want {
				t.Errorf("ran again as %q, want %q", lines[1], want)
			}
			var page bytes.Buffer
			well, err := closing(r, &page, true)
			if err != nil || well != c.well {
				t.Errorf("closes with %t, %v:\n%s", well, err, &page)
			}
			if named := strings.Contains(page.String(), "again: drivers: p TestA/x: "); named != (c.well && c.runs > 1) {
				t.Errorf("named again: %t\n%s", named, &page)
			}
		})
	}
}

func TestWhatDidNotFinishIsRunAgainAsAWholePackage(t *testing.T) {
	takeProcessors(t, 0.5, 100)
	s, _ := feed(t,
		`{"Action":"run","Package":"p","Test":"TestA"}`,
		`{"Action":"run","Package":"p","Test":"TestB"}`,
		`{"Action":"fail","Package":"p","Test":"TestB"}`,
		`{"Action":"fail","Package":"p"}`)
	l := s.lost["p"]
	if l == nil || l.final || !l.whole || len(l.failures) != 2 {
		t.Fatalf("%+v", l)
	}
	if got := strings.Join(l.arguments([]string{"go", "test", "./p"}, "p"), " "); got != "go test p" {
		t.Errorf("runs %q", got)
	}
}

func TestWhatDoesNotBuildIsNotRunAgain(t *testing.T) {
	takeProcessors(t, 0.5, 100)
	s, _ := feed(t, `{"Action":"fail","Package":"p","FailedBuild":"p"}`)
	if !s.lost["p"].final {
		t.Errorf("%+v", s.lost["p"])
	}
}

func TestTakenTimeIsReadFromTheKernel(t *testing.T) {
	before := parseProcessors("cpu  100 0 100 700 50 0 0 50 0 0\ncpu0 1 2 3\n")
	after := parseProcessors("cpu  150 0 100 750 50 0 0 350 0 0\ncpu0 1 2 3\n")
	if got := after.takenSince(before); got != 0.75 {
		t.Errorf("taken %g, want 0.75", got)
	}
	if got := before.takenSince(before) + parseProcessors("nonsense").takenSince(before); got != 0 {
		t.Errorf("taken %g without time", got)
	}
}
