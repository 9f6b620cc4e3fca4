package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const module = "github.com/mayflyhq/mayfly"

// event is a line of go test -json (go doc test2json).
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	Elapsed     float64
	FailedBuild string
}

// tests runs go test -json, prints a line per package and the output of what
// failed, and counts.
func tests(out io.Writer, cmd *exec.Cmd) suite {
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintf(out, "failed: %v\n", err)
		return suite{Result: failed, Failed: 1}
	}
	t := newTally(out)
	t.read(stdout)
	return t.end(cmd.Wait())
}

// tally counts the tests of one suite. Only the leaves count: a test that has
// subtests is counted by them, unless it fails although they all pass.
type tally struct {
	out  io.Writer
	pkgs map[string]*pkg
	suite
}

type pkg struct {
	began  processors
	tests  map[string]*test
	output []byte // that belongs to no test
	counts [3]int // passed, failed, skipped
}

type test struct {
	began       processors
	output      []byte
	hasSubtests bool
	failedBelow bool
	done        bool
}

func newTally(out io.Writer) *tally {
	return &tally{out: out, pkgs: map[string]*pkg{}, suite: suite{lost: map[string]*lost{}}}
}

// read takes events until the stream ends. Twice a minute it prints what is
// still running.
func (t *tally) read(stream io.Reader) {
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		in := bufio.NewReader(stream)
		for {
			line, err := in.ReadBytes('\n')
			if len(line) > 0 {
				lines <- line
			}
			if err != nil {
				return
			}
		}
	}()
	quiet := time.NewTicker(30 * time.Second)
	defer quiet.Stop()
	for {
		select {
		case line, more := <-lines:
			if !more {
				return
			}
			var e event
			if json.Unmarshal(line, &e) != nil {
				t.out.Write(line) // not an event: a message of the go command
				continue
			}
			t.add(e)
		case <-quiet.C:
			if running := t.running(); len(running) > 0 {
				fmt.Fprintf(t.out, "...   running: %s\n", strings.Join(running, ", "))
			}
		}
	}
}

func (t *tally) add(e event) {
	switch e.Action {
	case "build-output":
		fmt.Fprint(t.out, e.Output)
		return
	case "build-fail":
		return
	}
	p := t.pkgs[e.Package]
	if p == nil {
		p = &pkg{tests: map[string]*test{}, began: readProcessors()}
		t.pkgs[e.Package] = p
	}
	if e.Test == "" {
		t.addPackage(p, e)
		return
	}
	c := p.tests[e.Test]
	if c == nil {
		c = &test{began: readProcessors()}
		p.tests[e.Test] = c
	}
	switch e.Action {
	case "run":
		for parent := range p.parents(e.Test) {
			parent.hasSubtests = true
		}
	case "output":
		c.output = keepTail(c.output, e.Output)
	case "pass", "fail", "skip":
		t.addTest(p, c, e)
	}
}

// parents yields the tests that a subtest belongs to.
func (p *pkg) parents(name string) func(yield func(*test) bool) {
	return func(yield func(*test) bool) {
		for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name[:i], '/') {
			if c := p.tests[name[:i]]; c != nil && !yield(c) {
				return
			}
		}
	}
}

func (t *tally) addTest(p *pkg, c *test, e event) {
	c.done = true
	if !strings.Contains(e.Test, "/") {
		t.Slowest = slowest(append(t.Slowest, timing{Test: label(e.Package, e.Test), Seconds: e.Elapsed}))
	}
	switch {
	case e.Action == "pass" && !c.hasSubtests:
		p.counts[0]++
	case e.Action == "fail":
		for parent := range p.parents(e.Test) {
			parent.failedBelow = true
		}
		t.out.Write(c.output)
		if !c.failedBelow {
			t.fail(p, e.Package, e.Test)
		}
	case e.Action == "skip":
		p.counts[2]++
		t.Skips = append(t.Skips, label(e.Package, e.Test)+reason(c.output))
	}
	c.output = nil
}

