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
	"strings"
	"text/tabwriter"
	"time"
)

// run shows that each suite is green on the code as it is, then breaks the code
// fault by fault. It returns how many faults nobody noticed. An error means that
// the list or the code is not in order, so that nothing can be said.
func run(ctx context.Context, module string, faults []fault, out io.Writer) (survived int, err error) {
	if err := green(ctx, module, faults, out); err != nil {
		return 0, err
	}
	rows := make([][]string, 0, len(faults))
	for _, f := range faults {
		start := time.Now()
		where, caughtBy, err := try(ctx, module, f)
		if err != nil {
			return 0, fmt.Errorf("fault %s: %w", f.name, err)
		}
		took := time.Since(start).Seconds()
		if caughtBy == "" {
			survived++
			fmt.Fprintf(out, "SURVIVED  %s: %s\n", f.name, f.breaks)
			caughtBy = "SURVIVED"
		} else {
			fmt.Fprintf(out, "caught    %s\n", f.name)
		}
		rows = append(rows, []string{f.name, where, caughtBy, fmt.Sprintf("%.1f", took)})
	}
	fmt.Fprintln(out)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "fault\twhere\tcaught by\tseconds")
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	t.Flush()
	fmt.Fprintf(out, "\n%d passed, %d failed\n", len(faults)-survived, survived)
	return survived, nil
}

// green runs each distinct suite on the unbroken code: a test that is red anyway,
// or a pattern that matches none, would catch nothing.
func green(ctx context.Context, module string, faults []fault, out io.Writer) error {
	done := map[suite]bool{}
	for _, f := range faults {
		s := f.suite()
		if done[s] {
			continue
		}
		done[s] = true
		text, err := goTest(ctx, module, f.timeout, "-v", s.pkg, "-run", s.run)
		if err != nil {
			return fmt.Errorf("%s -run %s is red on the unbroken code:\n%s", s.pkg, s.run, text)
		}
		n := strings.Count(text, "\n--- PASS: ")
		if n == 0 {
			return fmt.Errorf("%s -run %s runs no test that passes:\n%s", s.pkg, s.run, text)
		}
		fmt.Fprintf(out, "green     %s -run %s: %d tests\n", s.pkg, s.run, n)
	}
	return nil
}

// try breaks the code and returns the test that noticed, or "".
func try(ctx context.Context, module string, f fault) (where, caughtBy string, err error) {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(dir)
	overlay, line, err := f.overlay(module, dir)
	if err != nil {
		return "", "", err
	}
	where = fmt.Sprintf("%s:%d", f.file, line)

	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-o", filepath.Join(dir, "built.test"), "-overlay", overlay, f.pkg)
	build.Dir = module
	if text, err := build.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("the broken code does not compile:\n%s", text)
	}
	text, err := goTest(ctx, module, f.timeout, "-overlay", overlay, f.pkg, "-run", f.run)
	if err == nil {
		return where, "", nil
	}
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || ctx.Err() != nil {
		return "", "", errors.Join(err, ctx.Err())
	}
	return where, catcher(text), nil
}

// overlay writes the broken file and the page that tells the go command of it.
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

func goTest(ctx context.Context, module string, timeout time.Duration, args ...string) (string, error) {
	args = append([]string{"test", "-count=1", "-vet=off", "-timeout", timeout.String()}, args...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = module
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// catcher names the innermost of the tests that failed first, or how else the
// package came down.
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
