package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// closing prints the table of suites, everything that was not well by name, what
// the tests wrote of themselves, and the count. It says whether all is well; with
// strict, what was not run is not, nor what was skipped without an excuse.
func closing(r results, out io.Writer, strict bool) (bool, error) {
	suites, err := r.all()
	if err != nil {
		return false, err
	}
	told, err := readRows(r, suites)
	if err != nil {
		return false, err
	}
	told.printConformance(out)
	told.printProofs(out)
	printSuites(out, suites)

	var total suite
	var wrong []string
	strange := 0 // skips that have no excuse
	for _, s := range suites {
		total.Passed += s.Passed
		total.Failed += s.Failed
		total.Skipped += s.Skipped
		if s.Result == notRun {
			fmt.Fprintf(out, "not run: %s: %s\n", s.Name, s.Reason)
			if strict {
				wrong = append(wrong, s.Name+" was not run")
			}
		}
		for _, name := range s.Skips {
			fmt.Fprintf(out, "skipped: %s: %s\n", s.Name, name)
			if !excused(name) {
				strange++
			}
		}
		for _, name := range s.Failures {
			fmt.Fprintf(out, "failed: %s: %s\n", s.Name, name)
		}
	}
	if total.Failed > 0 {
		wrong = append(wrong, fmt.Sprintf("%d failed", total.Failed))
	}
	if strict && strange > 0 {
		wrong = append(wrong, fmt.Sprintf("%d skipped", strange))
	}
	wrong = append(wrong, told.wrong...)

	if len(wrong) > 0 {
		fmt.Fprintf(out, "\nNOT WELL: %s\n", strings.Join(wrong, "; "))
	} else {
		fmt.Fprintln(out, "\nall well")
	}
	fmt.Fprintln(out, counts(total.Passed, total.Failed, total.Skipped))
	return len(wrong) == 0, nil
}

// excused says of a skipped test that nothing is missing here: its reason names
// another system, or what to set for the long form.
func excused(skip string) bool {
	return strings.Contains(skip, ": another system: ") || strings.Contains(skip, "MAYFLY_LONG=1")
}

func printSuites(out io.Writer, suites []suite) {
	fmt.Fprintln(out)
	t := table(out)
	fmt.Fprintln(t, "suite\tresult\tseconds\ttests\tpassed\tfailed\tskipped")
	for _, s := range suites {
		fmt.Fprintf(t, "%s\t%s\t%.1f\t%d\t%d\t%d\t%d\n", s.Name, s.Result, s.Seconds,
			s.Passed+s.Failed+s.Skipped, s.Passed, s.Failed, s.Skipped)
	}
	t.Flush()
}

func table(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, 2, ' ', 0) }

func counts(passed, failed, skipped int) string {
	line := fmt.Sprintf("%d passed, %d failed", passed, failed)
	if skipped > 0 {
		line += fmt.Sprintf(", %d skipped", skipped)
	}
	return line
}
