//go:build race

package profile

// This file makes `make test` run the tests of this package under the race detector too.
