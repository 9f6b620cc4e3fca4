// Command report is in charge of what `make test` prints: it runs one suite
// after another, shows their output in readable form, and ends with a closing
// table in which nothing that was skipped or not run goes unnamed.
//
//	report -dir D check  NAME COMMAND…   run a command; its exit code is the result
//	report -dir D tests  NAME go test -json …   run tests and count them
//	report -dir D absent NAME REASON     a suite that could not be run
//	report -dir D close                  the closing table; exit 1 unless all is well
//
// Each call is a process of its own; what they know of each other lies in D.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

func main() {
	dir := flag.String("dir", "", "folder that holds the results of this run")
	flag.Parse()
	if *dir == "" || flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: report -dir DIR check|tests|absent|close …")
		os.Exit(2)
	}
	ok, err := run(results(*dir), os.Stdout, flag.Arg(0), flag.Args()[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// run carries out one verb and says whether all was well.
func run(r results, out io.Writer, verb string, args []string) (bool, error) {
	switch {
	case verb == "close" && len(args) == 0:
		return closing(r, out, os.Getenv("CI") == "true")
	case verb == "absent" && len(args) == 2:
		return false, r.add(suite{Name: args[0], Result: notRun, Reason: args[1]})
	case verb == "check" && len(args) >= 2:
		return record(r, out, args[0], args[1:], check)
	case verb == "tests" && len(args) >= 2:
		return record(r, out, args[0], args[1:], tests)
	}
	return false, fmt.Errorf("%s %q: no such verb, or not its arguments", verb, args)
}

// record runs a suite between a headline and a line in the results.
func record(r results, out io.Writer, name string, command []string, how func(io.Writer, *exec.Cmd) suite) (bool, error) {
	fmt.Fprintf(out, "\n== %s\n", name)
	rows := r.rows(name)
	if err := os.MkdirAll(rows, 0o755); err != nil {
		return false, err
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "MAYFLY_REPORT="+rows)
	cmd.Stderr = out

	start := time.Now()
	s := how(out, cmd)
	s.Name, s.Seconds = name, time.Since(start).Seconds()
	return s.Result == passed, r.add(s)
}

// check runs a command whose exit code says it all. It counts as one test.
func check(out io.Writer, cmd *exec.Cmd) suite {
	cmd.Stdout = out
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(out, "failed: %v\n", err)
		return suite{Result: failed, Failed: 1}
	}
	return suite{Result: passed, Passed: 1}
}

// results is the folder that holds what a run has found so far.
type results string

func (r results) suites() string           { return filepath.Join(string(r), "suites.json") }
func (r results) rows(suite string) string { return filepath.Join(string(r), "rows", suite) }
