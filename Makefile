# Everything that is needed beyond the language toolchains is installed below this directory.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

VENV := .venv
PYTHON := $(VENV)/bin/python
STAMPS := .make
RUST_SOURCES := Cargo.toml Cargo.lock rust-toolchain.toml $(shell find core -name '*.rs' -o -name Cargo.toml)

.PHONY: help
help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: build ## Python, Node and Java contend for one lock, and one is killed while it holds
	@$(PYTHON) tests/demo.py

.PHONY: test
test: build lint ## Set everything up and run every test
	@$(PYTHON) tools/test.py

.PHONY: soak
soak: build ## The long versions: every order of events in larger worlds, a thousand downgrades, half an hour of faults
	cargo test --locked --release -p zklock --test queue_explorer -- --ignored --nocapture
	cd tests && ../$(PYTHON) -m pytest scenarios -s --soak -m soak

.PHONY: lint
lint: build ## Format, lints, types, generated files
	@$(PYTHON) tools/lint.py

.PHONY: build
build: $(STAMPS)/worker $(STAMPS)/python $(STAMPS)/node $(STAMPS)/java $(STAMPS)/go ## Build the bindings, the workers and the peers

.PHONY: clean
clean: ## Remove everything that was built or installed
	rm -rf $(STAMPS) $(VENV) target dist tests/target
	rm -rf bindings-node/node_modules bindings-node/dist bindings-node/native
	find . -name __pycache__ -prune -exec rm -rf {} +

$(STAMPS)/toolchains: tools/check_toolchains.sh
	@tools/check_toolchains.sh
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/venv: tests/requirements.txt | $(STAMPS)/toolchains
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -r tests/requirements.txt
	@touch $@

$(STAMPS)/worker: $(RUST_SOURCES) $(shell find tests/workers/rust -name '*.rs' -o -name Cargo.toml) | $(STAMPS)/toolchains
	cargo build --locked -p zklock-worker
	@touch $@

$(STAMPS)/python: $(STAMPS)/venv $(RUST_SOURCES) bindings-python/Cargo.toml bindings-python/pyproject.toml $(shell find bindings-python/src bindings-python/python -type f -not -path '*/__pycache__/*')
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps ./bindings-python
	@touch $@

$(STAMPS)/npm: bindings-node/package-lock.json | $(STAMPS)/toolchains
	cd bindings-node && npm ci --no-audit --no-fund
	@touch $@

$(STAMPS)/node: $(STAMPS)/npm $(RUST_SOURCES) $(shell find bindings-node/src bindings-node/*.json bindings-node/*.toml bindings-node/build.rs 2>/dev/null)
	cd bindings-node && npm run --silent build
	@touch $@

$(STAMPS)/java: $(STAMPS)/venv tests/pom.xml $(shell find tests/peers/java -name '*.java')
	cd tests && ../$(PYTHON) -m harness.setup
	@touch $@

$(STAMPS)/go: $(wildcard tests/peers/go/*) | $(STAMPS)/toolchains
	mkdir -p tests/target
	cd tests/peers/go && go vet ./... && go build -trimpath -buildvcs=false -o ../../target/go-worker .
	@touch $@
