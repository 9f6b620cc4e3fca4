package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The host of a virtual machine may take its processors away, for seconds on end. A
// test that goes by the real clock and fails meanwhile says nothing about the code. It is
// run again, by itself, when the processors are back, and the closing page names it. On
// a machine from which nothing is taken, every failure stands.

const (
	// taken is the share of the processors' time that the host has for itself from
	// which on a failure is tried again.
	taken = 0.1
	// tries is how often a test is run again at most.
	tries = 2
	// patience is how long a test waits for the processors to be back.
	patience = 3 * time.Minute
)

// processors is the time that the processors have had since the start of the machine,
// in ticks, and how much of it the host took.
type processors struct{ stolen, all float64 }

// readProcessors reads /proc/stat; where there is none, nothing is taken.
var readProcessors = func() (p processors) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return p
	}
	return parseProcessors(string(text))
}

func parseProcessors(stat string) (p processors) {
	var user, nice, system, idle, wait, irq, soft float64
	n, err := fmt.Sscanf(stat, "cpu %f %f %f %f %f %f %f %f", &user, &nice, &system, &idle, &wait, &irq, &soft, &p.stolen)
	if err != nil || n < 8 {
		return processors{}
	}
	p.all = user + nice + system + idle + wait + irq + soft + p.stolen
	return p
}

// takenSince is the share that the host took between two readings. Time in which nothing
// was to be done counts as used.
func (p processors) takenSince(earlier processors) float64 {
	if p.all <= earlier.all {
		return 0
	}
	return (p.stolen - earlier.stolen) / (p.all - earlier.all)
}

// lost are the failures of a package that happened while processors were taken.
type lost struct {
	tests    []string // that failed, by the name of the whole test
	whole    bool     // some did not finish, and others may not have run: the package is run again
	failures []string // as the closing page has them
	taken    float64  // the largest share of the processors' time
	final    bool     // something failed that no second run can change
}

// arguments are those of go test for the tests of one package.
func (l *lost) arguments(command []string, path string) []string {
	args := slices.DeleteFunc(slices.Clone(command), func(arg string) bool {
		return strings.HasPrefix(arg, "./") || strings.HasPrefix(arg, module)
	})
	if !l.whole {
		names := slices.Clone(l.tests)
		for i, name := range names {
			names[i] = regexp.QuoteMeta(name)
		}
		args = append(args, "-run", "^("+strings.Join(names, "|")+")$")
	}
	return append(args, path)
}

// again runs what was lost once more, package by package, and takes failures back that
// did not happen again.
func (s *suite) again(ctx context.Context, r results, out io.Writer, within time.Duration, command []string) error {
	for path, l := range s.lost {
		if l.final || len(l.failures) == 0 {
			continue
		}
		if err := dropFailedCases(r.rows(s.Name)); err != nil {
			return err
		}
		for try := 1; try <= tries && ctx.Err() == nil; try++ {
			fmt.Fprintf(out, "...   again: %s, which failed while %.0f %% of the processors' time was taken\n", label(path, ""), 100*l.taken)
			awaitProcessors(ctx)
			within, cancel := context.WithTimeout(ctx, within)
			second := tests(out, newCommand(within, out, r.rows(s.Name), l.arguments(command, path)))
			cancel()
			if second.Failed == 0 {
				s.take(l)
				break
			}
			if n := second.lost[path]; n == nil || n.final {
				break // this time nothing was taken: it stands
			}
		}
	}
	if s.Failed == 0 {
		s.Result = passed
	}
	return nil
}

// take counts failures as passed and names them.
func (s *suite) take(l *lost) {
	s.Failed -= len(l.failures)
	s.Passed += len(l.failures)
	s.Failures = slices.DeleteFunc(s.Failures, func(f string) bool { return slices.Contains(l.failures, f) })
	for _, f := range l.failures {
		s.Again = append(s.Again, fmt.Sprintf("%s: failed while the host took %.0f %% of the processors' time, and passed by itself", f, 100*l.taken))
	}
}

// awaitProcessors waits until they are back, for as long as patience lasts.
func awaitProcessors(ctx context.Context) {
	const look = time.Second
	for until := time.Now().Add(patience); time.Now().Before(until); {
		before := readProcessors()
		select {
		case <-ctx.Done():
			return
		case <-time.After(look):
		}
		if readProcessors().takenSince(before) < taken {
			return
		}
	}
}

// dropFailedCases takes the conformance cases that failed out of the rows of a suite:
// their tests are run again.
func dropFailedCases(folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.tsv"))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var kept strings.Builder
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "conformance\t") || !strings.HasSuffix(strings.TrimSpace(line), "\tfail") {
				kept.WriteString(line)
			}
		}
		if err := os.WriteFile(file, []byte(kept.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
