// Command mayfly is the one binary: a backend for content with a lifetime.
package main

import (
	"os"

	"github.com/mayflyhq/mayfly/app/cli"
)

func main() { os.Exit(cli.Run(os.Args[1:], os.Stdout, os.Stderr)) }
