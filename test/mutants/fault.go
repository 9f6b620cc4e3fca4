package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// fault is one line of code, what to write in its place, and the tests that must
// fail then.
type fault struct {
	name    string
	file    string // relative to the module
	after   string // optional: the line that find is sought behind
	find    string // the line, without the white space around it
	replace string // empty: the line is taken out
	breaks  string // the requirement, and what goes wrong
	pkg     string // where the tests are
	run     string // which ones, as -run takes it
	timeout time.Duration
}

// parse reads a list of faults: paragraphs of "key: value" lines. A line that
// begins with # is a comment.
func parse(text string) ([]fault, error) {
	var faults []fault
	var seen []string // the keys of the paragraph so far
	for n, line := range strings.Split(text+"\n", "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		if line == "" {
			if err := complete(faults, seen); err != nil {
				return nil, err
			}
			seen = nil
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("line %d: not a key and a value: %q", n+1, line)
		}
		if slices.Contains(seen, key) {
			return nil, fmt.Errorf("line %d: a second %q in one fault", n+1, key)
		}
		if len(seen) == 0 {
			faults = append(faults, fault{timeout: 3 * time.Minute})
		}
		seen = append(seen, key)
		if err := faults[len(faults)-1].set(key, strings.TrimSpace(value)); err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
	}
	for i, f := range faults {
		if slices.ContainsFunc(faults[:i], func(g fault) bool { return g.name == f.name }) {
			return nil, fmt.Errorf("two faults are called %q", f.name)
		}
	}
	return faults, nil
}

func (f *fault) set(key, value string) error {
	switch key {
	case "fault":
		f.name = value
	case "file":
		f.file = value
	case "after":
		f.after = value
	case "find":
		f.find = value
	case "replace":
		f.replace = value
	case "breaks":
		f.breaks = value
	case "test":
		f.pkg = value
	case "run":
		f.run = value
	case "timeout":
		d, err := time.ParseDuration(value)
		f.timeout = d
		return err
	default:
		return fmt.Errorf("unknown key %q", key)
	}
	return nil
}

// complete checks the paragraph that has just ended.
func complete(faults []fault, seen []string) error {
	if len(seen) == 0 {
		return nil
	}
	f := faults[len(faults)-1]
	for key, value := range map[string]string{
		"fault": f.name, "file": f.file, "find": f.find, "breaks": f.breaks, "test": f.pkg, "run": f.run,
	} {
		if value == "" {
			return fmt.Errorf("fault %q has no %q", f.name, key)
		}
	}
	if !slices.Contains(seen, "replace") {
		return fmt.Errorf(`fault %q has no "replace" (leave it empty to take the line out)`, f.name)
	}
	if f.find == f.replace {
		return fmt.Errorf("fault %q replaces a line by itself", f.name)
	}
	return nil
}

// choose picks the named faults, or all.
func choose(faults []fault, names []string) ([]fault, error) {
	if len(names) == 0 {
		names = make([]string, len(faults))
		for i, f := range faults {
			names[i] = f.name
		}
	}
	var chosen []fault
	for _, name := range names {
		i := slices.IndexFunc(faults, func(f fault) bool { return f.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no fault is called %q", name)
		}
		chosen = append(chosen, faults[i])
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no fault is listed")
	}
	return chosen, nil
}

// apply returns the broken source and the number of the broken line. The line
// must occur once in the file; with after it is the first one behind the only line
// that reads so.
func (f fault) apply(source string) (string, int, error) {
	lines := strings.Split(source, "\n")
	at, err := f.line(lines)
	if err != nil {
		return "", 0, err
	}
	lines[at] = f.replace
	return strings.Join(lines, "\n"), at + 1, nil
}

func (f fault) line(lines []string) (int, error) {
	if f.after == "" {
		return only(lines, f.find)
	}
	after, err := only(lines, f.after)
	if err != nil {
		return 0, err
	}
	for i := after + 1; i < len(lines); i++ {
		if strings.TrimSpace(lines[i]) == f.find {
			return i, nil
		}
	}
	return 0, fmt.Errorf("no line reads %q behind %q", f.find, f.after)
}

// only finds the one line that reads as wanted.
func only(lines []string, want string) (int, error) {
	at, n := -1, 0
	for i, line := range lines {
		if strings.TrimSpace(line) == want {
			at, n = i, n+1
		}
	}
	if n != 1 {
		return 0, fmt.Errorf("%d lines read %q, want exactly one", n, want)
	}
	return at, nil
}
