# PKG selects packages: make test PKG=./sse/...
PKG      := ./...
BENCH    ?= .
COUNT    ?= 1
FUZZTIME ?= 30s
SOAKTIME ?= 5m
CHAOSTIME ?= 10m
RUN      ?= .

SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS   += --no-print-directory

# Released binaries are static, so everything is built without cgo; only the race detector needs it.
# A go.work in a parent directory and the commit id must not change a result.
export CGO_ENABLED := 0
export GOWORK      := off
export GOFLAGS     += -buildvcs=false

# A compiler and a linker that collect garbage less often take a sixth less processor time.
export GOFLAGS     += '-toolexec=env GOGC=400'

# With the race detector a test takes four times as long, and its dependencies are compiled again.
# make test uses it for the packages that own memory which goroutines share; the other packages call
# them, or share it in the database. make race uses it for all.
RACED := sse auditlog/memaudit hub/internal/api hub/internal/chat/... internal/db hub/internal/deployment hub/internal/gateway hub/internal/password \
	runtime runtime/client runtime/internal/engine runtime/model/internal/upstream runtime/run runtime/tool/mcp
MODULE   := $(shell sed -n 's/^module //p' go.mod)
empty    :=
anyOf     = ^$(MODULE)/($(subst /...,(/.*)?,$(subst $(empty) $(empty),|,$(strip $(1)))))$$
IS_RACED := $(call anyOf,$(RACED))

# The packages whose tests take longest start first. Otherwise, the last one runs while a processor
# is idle. The tests of s3blob compile a server of S3 if it is not in the cache.
SLOW    := hub cmd/hub hub/internal/console hub/blob/s3blob auditlog/sqlaudit cmd/runtime runtime/tool/js internal/sandbox filesafe hub/internal/session \
	hub/internal/deployment hub/internal/chat runtime/tool/mcp runtime runtime/internal/engine
IS_SLOW := $(call anyOf,$(SLOW))

# The race detector does not observe the memory of C code that was translated to Go, which is
# outside of the Go heap; esbuild shares only strings, argon2 nothing, and the last two only read
# the bytes of their caller. Instrumented, these packages only take five times as long to compile and
# run. The last pattern that matches a package has its flags.
# Packages that use generic types of sync must not be listed: the linker may choose their copy of a
# method, which the race detector then does not observe.
NORACE  := modernc.org/libc/... modernc.org/memory modernc.org/sqlite/lib modernc.org/libquickjs/... \
	github.com/evanw/esbuild/... golang.org/x/crypto/argon2 golang.org/x/crypto/blake2b \
	unicode/utf8 $(MODULE)/internal/jsonlimit
NODWARF := -dwarf=false

# Tests call little of these packages. Without inlining, their compilation takes two thirds of the
# time: that of the NATS server, which only tests import, 21 s instead of 32 s.
SELDOM  := github.com/nats-io/... github.com/aws/... github.com/chromedp/... github.com/getkin/... github.com/oasdiff/... \
	github.com/moby/... github.com/prometheus/... github.com/go-json-experiment/... google.golang.org/... golang.org/x/text/... \
	k8s.io/... sigs.k8s.io/...
CHEAP   := '-gcflags=all=$(NODWARF)' $(foreach p,$(SELDOM),'-gcflags=$(p)=$(NODWARF) -l')
RACE    := -race $(CHEAP) -ldflags=-w $(foreach p,$(NORACE),'-gcflags=$(p)=$(NODWARF) -race=false')
export GORACE := atexit_sleep_ms=0

# The same flags for both, and for the programs that tests build: what one has compiled, the other
# ones find in the cache.
test lint: export GOFLAGS += $(CHEAP)

.DEFAULT_GOAL := help
.PHONY: help setup test test-docker test-image test-deploy test-kubernetes race lint vulncheck bench fuzz interop soak chaos mutate build release

help: ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 8

setup: ## install the dependencies of the tests (as root on Debian; part of make test)
	@tools/setup

test: setup ## format, go.mod, and all tests, those of RACED with the race detector; a skipped test fails
	@unformatted=$$("$$(go env GOROOT)/bin/gofmt" -l .); \
	if [ -n "$$unformatted" ]; then printf 'not as gofmt writes it:\n%s\n' "$$unformatted" >&2; exit 1; fi
	@tools/tidycheck
	@# More packages than cores, because many tests wait for PostgreSQL, the disk or a process. The
	@# raced packages are compiled meanwhile.
	@packages=$$(go list $(PKG)); \
	packages=$$(grep -E '$(IS_SLOW)' <<<"$$packages" || true; grep -vE '$(IS_SLOW)' <<<"$$packages" || true); \
	raced=$$(grep -E '$(IS_RACED)' <<<"$$packages" || true); others=$$(grep -vE '$(IS_RACED)' <<<"$$packages" || true); \
	flags="-p=$$(($$(nproc) * 2)) -shuffle=on -timeout=20m -vet=off -json"; \
	[ -z "$$raced" ] || CGO_ENABLED=1 nice go list $(RACE) -export -test -deps $$raced >/dev/null & \
	{ failed=0; \
	[ -z "$$others" ] || go test $$flags $$others || failed=1; \
	[ -z "$$raced" ] || CGO_ENABLED=1 go test $(RACE) $$flags $$raced || failed=1; exit $$failed; } | go run ./internal/testgate

