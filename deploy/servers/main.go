// Command servers is in charge of the real servers that the cluster suites talk
// to: Cassandra, Kafka, Redis and an S3 server, from pinned recipes, on loopback.
//
// What it starts it writes down in a state folder, and it stops exactly that: a
// process is signalled only if its number and the moment of its birth both
// match. It must never touch a server that it did not start.
//
// The environment to use goes to standard output, everything else to standard
// error, so that eval "$(go run ./deploy/servers up)" works.
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
	order, err := parse(args)
	if err != nil {
		return err
	}
	h, err := openHouse(order, out, progress)
	if err != nil {
		return err
	}
	switch order.verb {
	case "up":
		return h.up(ctx)
	case "down":
		return h.down(ctx)
	case "status":
		return h.status()
	case "env":
		return h.env()
	case "config":
		return h.config()
	case "kill":
		return h.kill(ctx)
	case "start":
		return h.start(ctx)
	case "fetch":
		return h.fetch(ctx)
	default:
		return h.need(ctx)
	}
}
