# PKG selects packages: make test PKG=./sse/...
PKG      := ./...
BENCH    ?= .
COUNT    ?= 1
FUZZTIME ?= 30s
SOAKTIME ?= 5m

SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS   += --no-print-directory
TOOL        := go tool -modfile=tools/go.mod

# Released binaries are static, so everything is built without cgo; only the race detector needs it.
# A go.work in a parent directory and the commit id must not change a result.
export CGO_ENABLED := 0
export GOWORK      := off
export GOFLAGS     += -buildvcs=false

# The race detector does not observe the memory of C code that was translated to Go, which is
# outside of the Go heap; esbuild shares only strings, argon2 nothing. Instrumented, these packages
# only take five times as long to compile and run. The last pattern that matches a package has its
# flags.
# Packages that use generic types of sync must not be listed: the linker may choose their copy of a
# method, which the race detector then does not observe.
NORACE  := modernc.org/libc/... modernc.org/memory modernc.org/sqlite/lib modernc.org/libquickjs/... \
	github.com/evanw/esbuild/... golang.org/x/crypto/argon2 golang.org/x/crypto/blake2b
NODWARF := -dwarf=false
RACE    := -race '-gcflags=all=$(NODWARF)' -ldflags=-w $(foreach p,$(NORACE),'-gcflags=$(p)=$(NODWARF) -race=false')

# These packages start no goroutine: their tests, which take the processor for long, run without the
# race detector.
SERIAL := runtime/agent runtime/permission runtime/wire runtime/skill/archive hub/catalog/archive
MODULE := $(shell sed -n 's/^module //p' go.mod)
empty  :=
IS_SERIAL := ^$(MODULE)/($(subst $(empty) $(empty),|,$(SERIAL)))$$

.DEFAULT_GOAL := help
.PHONY: help setup test lint bench fuzz interop soak build

help: ## list the targets
	@sed -nE 's/^([a-z]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 8

setup: ## install the dependencies of the tests (as root on Debian; part of make test)
	@tools/setup

# Vet compiles what the tests link: without the flags of the race detector, each dependency would be
# compiled twice. That the rest builds without cgo is checked by its list of files.
test: setup ## format, go.mod, vet, and all tests, with the race detector; a skipped test fails
	@unformatted=$$("$$(go env GOROOT)/bin/gofmt" -l .); \
	if [ -n "$$unformatted" ]; then printf 'not as gofmt writes it:\n%s\n' "$$unformatted" >&2; exit 1; fi
	@tools/tidycheck
	@go list -deps $(PKG) >/dev/null
	@CGO_ENABLED=1 go vet $(RACE) $(PKG)
	@cd tools/interop && CGO_ENABLED=1 go vet $(RACE) ./...
	@# One package more than cores, because many tests wait for PostgreSQL or the disk.
	@serial=$$(go list $(PKG) | grep -E '$(IS_SERIAL)' || true); raced=$$(go list $(PKG) | grep -vE '$(IS_SERIAL)' || true); \
	{ [ -z "$$serial" ] || go test -shuffle=on -timeout=20m -vet=off -json $$serial; \
	[ -z "$$raced" ] || CGO_ENABLED=1 go test $(RACE) -p=$$(($$(nproc) + 1)) -shuffle=on -timeout=20m -vet=off -json $$raced; } | go run ./internal/testgate

lint: ## golangci-lint, and govulncheck if its database is available
	@$(TOOL) golangci-lint run $(PKG)
	@tools/vulncheck

# Packages run one after another. The machine is printed first, because results depend on it.
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

# Prints the programs with their versions, and every test.
interop: ## run the runtime and the hub with third-party MCP servers, upstreams, clients and proxies (npm, Debian)
	@tools/interop/setup
	@cd tools/interop && go test -count=1 -timeout=5m -v ./... | grep -v '^=== '

# All attacks run at the same time, each on its own server.
soak: ## attack the servers for SOAKTIME (5m) at a low rate (Linux, PostgreSQL); prints memory and latencies
	@cd tools/soak && SOAKTIME=$(SOAKTIME) go test -count=1 -parallel 16 -timeout 1h

# If git is available, the version in a binary is the commit.
build: ## static binaries of the commands in bin/
	@if git rev-parse HEAD >/dev/null 2>&1; then export GOFLAGS="$$GOFLAGS -buildvcs=true"; fi; \
	mkdir -p bin && go build -trimpath -ldflags '-s -w' -o bin/ ./cmd/...
