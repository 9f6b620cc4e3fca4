package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// run breaks the code fault by fault, with so many workers at a time, and shows
// before each that its tests pass on the code as it is. It begins no fault after
// within; 0 is no limit. It returns how many faults no test noticed or could not be
// tried, because the list or the code is not in order.
func run(ctx context.Context, module string, faults []fault, workers int, within time.Duration, out io.Writer) (failed int, err error) {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	begin, suites := time.Now(), newSuites(module, dir)
	rows := make([][]string, len(faults))
	var mu sync.Mutex // of out and failed
	err = each(ctx, workers, len(faults), func(ctx context.Context, n int) error {
		f, start := faults[n], time.Now()
		if within > 0 && start.Sub(begin) >= within {
			return nil
		}
		err := suites.pass(ctx, f)
		var where, caughtBy string
		if err == nil {
			where, caughtBy, err = try(ctx, module, filepath.Join(dir, fmt.Sprint(n)), f)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		took := time.Since(start).Seconds()
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			failed++
			fmt.Fprintf(out, "NOT TRIED %s: %v\n", f.name, err)
			caughtBy = "NOT TRIED"
		case caughtBy == "":
			failed++
			fmt.Fprintf(out, "SURVIVED  %s: %s\n", f.name, f.breaks)
			caughtBy = "SURVIVED"
		default:
			fmt.Fprintf(out, "caught    %s\n", f.name)
		}
		rows[n] = []string{f.name, where, caughtBy, fmt.Sprintf("%.1f", took)}
		return nil
	})
	if err != nil {
		return 0, err
	}
	tried := slices.DeleteFunc(rows, func(row []string) bool { return row == nil })
	fmt.Fprintln(out)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "fault\twhere\tcaught by\tseconds")
	for _, row := range tried {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	t.Flush()
	if rest := len(faults) - len(tried); rest > 0 {
		fmt.Fprintf(out, "\n%d of %d faults were tried within %s", len(tried), len(faults), within)
	}
	fmt.Fprintf(out, "\n%d passed, %d failed\n", len(tried)-failed, failed)
	return failed, nil
}

// each calls do for 0 to n-1, with so many workers at a time, until one fails.
func each(ctx context.Context, workers, n int, do func(ctx context.Context, n int) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	next := make(chan int)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					stop(err)
					return
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

// suites runs each distinct suite once on the unbroken code: a test that fails
// anyway, or a pattern that matches none, would catch nothing.
type suites struct {
	module, dir string
	mu          sync.Mutex
	seen        map[string]*suite // by package, and by package and pattern
}

// suite is something that is done once.
type suite struct {
	once sync.Once
	err  error
}

func newSuites(module, dir string) *suites {
	return &suites{module: module, dir: dir, seen: map[string]*suite{}}
}

func (s *suites) once(name string, do func() error) error {
	s.mu.Lock()
	known := s.seen[name]
	if known == nil {
		known = &suite{}
		s.seen[name] = known
	}
	s.mu.Unlock()
	known.once.Do(func() { known.err = do() })
	return known.err
}

// pass returns an error unless the tests of f pass.
func (s *suites) pass(ctx context.Context, f fault) error {
	binary := filepath.Join(s.dir, "unbroken-"+strings.ReplaceAll(f.pkg, "/", "-")+".test")
	err := s.once(f.pkg, func() error {
		if text, err := build(ctx, s.module, binary, f.pkg); err != nil {
			return fmt.Errorf("the tests of %s do not compile:\n%s", f.pkg, text)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.once(f.pkg+" "+f.run, func() error {
		text, err := test(ctx, s.module, binary, f, "-test.v")
		if err != nil {
			return fmt.Errorf("%s -run %s fails on the unbroken code:\n%s", f.pkg, f.run, text)
		}
		for line := range strings.Lines(text) {
			name, passed := strings.CutPrefix(strings.TrimSpace(line), "--- PASS: ")
			if passed && strings.Count(name, "/") >= strings.Count(f.run, "/") {
				return nil
			}
		}
		return fmt.Errorf("%s -run %s runs no test that passes:\n%s", f.pkg, f.run, text)
	})
}

// try breaks the code and returns the test that noticed, or "".
func try(ctx context.Context, module, dir string, f fault) (where, caughtBy string, err error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", "", err
	}
	defer os.RemoveAll(dir)
	overlay, line, err := f.overlay(module, dir)
	if err != nil {
		return "", "", err
	}
	where = fmt.Sprintf("%s:%d", f.file, line)
	binary := filepath.Join(dir, "broken.test")
	if text, err := build(ctx, module, binary, "-overlay", overlay, f.pkg); err != nil {
		return "", "", fmt.Errorf("the broken code does not compile:\n%s", text)
	}
	text, err := test(ctx, module, binary, f, "-test.failfast")
	if err == nil {
		return where, "", nil
	}
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || ctx.Err() != nil {
		return "", "", errors.Join(err, ctx.Err())
	}
	return where, catcher(text), nil
}

// overlay writes the broken file, and the file that makes the go command read it
// in place of the real one.
func (f fault) overlay(module, dir string) (path string, line int, err error) {
	file, err := filepath.Abs(filepath.Join(module, f.file))
	if err != nil {
		return "", 0, err
	}
	source, err := os.ReadFile(file)
	if err != nil {
		return "", 0, err
	}
	broken, line, err := f.apply(string(source))
	if err != nil {
		return "", 0, fmt.Errorf("%s: %w", f.file, err)
	}
	mutant := filepath.Join(dir, "mutant.go")
	page, err := json.Marshal(map[string]map[string]string{"Replace": {file: mutant}})
	if err != nil {
		return "", 0, err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, line, errors.Join(os.WriteFile(mutant, []byte(broken), 0o644), os.WriteFile(path, page, 0o644))
}

// build compiles the tests of a package, without what a debugger needs.
func build(ctx context.Context, module, binary string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary}, args...)...)
	cmd.Dir = module
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// test runs the tests that must notice a fault, in the folder of their package.
func test(ctx context.Context, module, binary string, f fault, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, binary, append([]string{"-test.run", f.run, "-test.timeout", f.timeout.String(), "-test.paniconexit0"}, args...)...)
	cmd.Dir = filepath.Join(module, f.pkg)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// catcher returns the innermost of the tests that failed first, or how else the
// test process failed.
func catcher(output string) string {
	name := ""
	for line := range strings.Lines(output) {
		rest, failed := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: ")
		if !failed {
			if name != "" {
				break
			}
			continue
		}
		name, _, _ = strings.Cut(rest, " ")
	}
	switch {
	case name != "":
		return name
	case strings.Contains(output, "panic: test timed out"):
		return "time-out"
	default:
		return "crash of the test process"
	}
}
