# `make` prints the targets: each line below that carries a ## comment.
.DEFAULT_GOAL := help
.PHONY: help demo run build test test-cluster quick lint fmt mutants bench bench-quick peers race soak soak-cluster clean

# Stamp the commit into the binary where git can tell it; build all the same where it cannot.
VCS := $(shell git rev-parse HEAD >/dev/null 2>&1 || echo -buildvcs=false)

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo: ## build, show the whole life of a few stories, pastes and keys, give a verdict
	@scripts/need
	@echo 'make demo: builds bin/mayfly (the first time: downloads Go modules and compiles them, a few minutes),'
	@echo '           then shows stories, pastes, keys and posts with lifetimes of seconds, in under a minute. It leaves nothing behind but bin/.'
	@$(MAKE) --no-print-directory build
	@bin/mayfly demo --once

run: ## build and serve, with no configuration; data in ./mayfly-data
	@scripts/need
	@echo 'make run: builds bin/mayfly (the first time: downloads Go modules and compiles them, a few minutes), then serves until Ctrl-C.'
	@$(MAKE) --no-print-directory build
	@bin/mayfly serve

build: ## build bin/mayfly (static, no C)
	CGO_ENABLED=0 go build $(VCS) -trimpath -o bin/mayfly ./cmd/mayfly

test: ## everything that must hold, with a closing table; installs what it needs
	@scripts/test

quick: ## the quick loop: every package, without the slow tests
	go test -short ./...

lint: ## formatting, vet, staticcheck
	@scripts/lint

fmt: ## rewrite the Go files in our formatting
	@"$$(scripts/tools)/gofumpt" -w .

test-cluster: ## of make test only the suites on real servers, which it downloads, starts and stops
	@scripts/test-cluster

mutants: ## break the code on purpose, line by line; a suite must notice each (test/mutants/faults.txt)
	go run ./test/mutants

peers: ## build the peers of make bench, PocketBase, Badger, PostgreSQL's handler and rustypaste, into bin/peers (versions: bench/peers)
	CGO_ENABLED=0 go -C bench/peers build $(VCS) -trimpath -o ../../bin/peers/ ./...
	@bench/peers/rustypaste bin/peers

bench: build ## all benchmarks at full size
	bin/mayfly bench all

bench-quick: build ## all benchmarks, small sizes, at most 40 s each
	bin/mayfly bench all --quick

race: ## every package in which goroutines meet, under the race detector; make test runs a share of them
	@scripts/test race

soak: ## the long forms of the tests: hours
	MAYFLY_LONG=1 go test -count=1 -timeout 6h ./...

soak-cluster: ## the long forms of the suites on real servers, on a Cassandra ring of three: hours
	@MAYFLY_LONG=1 scripts/test-cluster

clean: ## remove what was built here
	rm -rf bin
