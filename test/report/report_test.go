package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// feed passes lines of go test -json to a tally.
func feed(t *testing.T, lines ...string) (suite, string) {
	t.Helper()
	var out bytes.Buffer
	tally := newTally(&out)
	tally.read(strings.NewReader(strings.Join(lines, "\n")))
	return tally.end(nil), out.String()
}

func TestOnlyLeavesAreCounted(t *testing.T) {
	s, _ := feed(t,
		`{"Action":"run","Package":"p","Test":"TestA"}`,
		`{"Action":"run","Package":"p","Test":"TestA/x"}`,
		`{"Action":"run","Package":"p","Test":"TestA/y/z"}`,
		`{"Action":"pass","Package":"p","Test":"TestA/x"}`,
		`{"Action":"pass","Package":"p","Test":"TestA/y/z"}`,
		`{"Action":"pass","Package":"p","Test":"TestA"}`,
		`{"Action":"run","Package":"p","Test":"TestB"}`,
		`{"Action":"pass","Package":"p","Test":"TestB"}`,
		`{"Action":"pass","Package":"p"}`)
	if s.Passed != 3 || s.Failed != 0 || s.Result != passed {
		t.Errorf("got %+v, want 3 passed", s)
	}
}

func TestAFailedSubtestIsCountedOnceAndItsOutputShown(t *testing.T) {
	s, out := feed(t,
		`{"Action":"run","Package":"p","Test":"TestA"}`,
		`{"Action":"run","Package":"p","Test":"TestA/x"}`,
		`{"Action":"output","Package":"p","Test":"TestA/x","Output":"x_test.go:1: off by one\n"}`,
		`{"Action":"fail","Package":"p","Test":"TestA/x"}`,
		`{"Action":"fail","Package":"p","Test":"TestA"}`,
		`{"Action":"fail","Package":"p"}`)
	if s.Failed != 1 || !slices.Equal(s.Failures, []string{"p TestA/x"}) {
		t.Errorf("got %+v, want one failure", s)
	}
	if !strings.Contains(out, "off by one") {
		t.Errorf("the output of the failed test is missing:\n%s", out)
	}
}

func TestAParentThatFailsByItselfIsCounted(t *testing.T) {
	s, _ := feed(t,
		`{"Action":"run","Package":"p","Test":"TestA"}`,
		`{"Action":"run","Package":"p","Test":"TestA/x"}`,
		`{"Action":"pass","Package":"p","Test":"TestA/x"}`,
		`{"Action":"fail","Package":"p","Test":"TestA"}`,
		`{"Action":"fail","Package":"p"}`)
	if s.Passed != 1 || !slices.Equal(s.Failures, []string{"p TestA"}) {
		t.Errorf("got %+v", s)
	}
}

