// Package cli implements the command line of mayfly: one file per verb, and one
// table of exit codes. It parses flags, calls other packages and prints their
// results; it contains no rules of its own.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
)

// Run executes one command line and returns its exit code.
func Run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // a second Ctrl-C exits immediately
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && !errors.Is(err, errWrong) {
		fmt.Fprintln(stderr, "mayfly:", message(err))
	}
	return exitCode(err)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "mayfly",
		Short: "A backend for content with a lifetime",
		Long: "Mayfly serves stories until their deadline, exact to the millisecond, and then keeps them for their author only.\n" +
			"It runs as one process with an embedded store, or as several nodes on Cassandra, Redis, Kafka and S3.",
		Example: "  mayfly serve                 run a server with its data in ./mayfly-data; it prints what to try next\n" +
			"  mayfly demo --once           follow a few stories through their life in seconds, and check the result\n" +
			"  mayfly config describe       print every setting with its meaning and default\n" +
			"  mayfly bench sweep           measure how fast items expire on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage(fmt.Errorf("%w\nSee '%s --help'", err, c.CommandPath()))
	})
	root.AddCommand(newServe(), newStory(), newToken(), newExplain(), newConfig(), newDemo(), newVerify(), newScrub(), newRestore(), newHold(), newRelease(), newDLQ(), newOrphans(), newAudit(), newReplay(), newBench(), newVersion())
	return root
}

// message formats err for users: what happened, without repetitions, and the hint
// on a separate line.
func message(err error) string {
	hint := hintOf(err)
	text := err.Error()
	if hint != "" {
		text = strings.ReplaceAll(text, " ("+hint+")", "")
	}
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		repeated := slices.ContainsFunc(lines, func(earlier string) bool { return strings.Contains(earlier, line) })
		if !repeated {
			lines = append(lines, line)
		}
	}
	if hint != "" {
		lines = append(lines, "  → "+hint)
	}
	return strings.Join(lines, "\n")
}

// hintOf returns the outermost hint in err.
func hintOf(err error) string {
	switch e := err.(type) {
	case nil:
		return ""
	case *mayfly.Error:
		if e.Hint != "" {
			return e.Hint
		}
		return hintOf(e.Err)
	case interface{ Unwrap() error }:
		return hintOf(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if hint := hintOf(one); hint != "" {
				return hint
			}
		}
	}
	return ""
}