# Debian's docker.io has the engine. The tests start it in namespaces of their own. They mostly wait
# for it.
test-docker: setup ## the tests of the docker deployer, on a real engine (as root on Debian)
	@command -v dockerd >/dev/null && command -v ip >/dev/null || { apt-get update -q && \
		apt-get install -qy --no-install-recommends docker.io iptables iproute2; } >/dev/null
	@go vet -tags docker ./hub/deploy/docker
	@go test -tags docker -count=1 -parallel=4 -timeout=20m -json ./hub/deploy/docker | go run ./internal/testgate

# The packages of the images are those of Debian's mirror, and the base image is made of them.
test-image: setup ## build the images of the runtime with a real engine, and deploy them (as root on Debian)
	@command -v dockerd >/dev/null && command -v ip >/dev/null && command -v debootstrap >/dev/null || { apt-get update -q && \
		apt-get install -qy --no-install-recommends docker.io iptables iproute2 debootstrap; } >/dev/null
	@tools/test-image

test-deploy: ## the compose file, the systemd unit and the alerts of examples/deploy, on a real engine, systemd and promtool (as root on Debian)
	@command -v docker-compose >/dev/null && command -v dockerd >/dev/null && command -v systemd-analyze >/dev/null && command -v promtool >/dev/null || { \
		apt-get update -q && apt-get install -qy --no-install-recommends docker-compose docker.io iptables iproute2 systemd prometheus; } >/dev/null
	@$(MAKE) setup
	@go vet -tags deploy ./examples/deploy
	@go test -tags deploy -count=1 -timeout=10m -json ./examples/deploy | go run ./internal/testgate

# etcd is Debian's, the programs of Kubernetes are built once, which takes ten minutes.
test-kubernetes: ## the tests on a real Kubernetes control plane (as root on Debian); RUN=regexp to choose
	@$(MAKE) setup
	@$(MAKE) lint PKG=./hub/deploy/kubernetes && bin/lint -C tools/kubernetes ./...
	@programs=$$(tools/kubernetes/setup); \
	KUBERNETES_PROGRAMS="$$programs" go test -C tools/kubernetes -count=1 -timeout=20m -run '$(RUN)' -json ./... | go run ./internal/testgate

race: ## make test, with the race detector in all packages
	@$(MAKE) test IS_RACED=.

lint: ## vet, staticcheck and other analyzers, see tools/lint
	@go build -C tools -o "$$PWD/bin/lint" ./lint
	@bin/lint $(PKG)
	@[ '$(PKG)' != ./... ] || for module in tools tools/interop tools/soak; do bin/lint -C $$module ./...; done
	@[ '$(PKG)' != ./... ] || bin/lint -tags docker,images ./hub/deploy/docker
	@[[ '$(PKG)' != *./...* && '$(PKG)' != *hub/internal/console* ]] || tools/typecheck

vulncheck: ## govulncheck, if its database is available
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
	@cd tools/soak && SOAKTIME=$(SOAKTIME) go test -count=1 -parallel 18 -timeout 1h

# Four installations are killed, each for a quarter of the time. The other tests need half an hour
# in addition, and the first build of a hub whose clock can be set five minutes.
chaos: setup ## kill servers for CHAOSTIME (10m), damage networks, disks and clocks, and compare what was acknowledged (Linux, root); RUN=regexp to choose
	@compgen -G '/usr/lib/*/faketime/libfaketime.so.1' >/dev/null && command -v iptables >/dev/null && command -v ip >/dev/null || { \
		apt-get update -q && apt-get install -qy --no-install-recommends faketime iptables iproute2; } >/dev/null
	@cd tools/soak && CHAOSTIME=$(CHAOSTIME) go test -count=1 -timeout 1h -run '$(RUN)' -v ./chaos | grep -v '^=== '

# Prints each change that no test of the packages detects, and that tools/mutate/explained lacks.
mutate: ## change the code of PKG (directories) in each place, one at a time; the tests of all of them run
	@go build -C tools -o "$$PWD/bin/mutate" ./mutate
	@bin/mutate $(PKG)

# If git is available, the version in a binary is the commit.
build: ## static binaries of the commands in bin/
	@if git rev-parse HEAD >/dev/null 2>&1; then export GOFLAGS="$$GOFLAGS -buildvcs=true"; fi; \
	mkdir -p bin && go build -trimpath -ldflags '-s -w' -o bin/ ./cmd/...

# The name of a binary has its platform, the binary itself the version of the tag.
release: ## binaries for six platforms with SHA-256 sums in dist/, and an image if docker runs
	@tools/release
