# A target is a line of intent and at most five commands; `make help` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-builtin-rules --no-print-directory

# BIN holds the tools of tools/go.mod, built once; .ci/run points it to a folder that outlives the checkout.
BIN ?= .bin
override BIN := $(abspath $(BIN))
export PATH := $(BIN):$(PATH)
# The stamp names what the tools were built from, so a fresh checkout beside an old BIN builds nothing.
STAMP := $(BIN)/.built-$(shell { go env GOVERSION; cat tools/go.mod tools/go.sum; } | cksum | cut -d' ' -f1)

# kgo hangs in a testing/synctest bubble unless it is built with this tag. Layer 5 and the binaries are built without.
TAGS := synctests
# gotestsum where it has been built, plain go test everywhere else.
GOTEST = $(if $(shell command -v $(BIN)/gotestsum),gotestsum --format pkgname --format-hide-empty-pkg --,go test)
N ?= 100
FUZZTIME ?= 30s
T ?= 1h
COUNT ?= 6
PKG ?= ./...
AGAINST ?= .git\#branch=main
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

.PHONY: help
help: ## Say what each target does.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: tools
tools: $(STAMP) ## Build the pinned tools into .bin (6 minutes once, then nothing).
$(STAMP):
	@mkdir -p $(BIN) && rm -f $(BIN)/.built-*
	cd tools && GOBIN=$(BIN) go install -mod=readonly tool
	@touch $@

.PHONY: generate
generate: tools ## Write the Go code of the .proto files, and the reference of all settings, again.
	buf generate
	go generate ./cmd/internal/config

.PHONY: build
build: ## Build the programs into bin/.
	go build -o bin/ ./cmd/iqnode ./cmd/iqrouter ./cmd/iqctl ./cmd/iqbench

.PHONY: release
release: ## Write programs, archives, SBOMs, the image and checksums of VERSION (what git describes) into bin/release.
	cd tools/deploy && go run ./release -out $(abspath bin/release) -version '$(VERSION)' \
	  -commit "$$(git rev-parse HEAD)" -time "$$(git log -1 --format=%ct)"

.PHONY: demo
demo: ## Run the demo: a small cluster, real flights, a kill; ARGS="--kafka real --json" and the like.
	@go run ./cmd/iqctl demo $(ARGS)

.PHONY: test
test: ## Run all tests: layers 1 to 4, then layer 5 against a real Kafka.
	$(GOTEST) -tags $(TAGS) -timeout 10m ./...
	@$(MAKE) test-kafka

.PHONY: test-kafka
test-kafka: ## Run layer 5 against a real Kafka (needs Java 17 or newer and Maven).
	go run ./integration/kafkabroker/withkafka $(GOTEST) -tags kafka -timeout 20m -count=1 -p 1 ./integration/...

.PHONY: test-java
test-java: ## Run the tests beside a real Kafka Streams application (minutes; needs Java 17 and Maven).
	go run ./integration/kafkabroker/withkafka $(GOTEST) -tags kafka,java -timeout 40m -count=1 -parallel 1 -run 'Java|KafkaStreams|ImportCheck' ./integration

.PHONY: test-browser
test-browser: ## Look at the dashboard with a real browser (needs Chromium; SCREENSHOTS=<folder> keeps pictures).
	$(GOTEST) -tags browser -timeout 15m -count=1 -p 1 -run 'Browser|Seen|Keys' ./dashboard ./cmd/iqrouter

.PHONY: test-http
test-http: ## Run the commands of docs/http.md, and schemathesis against the HTTP side (needs curl, jq, and Python with venv).
	$(GOTEST) -tags http -timeout 10m -count=1 -run 'TheCommandsOfTheDocumentation|Schemathesis' ./cmd/iqrouter

.PHONY: race
race: ## Run layers 1 to 4 under the race detector.
	$(GOTEST) -race -tags $(TAGS) -timeout 15m $(PKG)

.PHONY: sim
sim: ## Run the simulated cluster with N seeds (N=100).
	go run ./integration/simulate -seeds $(N)

.PHONY: faults
faults: ## Prove that the tests would notice: build deliberate faults in, and see each caught.
	go test -tags faultproof -count=1 -run TestEveryFaultIsCaught -v ./fault

.PHONY: chaos
chaos: ## Have everything go wrong on a real Kafka for T (1h); ARGS="--seed 17" and the like. As root it plays more.
	@go run ./cmd/iqbench chaos --for $(T) $(ARGS)

.PHONY: fuzz
fuzz: ## Run each fuzz test for FUZZTIME (30s), those of PKG (./...).
	@go test -tags $(TAGS) -list '^Fuzz' $(PKG) | awk '/^Fuzz/ {f[n++] = $$1} /^ok/ {for (i = 0; i < n; i++) print $$2, f[i]; n = 0}' | \
	while read -r pkg name; do (set -x; go test -tags $(TAGS) -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$pkg"); done

.PHONY: rewrite
rewrite: ## Write the expected outputs of all datadriven tests again; commit only a diff that you can explain.
	grep -rl --include='*_test.go' cockroachdb/datadriven . | xargs -n 1 dirname | sort -u | xargs -I {} go test -tags $(TAGS) -count=1 {} -rewrite
	git diff --stat -- '*testdata*'

.PHONY: bench
bench: tools ## Run the benchmarks of PKG COUNT times (6) into bin/bench.txt; OLD=<file> compares with an earlier one.
	@mkdir -p bin
	go test -run '^$$' -bench . -benchmem -count $(COUNT) $(PKG) | tee bin/bench.txt
	benchstat $(OLD) bin/bench.txt

.PHONY: compare
compare: ## Compare with Kafka Streams and with bare gRPC (needs a JDK of 17 or newer and Maven); ARGS="--quick --json" and the like.
	@go run ./cmd/iqbench compare $(ARGS)

.PHONY: lint
lint: tools ## Check style and the wire's rules, with and without the tests' tags.
	golangci-lint run ./...
	go vet ./...
	buf lint
	buf format --diff --exit-code

.PHONY: breaking
breaking: tools ## Check that the wire is compatible with AGAINST (the branch main).
	buf breaking --against '$(AGAINST)'

.PHONY: check-generated
check-generated: tools ## Check that the generated code is what `make generate` writes.
	@rm -rf bin/.generated && mkdir -p bin/.generated && cp -R proto bin/.generated/ && find bin/.generated -name '*.pb.go' -delete
	buf generate -o bin/.generated
	@diff -r proto bin/.generated/proto || { echo "the generated code is not current: run 'make generate'" >&2; exit 1; }

.PHONY: check-deploy
check-deploy: ## Check what is in deploy/.
	cd tools/deploy && $(GOTEST) .

.PHONY: check-release
check-release: ## Check a release, and the Dockerfile, by reading a release back (minutes for the first one).
	cd tools/deploy && $(GOTEST) -timeout 30m ./release

.PHONY: check
check: check-generated lint check-deploy test faults ## Do all that CI does.