// addPackage takes the output that belongs to no test, and the end of a package.
func (t *tally) addPackage(p *pkg, e event) {
	switch e.Action {
	case "output":
		p.output = keepTail(p.output, e.Output)
		return
	case "pass", "fail", "skip": // skip: a package without test files
	default:
		return
	}
	if e.Action == "fail" {
		t.failPackage(p, e)
	}
	delete(t.pkgs, e.Package)
	t.Passed += p.counts[0]
	t.Failed += p.counts[1]
	t.Skipped += p.counts[2]
	if e.Action == "skip" {
		return
	}
	word := map[string]string{"pass": "ok  ", "fail": "FAIL"}[e.Action]
	fmt.Fprintf(t.out, "%s  %-28s %6.1f s  %s\n", word, label(e.Package, ""), e.Elapsed, counts(p.counts[0], p.counts[1], p.counts[2]))
}

// failPackage reports why a package failed: a build failure, tests that did not
// end (time-out, crash), or else the package itself.
func (t *tally) failPackage(p *pkg, e event) {
	t.out.Write(p.output)
	if e.FailedBuild != "" {
		t.fail(p, e.Package, "(does not build)")
		t.lost[e.Package].final = true
		return
	}
	var unfinished []string
	for name, c := range p.tests {
		if !c.done && !c.hasSubtests {
			unfinished = append(unfinished, name)
		}
	}
	slices.Sort(unfinished)
	for _, name := range unfinished {
		t.out.Write(p.tests[name].output)
		t.fail(p, e.Package, name+" (did not finish)")
	}
	if p.counts[1] == 0 {
		t.fail(p, e.Package, "(failed outside of its tests)")
	}
}

// fail counts a failure. It may be lost by the test, or by the package if it is of none.
func (t *tally) fail(p *pkg, path, name string) {
	p.counts[1]++
	t.Failures = append(t.Failures, label(path, name))
	l := t.lost[path]
	if l == nil {
		l = &lost{}
		t.lost[path] = l
	}
	l.failures = append(l.failures, label(path, name))
	whole, _, _ := strings.Cut(name, "/")
	began := p.began
	if c := p.tests[whole]; c != nil {
		l.tests = once(l.tests, whole)
		began = c.began
	} else {
		l.whole = true
	}
	share := readProcessors().takenSince(began)
	l.taken = max(l.taken, share)
	l.final = l.final || share < taken
}

func (t *tally) running() []string {
	var names []string
	for path, p := range t.pkgs {
		if len(p.tests) > 0 {
			names = append(names, label(path, ""))
		}
	}
	slices.Sort(names)
	return names
}

// end closes the count with the exit of go test itself.
func (t *tally) end(err error) suite {
	s := t.suite
	if err != nil && s.Failed == 0 {
		s.Failed = 1
		s.Failures = append(s.Failures, fmt.Sprintf("go test (%v)", err))
	}
	if s.Passed+s.Failed+s.Skipped == 0 {
		s.Failed = 1
		s.Failures = append(s.Failures, "go test (ran no test)")
	}
	s.Result = passed
	if s.Failed > 0 {
		s.Result = failed
	}
	return s
}

// label shortens a package path to what follows the module: walk, store/storetest.
func label(path, name string) string {
	path = strings.TrimPrefix(path, strings.TrimSuffix(module, "mayfly"))
	path = strings.TrimPrefix(path, "mayfly/")
	return strings.TrimSpace(path + " " + name)
}

// reason returns why a test skipped itself: the last line of its output before
// the one that says SKIP.
func reason(output []byte) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	for _, line := range slices.Backward(lines) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "===") {
			return ": " + line
		}
	}
	return ""
}

// keepTail bounds the output kept of one test; the end is where the failure is.
func keepTail(have []byte, more string) []byte {
	const limit = 256 << 10
	have = append(have, more...)
	if len(have) > limit {
		have = append([]byte("[earlier output left out]\n"), have[len(have)-limit/2:]...)
	}
	return have
}
