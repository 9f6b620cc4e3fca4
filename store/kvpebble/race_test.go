//go:build race

package kvpebble

// This file makes `make test` run the tests of this package under the race detector too.