func TestASkippedTestIsNamedWithItsReason(t *testing.T) {
	s, _ := feed(t,
		`{"Action":"run","Package":"p","Test":"TestA"}`,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}`,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: no disk to fill\n"}`,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}`,
		`{"Action":"skip","Package":"p","Test":"TestA"}`,
		`{"Action":"pass","Package":"p"}`)
	if s.Skipped != 1 || !slices.Equal(s.Skips, []string{"p TestA: a_test.go:3: no disk to fill"}) {
		t.Errorf("got %+v", s)
	}
}

func TestATestOrPackageThatDidNotEndFails(t *testing.T) {
	for name, tc := range map[string]struct {
		lines []string
		want  string
	}{
		"a test cut off by the time-out": {[]string{
			`{"Action":"run","Package":"p","Test":"TestA"}`,
			`{"Action":"fail","Package":"p"}`,
		}, "p TestA (did not finish)"},
		"a package that does not build": {[]string{
			`{"Action":"build-output","ImportPath":"p","Output":"p.go:1: syntax error\n"}`,
			`{"Action":"build-fail","ImportPath":"p"}`,
			`{"Action":"fail","Package":"p","FailedBuild":"p"}`,
		}, "p (does not build)"},
		"a package that fails although its tests pass": {[]string{
			`{"Action":"run","Package":"p","Test":"TestA"}`,
			`{"Action":"pass","Package":"p","Test":"TestA"}`,
			`{"Action":"fail","Package":"p"}`,
		}, "p (failed outside of its tests)"},
		"nothing at all": {nil, "go test (ran no test)"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := feed(t, tc.lines...)
			if s.Result != failed || s.Failed != 1 || !slices.Equal(s.Failures, []string{tc.want}) {
				t.Errorf("got %+v, want the failure %q", s, tc.want)
			}
		})
	}
}

func TestAnErrorOfGoTestItselfFails(t *testing.T) {
	s := newTally(&bytes.Buffer{}).end(errors.New("exit status 1"))
	if s.Result != failed || s.Failed != 1 {
		t.Errorf("got %+v", s)
	}
}

// closed adds suites and rows and returns the closing page.
func closed(t *testing.T, strict bool, rows string, suites ...suite) (bool, string) {
	t.Helper()
	r := results(t.TempDir())
	for _, s := range suites {
		if err := r.add(s); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(r.rows(s.Name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(r.rows(s.Name), "a.tsv"), []byte(rows), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	ok, err := closing(r, &out, strict)
	if err != nil {
		t.Fatal(err)
	}
	return ok, out.String()
}

func TestTheLastLineIsTheCount(t *testing.T) {
	ok, page := closed(t, true, "", suite{Name: "test", Result: passed, Passed: 3}, suite{Name: "race", Result: passed, Passed: 2})
	if !ok || !strings.HasSuffix(page, "\n5 passed, 0 failed\n") {
		t.Errorf("ok = %v:\n%s", ok, page)
	}
}

func TestNotRunAndSkippedFailOnlyInCI(t *testing.T) {
	for name, s := range map[string]suite{
		"not run": {Name: "race", Result: notRun, Reason: "no C compiler"},
		"skipped": {Name: "race", Result: passed, Passed: 1, Skipped: 1, Skips: []string{"p TestA"}},
	} {
		for _, strict := range []bool{false, true} {
			ok, page := closed(t, strict, "", suite{Name: "test", Result: passed, Passed: 3}, s)
			if ok == strict {
				t.Errorf("%s, strict = %v: ok = %v:\n%s", name, strict, ok, page)
			}
			if !strings.Contains(page, name+": race: ") {
				t.Errorf("%s is not listed:\n%s", name, page)
			}
		}
	}
}

func TestASkipWithAnExcuseIsListedAndIsNoFailure(t *testing.T) {
	for _, reason := range []string{"another system: it has no 127.0.0.2", "a ring takes a minute: MAYFLY_LONG=1", "too slow under the race detector: crashes"} {
		skipped := suite{Name: "test", Result: passed, Passed: 1, Skipped: 1, Skips: []string{"p TestA: a_test.go:3: " + reason}}
		ok, page := closed(t, true, "", skipped)
		if !ok || !strings.Contains(page, "skipped: test: p TestA: a_test.go:3: "+reason) {
			t.Errorf("ok = %v:\n%s", ok, page)
		}
	}
}

func TestConformanceIsAMatrixPerContract(t *testing.T) {
	rows := strings.Join([]string{
		"conformance\tpebblestore\tledger/insert twice\tpass",
		"conformance\tdiskstore\tblobs/put\tpass",
		"conformance\tcassandrastore\tledger/insert twice\tpass",
		"proof\tpower loss\tcrash points\t412",
	}, "\n")
	ok, page := closed(t, true, rows, suite{Name: "test", Result: passed, Passed: 1})
	for _, want := range []string{
		"conformance: blobs  diskstore\n  put               pass\n",
		"conformance: ledger  cassandrastore  pebblestore\n  insert twice       pass            pass\n",
		"proof: power loss (test)\n  crash points: 412\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("want\n%s\nin\n%s", want, page)
		}
	}
	if !ok {
		t.Errorf("not ok:\n%s", page)
	}
}

func TestFailedMissingAndUnknownRowsFail(t *testing.T) {
	for name, rows := range map[string]string{
		"a case failed":            "conformance\tpebblestore\tledger/insert\tfail\nconformance\tpebblestore\tledger/insert\tpass",
		"a driver left a case out": "conformance\ta\tledger/insert\tpass\nconformance\tb\tledger/insert\tpass\nconformance\tb\tledger/walk\tpass",
		"a case without contract":  "conformance\ta\tinsert\tpass",
		"an unknown row":           "conformance\ta",
	} {
		if ok, page := closed(t, false, rows, suite{Name: "test", Result: passed, Passed: 1}); ok {
			t.Errorf("%s: well, want not well:\n%s", name, page)
		}
	}
}

func TestTheClosingPageIsAtMost120ColumnsWide(t *testing.T) {
	long := strings.Repeat("many words ", 40)
	rows := "proof\tname\tfigure\t" + long + "\nproof\tname\tword\t" + strings.Repeat("x", 300) + "\n" +
		"conformance\tcassandrastore\tledger/" + long + "\tpass\nconformance\tpebblestore\tledger/" + long + "\tpass"
	slow := []timing{{Test: "store/cassandrastore Test" + strings.Repeat("A", 100), Seconds: 12}}
	ok, page := closed(t, true, rows, suite{Name: "cluster faults", Result: passed, Passed: 1, Slowest: slow}, suite{Name: "race", Result: passed})
	if !ok {
		t.Errorf("not ok:\n%s", page)
	}
	for line := range strings.Lines(page) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > width {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if got := strings.Count(page, "words"); got < 80 {
		t.Errorf("a proof lost its words: %d of 80 are there:\n%s", got, page)
	}
}

func TestTheSlowestTenTestsOfAllSuitesAreListed(t *testing.T) {
	s, _ := feed(t,
		`{"Action":"run","Package":"p","Test":"TestA"}`,
		`{"Action":"run","Package":"p","Test":"TestA/x"}`,
		`{"Action":"pass","Package":"p","Test":"TestA/x","Elapsed":9}`,
		`{"Action":"pass","Package":"p","Test":"TestA","Elapsed":9.5}`,
		`{"Action":"run","Package":"p","Test":"TestB"}`,
		`{"Action":"pass","Package":"p","Test":"TestB","Elapsed":11}`,
		`{"Action":"pass","Package":"p"}`)
	s.Name = "test"
	many := suite{Name: "race", Result: passed, Passed: 1}
	for i := range 12 {
		many.Slowest = append(many.Slowest, timing{Test: fmt.Sprintf("q Test%02d", i), Seconds: float64(i)})
	}
	_, page := closed(t, true, "", s, many)
	if strings.Contains(page, "TestA/x") || strings.Contains(page, "Test03") || !strings.Contains(page, "Test04") {
		t.Errorf("not the ten slowest:\n%s", page)
	}
	if a, b := strings.Index(page, "p TestA"), strings.Index(page, "p TestB"); a < 0 || b < 0 || b > a {
		t.Errorf("not in order:\n%s", page)
	}
}

func TestASuiteThatTakesTooLongIsKilledWithItsChildrenAndHasFailed(t *testing.T) {
	r := results(t.TempDir())
	began := time.Now()
	ok, err := run(t.Context(), r, io.Discard, 200*time.Millisecond, "check", []string{"hangs", "sh", "-c", "sleep 60 & wait"})
	if err != nil || ok || time.Since(began) > 30*time.Second {
		t.Fatalf("%t, %v after %s", ok, err, time.Since(began))
	}
	all, err := r.all()
	if err != nil || len(all) != 1 || all[0].Result != failed || !slices.Contains(all[0].Failures, "killed after 200ms") {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestOutputThatIsHeldBackIsPrintedAsAWhole(t *testing.T) {
	var out bytes.Buffer
	p := printer{out: &out, whole: true}
	if _, err := run(t.Context(), results(t.TempDir()), &p, time.Minute, "check", []string{"echo", "echo", "words"}); err != nil {
		t.Fatal(err)
	}
	if out.Len() > 0 {
		t.Errorf("printed early: %s", &out)
	}
	if p.flush(); out.String() != "\n== echo\nwords\n" {
		t.Errorf("printed %q", &out)
	}
}
