package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const clamp = `
# a comment
fault: clamp-at-the-limit
file: clamp.go
find: if n > 10 {
replace: if n > 11 {
breaks: X1: eleven passes
test: .
run: TestClamp
`

func TestTheListIsInOrder(t *testing.T) {
	text, err := os.ReadFile("faults.txt")
	if err != nil {
		t.Fatal(err)
	}
	faults, err := parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		source, err := os.ReadFile(filepath.Join("../..", f.file))
		if err != nil {
			t.Errorf("fault %s: %v", f.name, err)
			continue
		}
		if _, _, err := f.apply(string(source)); err != nil {
			t.Errorf("fault %s: %s: %v", f.name, f.file, err)
		}
	}
}

func TestParseReadsWhatIsWritten(t *testing.T) {
	faults, err := parse(clamp + "\nfault: other\nfile: a.go\nafter: b: c\nfind: d\nreplace:\nbreaks: L4\ntest: ./a\nrun: T\ntimeout: 5s\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(faults) != 2 {
		t.Fatalf("%d faults, want 2", len(faults))
	}
	if f := faults[0]; f.name != "clamp-at-the-limit" || f.find != "if n > 10 {" || f.replace != "if n > 11 {" || f.pkg != "." || f.run != "TestClamp" {
		t.Errorf("first: %+v", f)
	}
	if f := faults[1]; f.after != "b: c" || f.replace != "" || f.timeout.Seconds() != 5 {
		t.Errorf("second: %+v", f)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"a key it does not know":       clamp + "why: because\n",
		"a key twice":                  clamp + "file: clamp.go\n",
		"a line without a key":         clamp + "something\n",
		"a fault without tests":        strings.Replace(clamp, "run: TestClamp", "", 1),
		"a fault without replacement":  strings.Replace(clamp, "replace: if n > 11 {\n", "", 1),
		"a replacement by the same":    strings.Replace(clamp, "11", "10", 1),
		"two faults of the same name":  clamp + clamp,
		"a time-out that is no length": clamp + "timeout: soon\n",
	} {
		if _, err := parse(text); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestApplyWantsTheLineOnce(t *testing.T) {
	const source = "a\n\tx\nb\n\tx\n\tx\n"
	for _, tc := range []struct {
		fault fault
		want  string
		line  int
	}{
		{fault{find: "b", replace: "c"}, "a\n\tx\nc\n\tx\n\tx\n", 3},
		{fault{after: "b", find: "x", replace: "y"}, "a\n\tx\nb\ny\n\tx\n", 4},
		{fault{find: "x"}, "", 0},
		{fault{find: "z"}, "", 0},
		{fault{after: "x", find: "b"}, "", 0},
		{fault{after: "b", find: "a"}, "", 0},
	} {
		got, line, err := tc.fault.apply(source)
		if got != tc.want || line != tc.line || (err == nil) != (tc.want != "") {
			t.Errorf("%+v: got %q, line %d, %v", tc.fault, got, line, err)
		}
	}
}

// module writes a tiny module whose test notices some faults and not others.
func module(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module tiny\n\ngo 1.26\n",
		"clamp.go": `package tiny

func clamp(n int) int {
	if n > 10 {
		return 10
	}
	if n < 0 {
		return 0
	}
	return n
}
`,
		"clamp_test.go": `package tiny

import "testing"

func TestClamp(t *testing.T) {
	if clamp(11) != 10 {
		t.Error("eleven")
	}
}

func TestRed(t *testing.T) { t.Error("always") }
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestWhatATestNoticesIsCaughtAndTheRestSurvives(t *testing.T) {
	faults, err := parse(clamp + strings.NewReplacer("clamp-at-the-limit", "below-zero", "n > 10", "n < 0", "n > 11", "n < -1").Replace(clamp))
	if err != nil {
		t.Fatal(err)
	}
	dir := module(t)
	before, _ := os.ReadFile(filepath.Join(dir, "clamp.go"))
	var out bytes.Buffer
	survived, err := run(t.Context(), dir, faults, 2, 0, &out)
	if err != nil {
		t.Fatal(err)
	}
	if survived != 1 || !strings.HasSuffix(out.String(), "\n1 passed, 1 failed\n") {
		t.Errorf("%d survived, want 1:\n%s", survived, out.String())
	}
	for _, row := range []string{"clamp-at-the-limit|clamp.go:4|TestClamp", "below-zero|clamp.go:7|SURVIVED"} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), "|"), row) {
			t.Errorf("no row %s in\n%s", row, out.String())
		}
	}
	if after, _ := os.ReadFile(filepath.Join(dir, "clamp.go")); !bytes.Equal(before, after) {
		t.Error("the source was touched")
	}
}

func TestNoFaultBeginsAfterTheTimeLimit(t *testing.T) {
	faults, err := parse(clamp)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	survived, err := run(t.Context(), module(t), faults, 1, time.Nanosecond, &out)
	if err != nil || survived != 0 || !strings.HasSuffix(out.String(), "0 of 1 faults were tried within 1ns\n0 passed, 0 failed\n") {
		t.Errorf("%d survived, %v:\n%s", survived, err, out.String())
	}
}

func TestWhatHasChangedComesFirstAndTheRestRotates(t *testing.T) {
	var faults []fault
	for i := range 20 {
		faults = append(faults, fault{name: fmt.Sprint(i), file: fmt.Sprintf("p%d/a.go", i), pkg: fmt.Sprintf("./t%d", i)})
	}
	dir := t.TempDir()
	commit := func(files ...string) {
		t.Helper()
		for _, name := range files {
			path := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(name), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range [][]string{{"add", "."}, {"-c", "user.name=ana", "-c", "user.email=ana@example.org", "commit", "-q", "-m", "change"}} {
			if _, err := git(t.Context(), dir, args...); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := git(t.Context(), dir, "init", "-q"); err != nil {
		t.Fatal(err)
	}
	commit("base")
	base, err := git(t.Context(), dir, "rev-parse", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	base = strings.TrimSpace(base)
	commit("p7/a.go", "t11/a_test.go", "t12/a.go")
	first, err := order(t.Context(), dir, faults, base)
	if err != nil {
		t.Fatal(err)
	}
	commit("again")
	second, err := order(t.Context(), dir, faults, base)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range [][]fault{first, second} {
		changed := []string{got[0].name, got[1].name}
		slices.Sort(changed)
		if !slices.Equal(changed, []string{"11", "7"}) || len(got) != len(faults) {
			t.Errorf("first are %v, of %d", changed, len(got))
		}
	}
	if slices.Equal(first[2:], second[2:]) {
		t.Error("two commits have the same order")
	}
	if _, err := order(t.Context(), dir, faults, "nowhere"); err == nil {
		t.Error("a commit that does not exist was accepted")
	}
}

func TestAFaultThatProvesNothingIsReportedAsNotTried(t *testing.T) {
	for name, change := range map[string][2]string{
		"code that does not compile":    {"if n > 11 {", "if m > 11 {"},
		"a test that is red anyway":     {"run: TestClamp", "run: TestRed"},
		"a pattern that matches none":   {"run: TestClamp", "run: TestNone"},
		"a case that does not exist":    {"run: TestClamp", "run: TestClamp/none"},
		"a line that is not there":      {"find: if n > 10 {", "find: if n > 12 {"},
		"a file that is not there":      {"file: clamp.go", "file: clump.go"},
		"a package that does not exist": {"test: .", "test: ./nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			faults, err := parse(strings.Replace(clamp, change[0], change[1], 1))
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if failed, err := run(t.Context(), module(t), faults, 2, 0, &out); err != nil || failed != 1 || !strings.HasPrefix(out.String(), "NOT TRIED") {
				t.Errorf("%d failed, %v:\n%s", failed, err, out.String())
			}
		})
	}
}

func TestChooseTakesTheNamedOrAll(t *testing.T) {
	faults, err := parse(clamp)
	if err != nil {
		t.Fatal(err)
	}
	for _, names := range [][]string{nil, {"clamp-at-the-limit"}} {
		if got, err := choose(faults, names); err != nil || len(got) != 1 {
			t.Errorf("choose %q: %v, %v", names, got, err)
		}
	}
	if _, err := choose(faults, []string{"unlisted"}); err == nil {
		t.Error("a name that is not listed was accepted")
	}
	if _, err := choose(nil, nil); err == nil {
		t.Error("an empty list was accepted")
	}
}

func TestCatcherNamesTheInnermostTest(t *testing.T) {
	for output, want := range map[string]string{
		"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/x (0.00s)\n        a_test.go:1: no\n--- FAIL: TestB (0.00s)\n": "TestA/x",
		"panic: test timed out after 3m0s\n": "time-out",
		"exit status 3\n":                    "crash of the test process",
	} {
		if got := catcher(output); got != want {
			t.Errorf("%q: got %q, want %q", output, got, want)
		}
	}
}
