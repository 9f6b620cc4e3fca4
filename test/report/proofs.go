package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// rows is what the tests wrote into the folder MAYFLY_REPORT, in files called *.tsv:
//
//	conformance  DRIVER  CASE    pass|fail
//	proof        NAME    FIGURE  VALUE
//
// A case is written contract/case (ledger/insert is idempotent). A driver that
// ran one case of a contract must have run all of them.
type rows struct {
	drivers []string
	cases   []string
	verdict map[[2]string]string // driver, case
	proofs  []string             // names in the order in which they were written
	figures map[string][]figure  // by the name of the proof
	wrong   []string
}

// figure is one figure of a proof with its values.
type figure struct {
	name   string
	values []value
}

// value is the value of a figure in one suite.
type value struct{ suite, text string }

func readRows(r results, suites []suite) (*rows, error) {
	t := &rows{verdict: map[[2]string]string{}, figures: map[string][]figure{}}
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

func (t *rows) add(suite, line string) {
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
		t.addFigure(f[1], f[2], value{suite, f[3]})
	default:
		t.wrong = append(t.wrong, fmt.Sprintf("suite %s wrote an unknown row: %q", suite, line))
	}
}

// printConformance prints a matrix for each contract: a line for each case, a
// column for each driver that ran the contract.
func (t *rows) printConformance(out io.Writer) {
	for cases := t.cases; len(cases) > 0; {
		n := slices.IndexFunc(cases, func(c string) bool { return contract(c) != contract(cases[0]) })
		if n < 0 {
			n = len(cases)
		}
		t.printContract(out, cases[:n])
		cases = cases[n:]
	}
}

func (t *rows) printContract(out io.Writer, cases []string) {
	drivers := slices.DeleteFunc(slices.Clone(t.drivers), func(d string) bool {
		return !slices.ContainsFunc(cases, func(c string) bool { return t.verdict[[2]string{d, c}] != "" })
	})
	fmt.Fprintln(out)
	w := table(out)
	fmt.Fprintf(w, "conformance: %s\t%s\n", contract(cases[0]), strings.Join(drivers, "\t"))
	for _, c := range cases {
		fmt.Fprintf(w, "  %s", shorten(strings.TrimPrefix(c, contract(c)+"/"), 60))
		for _, d := range drivers {
			verdict := t.verdict[[2]string{d, c}]
			if verdict == "" { // it ran this contract, but not all of it
				verdict = "NOT RUN"
				t.wrong = append(t.wrong, fmt.Sprintf("%s did not run %s", d, c))
			}
			fmt.Fprintf(w, "\t%s", verdict)
		}
		fmt.Fprintln(w)
	}
	w.Flush()
}

func (t *rows) addFigure(proof, name string, v value) {
	t.proofs = once(t.proofs, proof)
	figures := t.figures[proof]
	i := slices.IndexFunc(figures, func(f figure) bool { return f.name == name })
	if i < 0 {
		i, figures = len(figures), append(figures, figure{name: name})
	}
	same := slices.IndexFunc(figures[i].values, func(o value) bool { return o.suite == v.suite })
	if same >= 0 { // written twice: the last one stands
		figures[i].values[same] = v
	} else {
		figures[i].values = append(figures[i].values, v)
	}
	t.figures[proof] = figures
}

// printProofs prints a paragraph for each proof: its figures, with the suites in
// brackets where more than one has run it.
func (t *rows) printProofs(out io.Writer) {
	for _, proof := range t.proofs {
		var suites []string
		for _, f := range t.figures[proof] {
			for _, v := range f.values {
				suites = once(suites, v.suite)
			}
		}
		fmt.Fprintln(out, "\n"+wrap(fmt.Sprintf("proof: %s (%s)", proof, strings.Join(suites, ", ")), "      "))
		for _, f := range t.figures[proof] {
			var values []string
			for _, v := range f.values {
				if len(suites) > 1 {
					v.text += " [" + v.suite + "]"
				}
				values = append(values, v.text)
			}
			fmt.Fprintln(out, wrap("  "+f.name+": "+strings.Join(values, "; "), "      "))
		}
	}
}

// wrap breaks a text into lines of the page's width; the later ones are indented.
func wrap(text, indent string) string {
	var b strings.Builder
	for {
		r := []rune(text)
		if len(r) <= width {
			b.WriteString(text)
			return b.String()
		}
		at := width
		for at > len(indent) && r[at] != ' ' {
			at--
		}
		if at == len(indent) {
			at = width // one long word
		}
		b.WriteString(strings.TrimRight(string(r[:at]), " ") + "\n")
		text = indent + strings.TrimLeft(string(r[at:]), " ")
	}
}

// contract returns the part of a case before the first slash, which every case has.
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
