// Command report runs the suites of `make test`, prints their output in readable
// form, and ends with a closing table that names everything that failed, was
// skipped or was not run.
//
//	report -dir D check  NAME COMMAND…          runs a command; its exit code is the result
//	report -dir D tests  NAME go test -json …   runs tests and counts them
//	report -dir D absent NAME REASON            records a suite that could not be run
//	report -dir D close                         prints the closing table; exit code 1 unless all is well
//
// A test that fails while the host of a virtual machine takes its processors away is run
// again by itself, and named (again.go).
//
// With -within a suite that takes longer is killed and has failed; with -whole its
// output is printed at its end, in one piece, for suites that run side by side.
// Each call is a process of its own; the results of a run are in D.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	dir := flag.String("dir", "", "folder that holds the results of this run")
	within := flag.Duration("within", time.Hour, "how long a suite may take")
	whole := flag.Bool("whole", false, "print the output of a suite at its end")
	flag.Parse()
	if *dir == "" || flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: report -dir DIR [-within DURATION] [-whole] check|tests|absent|close …")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	p := printer{out: os.Stdout, whole: *whole}
	ok, err := run(ctx, results(*dir), &p, *within, flag.Arg(0), flag.Args()[1:])
	p.flush()
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// printer passes output on, at once or as a whole when it is flushed.
type printer struct {
	out   io.Writer
	whole bool
	held  bytes.Buffer
}

func (p *printer) Write(b []byte) (int, error) {
	if p.whole {
		return p.held.Write(b)
	}
	return p.out.Write(b)
}

func (p *printer) flush() {
	_, _ = p.held.WriteTo(p.out)
}

// run carries out one verb and reports whether all was well.
func run(ctx context.Context, r results, out io.Writer, within time.Duration, verb string, args []string) (bool, error) {
	switch {
	case verb == "close" && len(args) == 0:
		return closing(r, out, os.Getenv("CI") == "true")
	case verb == "absent" && len(args) == 2:
		return false, r.add(suite{Name: args[0], Result: notRun, Reason: args[1]})
	case verb == "check" && len(args) >= 2:
		return record(ctx, r, out, within, args[0], args[1:], check)
	case verb == "tests" && len(args) >= 2:
		return record(ctx, r, out, within, args[0], args[1:], tests)
	}
	return false, fmt.Errorf("%s %q: unknown verb, or wrong arguments", verb, args)
}

// record runs a suite and adds it to the results.
func record(ctx context.Context, r results, out io.Writer, within time.Duration, name string, command []string, how func(io.Writer, *exec.Cmd) suite) (bool, error) {
	fmt.Fprintf(out, "\n== %s\n", name)
	rows := r.rows(name)
	if err := os.MkdirAll(rows, 0o755); err != nil {
		return false, err
	}
	start := time.Now()
	first, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	s := how(out, newCommand(first, out, rows, command))
	s.Name = name
	if err := first.Err(); err != nil {
		why := "interrupted"
		if errors.Is(err, context.DeadlineExceeded) {
			why = fmt.Sprintf("killed after %s", within)
		}
		s.Result, s.Failed, s.Failures = failed, s.Failed+1, append(s.Failures, why)
	} else if err := s.again(ctx, r, out, within, command); err != nil {
		return false, err
	}
	s.Seconds = time.Since(start).Seconds()
	return s.Result == passed, r.add(s)
}

// newCommand is a command that writes rows of the closing table into a folder.
func newCommand(ctx context.Context, out io.Writer, rows string, command []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "MAYFLY_REPORT="+rows)
	cmd.Stderr = out
	// A group of its own, so that the tests that go test has started end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// check runs a command whose exit code is the result. It counts as one test.
func check(out io.Writer, cmd *exec.Cmd) suite {
	cmd.Stdout = out
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(out, "failed: %v\n", err)
		return suite{Result: failed, Failed: 1}
	}
	return suite{Result: passed, Passed: 1}
}

// results is the folder that holds the results of a run so far.
type results string

func (r results) suites() string           { return filepath.Join(string(r), "suites.json") }
func (r results) rows(suite string) string { return filepath.Join(string(r), "rows", suite) }
