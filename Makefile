# PKG selects packages: make test PKG=./sse/...
PKG       := work
BENCH     ?= .
COUNT     ?= 1
FUZZTIME  ?= 30s
SOAKTIME  ?= 5m
CHAOSTIME ?= 10m
RUN       ?= .

SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS   += --no-print-directory

# Recipes that compile begin with one of these. FLAGS has the modules of go.work, TOOL one below tools.
FLAGS := . tools/flags
TOOL  := . tools/flags; export GOWORK=off

.DEFAULT_GOAL := help
.PHONY: help setup test test-docker test-image test-deploy test-kubernetes race lint vulncheck bench fuzz interop soak chaos mutate build release

help: ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 8

setup: ## install the dependencies of the tests (as root on Debian; part of make test)
	@tools/setup

test: setup ## format, go.mod, and all tests, those of some packages with the race detector; a skipped test fails
	@tools/test $(PKG)

race: setup ## make test, with the race detector in all packages
	@RACED=. tools/test $(PKG)

# Debian's docker.io has the engine. The tests start it in namespaces of their own. They mostly wait
# for it.
test-docker: setup ## the tests of the docker deployer, on a real engine (as root on Debian)
	@tools/debian dockerd:docker.io ip:iproute2 iptables
	@$(FLAGS); go vet -tags docker ./hub/deploy/docker
	@$(FLAGS); go test -tags docker -count=1 -parallel=4 -timeout=20m -json ./hub/deploy/docker | go run ./internal/testgate

# The packages of the images are those of Debian's mirror, and the base image is made of them.
test-image: setup ## build the images of the runtime with a real engine, and deploy them (as root on Debian)
	@tools/debian dockerd:docker.io ip:iproute2 iptables debootstrap
	@$(FLAGS); tools/test-image

test-deploy: setup ## the compose file, the systemd unit and the alerts of examples/deploy, on a real engine, systemd and promtool (as root on Debian)
	@tools/debian docker-compose dockerd:docker.io ip:iproute2 iptables systemd-analyze:systemd promtool:prometheus
	@$(FLAGS); go vet -tags deploy ./examples/deploy
	@$(FLAGS); go test -tags deploy -count=1 -timeout=10m -json ./examples/deploy | go run ./internal/testgate

# etcd is Debian's, the programs of Kubernetes are built once, which takes ten minutes.
test-kubernetes: setup ## the tests on a real Kubernetes control plane (as root on Debian); RUN=regexp to choose
	@tools/analyze ./hub/deploy/kubernetes tools/kubernetes
	@$(TOOL); programs=$$(tools/kubernetes/setup); \
	KUBERNETES_PROGRAMS="$$programs" go test -C tools/kubernetes -count=1 -timeout=20m -run '$(RUN)' -json ./... | GOWORK=$$PWD/go.work go run ./internal/testgate

lint: ## vet, staticcheck and other analyzers, see tools/lint
	@tools/analyze $(PKG)

vulncheck: ## govulncheck, if its database is available
	@$(FLAGS); tools/vulncheck

# Packages run one after another. The machine is printed first, because results depend on it.
bench: ## all benchmarks; COUNT=10 for benchstat, BENCH=regexp and PKG=./sse/... to choose
	@tools/machine
	@$(FLAGS); go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(PKG) | sed -e '/no test files/d' -e '/^PASS$$/d'
	@$(TOOL); go test -C tools/compare -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) ./...

fuzz: ## every fuzz target for FUZZTIME (30s), one after another
	@$(FLAGS); go list -f '{{.ImportPath}} {{.Dir}}' $(PKG) | while read -r pkg dir; do \
		for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' "$$dir"/*_test.go 2>/dev/null | sort); do \
			echo "$$pkg $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$pkg" < /dev/null; \
		done; \
	done

# Prints the programs with their versions, and every test.
interop: setup ## run the runtime and the hub with third-party MCP servers, upstreams, clients and proxies, and as new users do (npm, Debian)
	@tools/interop/setup
	@$(TOOL); go test -C tools/interop -count=1 -timeout=30m -v ./... | grep -v '^=== '

# All attacks run at the same time, each on its own server.
soak: ## attack the servers for SOAKTIME (5m) at a low rate (Linux, PostgreSQL); prints memory and latencies
	@$(TOOL); SOAKTIME=$(SOAKTIME) go test -C tools/soak -count=1 -parallel 18 -timeout 1h

# Four installations are killed, each for a quarter of the time. The other tests need half an hour
# in addition, and the first build of a hub whose clock can be set five minutes.
chaos: setup ## kill servers for CHAOSTIME (10m), damage networks, disks and clocks, and compare what was acknowledged (Linux, root); RUN=regexp to choose
	@tools/debian '/usr/lib/*/faketime/libfaketime.so.1:faketime' iptables ip:iproute2
	@$(TOOL); CHAOSTIME=$(CHAOSTIME) go test -C tools/soak -count=1 -timeout 1h -run '$(RUN)' -v ./chaos | grep -v '^=== '

# Prints each change that no test of the packages detects, and that tools/mutate/explained lacks.
mutate: ## change the code of PKG (directories) in each place, one at a time; the tests of all of them run
	@$(TOOL); go build -C tools -o "$$PWD/bin/mutate" ./mutate
	@$(FLAGS); bin/mutate $(PKG)

# If git is available, the version in a binary is the commit.
build: ## static binaries of the commands in bin/
	@$(FLAGS); ! git rev-parse HEAD >/dev/null 2>&1 || export GOFLAGS="$$GOFLAGS -buildvcs=true"; \
	mkdir -p bin && go build -trimpath -ldflags '-s -w' -o bin/ ./cmd/...

# The name of a binary has its platform, the binary itself the version of the tags.
release: ## binaries for six platforms with SHA-256 sums in dist/, the tags of all modules, and an image if docker runs
	@tools/release
