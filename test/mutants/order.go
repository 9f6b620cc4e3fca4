package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// order puts first the faults whose file or tests have changed since a commit, in
// the checkout or in a commit. Within both parts the order depends on the commit
// that is checked out, so that a run that has time for a share of them tries another
// share each time.
func order(ctx context.Context, module string, faults []fault, since string) ([]fault, error) {
	text, err := git(ctx, module, "diff", "--name-only", since)
	if err != nil {
		return nil, err
	}
	head, err := git(ctx, module, "rev-parse", "HEAD")
	if err != nil {
		return nil, err
	}
	files := strings.Split(text, "\n")
	ordered := slices.Clone(faults)
	slices.SortFunc(ordered, func(a, b fault) int {
		switch ca, cb := a.changed(files), b.changed(files); {
		case ca && !cb:
			return -1
		case cb && !ca:
			return 1
		default:
			return strings.Compare(a.turn(head), b.turn(head))
		}
	})
	return ordered, nil
}

// changed reports whether the fault's file or a test file of its package is one of files.
func (f fault) changed(files []string) bool {
	return slices.ContainsFunc(files, func(file string) bool {
		return file == f.file || path.Dir(file) == path.Clean(f.pkg) && strings.HasSuffix(file, "_test.go")
	})
}

// turn returns a text that orders the faults differently for each commit.
func (f fault) turn(head string) string {
	h := fnv.New64a()
	fmt.Fprint(h, f.name, " ", head)
	return fmt.Sprintf("%016x", h.Sum64())
}

func git(ctx context.Context, module string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = module
	text, err := cmd.Output()
	if exit, ok := err.(*exec.ExitError); ok {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	return string(text), err
}
