package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// told is what the tests wrote of themselves into the folder MAYFLY_REPORT, in
// files called *.tsv:
//
//	conformance  DRIVER  CASE    pass|fail
//	proof        NAME    FIGURE  VALUE
//
// A case is written contract/case (ledger/insert is idempotent). A driver that
// was held to one case of a contract must have been held to all of them.
type told struct {
	suites  []string // those that wrote proofs, in order
	drivers []string
	cases   []string
	verdict map[[2]string]string // driver, case
	figures [][2]string          // name, figure, in the order told
	value   map[[3]string]string // suite, name, figure
	wrong   []string
}

func readRows(r results, suites []suite) (*told, error) {
	t := &told{verdict: map[[2]string]string{}, value: map[[3]string]string{}}
	for _, s := range suites {
		files, err := filepath.Glob(filepath.Join(r.rows(s.Name), "*.tsv"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			for line := range strings.Lines(string(text)) {
				t.add(s.Name, strings.TrimRight(line, "\r\n"))
			}
		}
	}
	slices.Sort(t.drivers)
	slices.SortStableFunc(t.cases, func(a, b string) int { return strings.Compare(contract(a), contract(b)) })
	return t, nil
}

func (t *told) add(suite, line string) {
	if line == "" {
		return
	}
	f := strings.Split(line, "\t")
	switch {
	case len(f) == 4 && f[0] == "conformance" && contract(f[2]) != "" && (f[3] == "pass" || f[3] == "fail"):
		t.drivers = once(t.drivers, f[1])
		t.cases = once(t.cases, f[2])
		if f[3] == "fail" {
			t.wrong = once(t.wrong, fmt.Sprintf("%s does not conform: %s", f[1], f[2]))
		}
		if at := [2]string{f[1], f[2]}; t.verdict[at] != "fail" { // a failure in one suite stands
			t.verdict[at] = f[3]
		}
	case len(f) == 4 && f[0] == "proof":
		t.suites = once(t.suites, suite)
		t.figures = once(t.figures, [2]string{f[1], f[2]})
		t.value[[3]string{suite, f[1], f[2]}] = f[3]
	default:
		t.wrong = append(t.wrong, fmt.Sprintf("a row of suite %s is not understood: %q", suite, line))
	}
}

// printConformance prints a matrix for each contract: its cases down, the
// drivers that were held to it across.
func (t *told) printConformance(out io.Writer) {
	for cases := t.cases; len(cases) > 0; {
		n := slices.IndexFunc(cases, func(c string) bool { return contract(c) != contract(cases[0]) })
		if n < 0 {
			n = len(cases)
		}
		t.printContract(out, cases[:n])
		cases = cases[n:]
	}
}

func (t *told) printContract(out io.Writer, cases []string) {
	drivers := slices.DeleteFunc(slices.Clone(t.drivers), func(d string) bool {
		return !slices.ContainsFunc(cases, func(c string) bool { return t.verdict[[2]string{d, c}] != "" })
	})
	fmt.Fprintln(out)
	w := table(out)
	fmt.Fprintf(w, "conformance: %s\t%s\n", contract(cases[0]), strings.Join(drivers, "\t"))
	for _, c := range cases {
		fmt.Fprintf(w, "  %s", strings.TrimPrefix(c, contract(c)+"/"))
		for _, d := range drivers {
			verdict := t.verdict[[2]string{d, c}]
			if verdict == "" { // held to this contract, but not to all of it
				verdict = "NOT RUN"
				t.wrong = append(t.wrong, fmt.Sprintf("%s was not held to %s", d, c))
			}
			fmt.Fprintf(w, "\t%s", verdict)
		}
		fmt.Fprintln(w)
	}
	w.Flush()
}

func (t *told) printProofs(out io.Writer) {
	if len(t.figures) == 0 {
		return
	}
	fmt.Fprintln(out)
	w := table(out)
	fmt.Fprintf(w, "proof\tfigure\t%s\n", strings.Join(t.suites, "\t"))
	for _, f := range t.figures {
		fmt.Fprintf(w, "%s\t%s", f[0], f[1])
		for _, suite := range t.suites {
			fmt.Fprintf(w, "\t%s", t.value[[3]string{suite, f[0], f[1]}])
		}
		fmt.Fprintln(w)
	}
	w.Flush()
}

// contract is what stands before the first slash of a case; every case has one.
func contract(c string) string {
	before, _, found := strings.Cut(c, "/")
	if !found {
		return ""
	}
	return before
}

func once[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}
