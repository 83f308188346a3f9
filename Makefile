# PKG narrows what a target looks at: make test PKG=./sse/...
PKG      := ./...
BENCH    ?= .
COUNT    ?= 1
FUZZTIME ?= 30s

SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS   += --no-print-directory
TOOL        := go tool -modfile=tools/go.mod

# One static binary for each command is what is shipped, so that is what is built and checked; the race detector alone
# needs cgo. A go.work above this folder, or one commit id more or less in a binary, must not change a result.
export CGO_ENABLED := 0
export GOWORK      := off
export GOFLAGS     += -buildvcs=false

.DEFAULT_GOAL := help
.PHONY: help setup test lint bench fuzz build

help: ## list the targets
	@sed -nE 's/^([a-z]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 8

setup: ## install what the tests need beside Go (as root on Debian; part of make test)
	@tools/setup

test: setup ## format, go.mod, vet, build, and all tests under the race detector; a skipped test fails
	@unformatted=$$("$$(go env GOROOT)/bin/gofmt" -l .); \
	if [ -n "$$unformatted" ]; then printf 'not as gofmt writes it:\n%s\n' "$$unformatted" >&2; exit 1; fi
	@tools/tidycheck
	@go vet $(PKG)
	@go build $(PKG)
	@CGO_ENABLED=1 go test -race -shuffle=on -timeout=10m -vet=off -json $(PKG) | go run ./internal/testgate

lint: ## golangci-lint, and govulncheck where its database can be reached
	@$(TOOL) golangci-lint run $(PKG)
	@tools/vulncheck

# Benchmarks of packages run one after another, and the machine is told first: figures without it mean nothing.
bench: ## all benchmarks; COUNT=10 for benchstat, BENCH=regexp and PKG=./sse/... to choose
	@tools/machine
	@go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(PKG) | sed -e '/no test files/d' -e '/^PASS$$/d'
	@if [ -f tools/compare/go.mod ]; then cd tools/compare && \
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) ./...; fi

fuzz: ## every fuzz target for FUZZTIME (30s), one after another
	@go list -f '{{.ImportPath}} {{.Dir}}' $(PKG) | while read -r pkg dir; do \
		for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' "$$dir"/*_test.go 2>/dev/null | sort); do \
			echo "$$pkg $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$pkg" < /dev/null; \
		done; \
	done

# The version in a binary is the commit's, where git can tell it.
build: ## static binaries of the commands in bin/
	@if git rev-parse HEAD >/dev/null 2>&1; then export GOFLAGS="$$GOFLAGS -buildvcs=true"; fi; \
	mkdir -p bin && go build -trimpath -ldflags '-s -w' -o bin/ ./cmd/...
