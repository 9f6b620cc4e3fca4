// Command mutants shows that the tests notice faults: it breaks the code one
// listed line at a time and wants a test to fail.
//
//	go run ./test/mutants [-workers N] [NAME…]
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
	survived, err := run(ctx, ".", faults, max(*workers, 1), os.Stdout)
	if err != nil {
		fail(err)
	}
	if survived > 0 {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "mutants:", err)
	os.Exit(2)
}
