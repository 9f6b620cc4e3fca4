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
	"github.com/mayflyhq/mayfly/app/node"
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
	root.AddCommand(newServe(), newStory(), newPaste(), newKV(), newPost(), newHome(), newFollow(), newProfile(), newTray(), newFeed(), newToken(), newExplain(), newConfig(), newDemo(), newVerify(), newScrub(), newRestore(), newHold(), newRelease(), newHeld(), newDLQ(), newOrphans(), newPurges(), newAudit(), newReplay(), newBench(), newVersion())
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

// Exit codes. Scripts rely on them: the meaning of a number never changes.
const (
	exitOK          = 0
	exitWrong       = 1 // the verb found something wrong, or failed for another reason than those below
	exitUsage       = 2 // invalid command line or configuration
	exitConflict    = 3 // the data folder is in use or belongs to another program; or the item's state does not allow it
	exitFull        = 4 // the free-space floor is reached
	exitUnavailable = 5 // a store is unavailable, or the clock is unconfirmed
	exitCorrupt     = 6 // stored data is damaged
	exitDisk        = 7 // a write that must be durable failed: nothing more was acknowledged (I20)
	exitInterrupted = 130
)

// wrongError is the error of a verb that has already printed what is wrong.
type wrongError string

func (e wrongError) Error() string { return string(e) }

const errWrong wrongError = "the check failed"

type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usage(err error) error { return usageError{err} }

func exitCode(err error) int {
	var use usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &use), errors.Is(err, mayfly.Invalid):
		return exitUsage
	case node.DiskFailed(err):
		return exitDisk
	case errors.Is(err, mayfly.Conflict):
		return exitConflict
	case errors.Is(err, mayfly.Full):
		return exitFull
	case errors.Is(err, mayfly.Unavailable):
		return exitUnavailable
	case errors.Is(err, mayfly.Corrupt):
		return exitCorrupt
	default:
		return exitWrong
	}
}
