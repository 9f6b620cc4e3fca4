//go:build race

package edge_test

// This file makes `make test` run the tests of this package under the race detector too.
