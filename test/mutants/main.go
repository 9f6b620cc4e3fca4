// Command mutants shows that the tests notice faults: it breaks the code one
// listed line at a time and wants a test to fail.
//
//	go run ./test/mutants [-workers N] [-since COMMIT] [-within D] [NAME…]
//
// With -since the faults whose file or tests have changed since a commit come
// first, and the others follow in an order that differs from commit to commit; with
// -within it ends after that time. Together they are what `make test` runs.
//
// It never changes the checkout: the broken file is in a temporary folder, and
// the go command reads it in place of the real one (-overlay). The tests of a
// fault are compiled once and run as narrowly as the fault says.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	list := flag.String("list", "test/mutants/faults.txt", "the list of faults")
	workers := flag.Int("workers", 2, "how many faults are tried at a time")
	since := flag.String("since", "", "try first what has changed since this commit")
	within := flag.Duration("within", 0, "begin no fault after this time; 0 is no limit")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	text, err := os.ReadFile(*list)
	if err != nil {
		fail(err)
	}
	faults, err := parse(string(text))
	if err == nil {
		faults, err = choose(faults, flag.Args())
	}
	if err != nil {
		fail(fmt.Errorf("%s: %w", *list, err))
	}
	if *since != "" {
		if faults, err = order(ctx, ".", faults, *since); err != nil {
			fail(err)
		}
	}
	failed, err := run(ctx, ".", faults, max(*workers, 1), *within, os.Stdout)
	if err != nil {
		fail(err)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "mutants:", err)
	os.Exit(2)
}
