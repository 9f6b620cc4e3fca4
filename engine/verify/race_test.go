//go:build race

package verify_test

// This file makes `make test` run the tests of this package under the race detector too.
