# Every target with "## text" behind it is shown by `make help`.

SHELL := /bin/sh
.DEFAULT_GOAL := help

FUZZTIME ?= 10s
BENCH ?= registry
BENCHCOUNT ?= 5
SEEDS ?= 10000
FROM ?= 0
SOAK ?= 30s
DEMO_DIR ?= .run/demo

# Without a readable repository (an export, a checkout of another user) there is no
# revision to stamp into the programs, and that must not fail the build.
ifneq ($(shell git rev-parse HEAD >/dev/null 2>&1 && echo yes),yes)
export GOFLAGS := $(GOFLAGS) -buildvcs=false
endif

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## check Go and PostgreSQL's server programs; install the latter when missing
	@scripts/setup.sh

.PHONY: build
build: ## build bin/aipctl, bin/aipd, bin/aiphost and the example connector bin/ticketdesk
	@mkdir -p bin
	go build -trimpath -o bin/ ./cmd/aipctl ./cmd/aipd ./cmd/aiphost
	go build -trimpath -o bin/ticketdesk ./examples/ticketdesk/server

.PHONY: demo
demo: setup build ## run a whole private fleet through its paces; summary in .run/demo/summary.json
	bin/aipctl dev demo --dir $(DEMO_DIR)

.PHONY: test
test: setup ## run every test, as CI does
	go test -timeout 20m ./...

.PHONY: race
race: setup ## run every test under the race detector (needs a C compiler)
	go test -race -timeout 15m ./...

.PHONY: soak
soak: setup ## keep registries under mixed load for SOAK (30s) on each fleet size: no deadlock, no leak, audit clean
	AIP_SOAK=$(SOAK) go test ./pkg/registry/postgres -run TestSoak -count=1 -timeout 30m -v

.PHONY: crash
crash: setup ## break real processes at every named point and count; QUICK=1 breaks each kind once
	@mkdir -p bin
	go test -c -o bin/crash.test ./scripts/crash
	cd scripts/crash && CRASH_FULL=$(if $(QUICK),,1) ../../bin/crash.test -test.timeout 30m

.PHONY: public-mcp
public-mcp: setup ## pack, admit and call two public MCP servers from npm; needs node, npm and its registry
	AIP_PUBLIC_MCP=1 go test ./scripts/guests -run TestPublicMCP -count=1 -timeout 15m -v

.PHONY: sim
sim: ## simulate the protocol in virtual time for SEEDS seeds (10000) from FROM (0) on
	@mkdir -p bin
	go test -c -o bin/sim.test ./scripts/sim
	bin/sim.test -seeds=$(SEEDS) -from=$(FROM)

.PHONY: verify
verify: ## check module file, format, vet, staticcheck and layout; leaves git clean
	@scripts/verify.sh

.PHONY: lint
lint: ## vet and staticcheck alone
	go vet ./...
	go tool staticcheck ./...

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (10s)
	@scripts/fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: setup ## measure: BENCH=registry, dispatch or admission [QUICK=1] [OUT=FILE], or BENCH=go [BENCHCOUNT=5] for every Go benchmark
ifeq ($(BENCH),go)
	@scripts/bench.sh go $(BENCHCOUNT)
else
	@QUICK="$(QUICK)" OUT="$(OUT)" scripts/bench.sh $(BENCH)
endif

.PHONY: doc
doc: ## list every package with the question it answers
	@go list -f '{{.ImportPath}}{{"\n"}}    {{.Doc}}' ./...

.PHONY: clean
clean: ## remove bin and the private fleets under .run, after stopping them
	@scripts/clean.sh
