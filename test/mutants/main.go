// Command mutants is in charge of showing that the suites would notice: it
// breaks the code one listed line at a time and demands that a test turns red.
//
//	go run ./test/mutants [NAME…]
//
// The checkout is never touched: the broken file lies in a temporary folder and
// the go command is told to read it instead (-overlay).
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
	survived, err := run(ctx, ".", faults, os.Stdout)
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
