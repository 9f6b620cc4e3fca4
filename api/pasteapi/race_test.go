//go:build race

package pasteapi

// This file makes `make test` run the tests of this package under the race detector too.
