// Command servers downloads, starts and stops the real servers that the cluster test
// suites use: Cassandra, Kafka, Redis and an S3 server, in pinned versions, on loopback.
//
// It records the processes that it starts in a state folder and stops exactly those: a
// process is signalled only if its ID and its start time both match. It must never
// touch a server that it did not start.
//
// The environment variables for the tests go to standard output, everything else to
// standard error, so that eval "$(go run ./deploy/servers up)" works.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil:
	case errors.Is(err, errHelp):
		fmt.Print(usage)
	default:
		fmt.Fprintln(os.Stderr, "servers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	options, err := parse(args)
	if err != nil {
		return err
	}
	r, err := newRunner(options, out, progress)
	if err != nil {
		return err
	}
	switch options.verb {
	case "up":
		return r.up(ctx)
	case "down":
		return r.down(ctx)
	case "status":
		return r.status()
	case "env":
		return r.env()
	case "config":
		return r.config()
	case "kill":
		return r.kill(ctx)
	case "start":
		return r.start(ctx)
	case "fetch":
		return r.fetch(ctx)
	default:
		return r.need(ctx)
	}
}
