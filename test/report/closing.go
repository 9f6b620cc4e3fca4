package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// width is how wide the closing page may be.
const width = 120

// closing prints the conformance matrices, the proofs, the slowest tests, the table
// of suites, and by name everything that failed, was skipped or was not run. It
// reports whether all is well; with strict, a suite that was not run is not, nor a
// test that was skipped without an excuse.
func closing(r results, out io.Writer, strict bool) (bool, error) {
	suites, err := r.all()
	if err != nil {
		return false, err
	}
	reported, err := readRows(r, suites)
	if err != nil {
		return false, err
	}
	reported.printConformance(out)
	reported.printProofs(out)
	printSlowest(out, suites)
	printSuites(out, suites)

	var total suite
	var wrong []string
	unexcused := 0 // skips
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
				unexcused++
			}
		}
		for _, name := range s.Again {
			fmt.Fprintf(out, "again: %s: %s\n", s.Name, name)
		}
		for _, name := range s.Failures {
			fmt.Fprintf(out, "failed: %s: %s\n", s.Name, name)
		}
	}
	if total.Failed > 0 {
		wrong = append(wrong, fmt.Sprintf("%d failed", total.Failed))
	}
	if strict && unexcused > 0 {
		wrong = append(wrong, fmt.Sprintf("%d skipped", unexcused))
	}
	wrong = append(wrong, reported.wrong...)

	if len(wrong) > 0 {
		fmt.Fprintf(out, "\nNOT WELL: %s\n", strings.Join(wrong, "; "))
	} else {
		fmt.Fprintln(out, "\nall well")
	}
	fmt.Fprintln(out, counts(total.Passed, total.Failed, total.Skipped))
	return len(wrong) == 0, nil
}

// excused reports whether a test was skipped for a reason that no change of this
// machine could remove (another system), asks for the long form, or was run
// without the race detector.
func excused(skip string) bool {
	for _, excuse := range []string{": another system: ", "MAYFLY_LONG=1", ": too slow under the race detector: "} {
		if strings.Contains(skip, excuse) {
			return true
		}
	}
	return false
}

// printSlowest prints the ten tests of all suites that took longest.
func printSlowest(out io.Writer, suites []suite) {
	var all []timing
	for _, s := range suites {
		for _, t := range s.Slowest {
			t.Suite = s.Name
			all = append(all, t)
		}
	}
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(out)
	w := table(out)
	fmt.Fprintln(w, "slowest tests\tseconds\tsuite")
	for _, t := range slowest(all) {
		fmt.Fprintf(w, "  %s\t%.1f\t%s\n", shorten(t.Test, 85), t.Seconds, t.Suite)
	}
	w.Flush()
}

// shorten cuts a text to so many runes.
func shorten(text string, limit int) string {
	if r := []rune(text); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return text
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
