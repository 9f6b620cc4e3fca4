package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

const (
	passed = "passed"
	failed = "failed"
	notRun = "not run"
)

// suite is one row of the closing table.
type suite struct {
	Name    string
	Result  string
	Reason  string // why it was not run
	Seconds float64

	Passed, Failed, Skipped int

	Failures []string // tests by name
	Again    []string // tests that failed while processors were taken, and passed by themselves
	Skips    []string
	Slowest  []timing // the ten tests that took longest, the longest first

	lost map[string]*lost // by package
}

// timing is how long a test took.
type timing struct {
	Test    string
	Seconds float64
	Suite   string `json:",omitempty"` // set when suites are compared
}

// slowest returns the ten longest of some timings, the longest first.
func slowest(all []timing) []timing {
	slices.SortStableFunc(all, func(a, b timing) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return all[:min(len(all), 10)]
}

func (r results) add(s suite) error {
	f, err := os.OpenFile(r.suites(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(f).Encode(s), f.Close())
}

func (r results) all() ([]suite, error) {
	f, err := os.Open(r.suites())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []suite
	for in := json.NewDecoder(f); ; {
		var s suite
		if err := in.Decode(&s); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", r.suites(), err)
		}
		all = append(all, s)
	}
}
