# Builds the parts that the tests need, as debug builds: `make PART`. tools/parts.py tells the tests where the built
# files are.
#
# One cargo command builds the whole workspace, because cargo chooses the features of a dependency by the set of crates
# that it builds together. Building one member alone would compile all its dependencies again.

PARTS := venv npm worker previous embedded command python node packages jars java go porcupine bundlers chromium redis

STAMPS := .make
BUILT := tests/target
TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
DEBUG := $(TARGET)/debug
LIBRARIES := $(if $(filter Darwin,$(shell uname)),dylib,so)

# All files and directories below these directories. Directories are included, because their
# modification times change when a file in them is removed.
below = $(shell find $(1) \( -name node_modules -o -name __pycache__ \) -prune -o -print)
# If a product is missing, the prerequisite FORCE, which makes its rule run.
missing = $(if $(wildcard $(1)),,FORCE)
# Replace a file if the content differs. Move the new file into place instead of overwriting the old one, which a
# running process might have open.
install = cmp -s "$(1)" $(2) || { mkdir -p $(dir $(2)) && cp "$(1)" $(2).new && mv $(2).new $(2); }
# Run a command only if the content of these files has changed since the last run. $(1): a copy of that content, $(2):
# the files, $(3): the command.
once = @cat $(2) | cmp -s - $(1) || { echo '$@: $(2)' && $(3) && cat $(2) > $(1); }

.PHONY: $(PARTS) FORCE bench-tools
FORCE:
# Without "Nothing to be done".
$(filter-out venv npm bundlers,$(PARTS)): ; @:

# A virtual environment with these packages, which imports the Python binding from its source directory.
environment = python3 -m venv $(1) && $(1)/bin/python -m pip install --quiet --disable-pip-version-check -r $(2) && \
	for packages in $(1)/lib/python3*/site-packages; do echo "$(CURDIR)/bindings-python/python" > $$packages/pyzklock.pth; done

venv:
	$(call once,.venv/installed,tests/requirements.txt docs/requirements.txt,$(call environment,.venv,tests/requirements.txt))

modules = $(call once,$(1)/node_modules/.installed,$(1)/package-lock.json,(cd $(1) && npm ci --no-audit --no-fund))
npm:
	$(call modules,bindings-node)
bundlers:
	$(call modules,tests/consumers/node)

# Downloads for `make bench`.
bench-tools:
	$(call once,$(STAMPS)/bench/installed,benches/requirements.txt,$(call environment,$(STAMPS)/bench,benches/requirements.txt))
	$(call modules,benches/locks/workers/node)

# Whenever the compiler expands napi's macros, they append the types of Node's addon to a file. Each
# build must therefore remove the file and expand all macros once.
TYPES := $(DEBUG)/napi
CRATES := cli embedded/Cargo.toml embedded/src core/Cargo.toml core/build.rs core/src core/jute core/shims core/transport bindings-python/Cargo.toml bindings-python/src \
	bindings-node/Cargo.toml bindings-node/build.rs bindings-node/native tests/workers/rust tests/servers/embedded \
	tests/demo/programs/rust
RUST := Cargo.toml Cargo.lock rust-toolchain.toml $(call below,.cargo $(CRATES))

$(STAMPS)/cargo: $(RUST)
	@mkdir -p $(STAMPS) && touch $@.began && rm -rf "$(TYPES)" && mkdir -p "$(TYPES)"
	NAPI_TYPE_DEF_TMP_FOLDER="$(TYPES)" NAPI_FORCE_BUILD_ZKLOCK_NODE=$$(date +%s%N) cargo build --locked --workspace --quiet
	@mv $@.began $@

EXTENSION := bindings-python/python/zklock/_zklock.abi3.so
PROGRAMS := $(addprefix $(BUILT)/,zklock-worker ends slots zklock-test-server zklock zklock-demo-job)
$(EXTENSION): from = lib_zklock.$(LIBRARIES)
$(EXTENSION) $(PROGRAMS): $(STAMPS)/cargo
	@$(call install,$(DEBUG)/$(or $(from),$(@F)),$@)

worker: $(addprefix $(BUILT)/,zklock-worker ends slots zklock-demo-job)
embedded: $(BUILT)/zklock-test-server
command: $(BUILT)/zklock
# The tests of the Python binding need the virtual environment.
python: venv $(EXTENSION)

node: bindings-node/dist/index.js
bindings-node/addon/index.js: $(STAMPS)/cargo bindings-node/describe.mjs bindings-node/package.json | npm
	cd bindings-node && node describe.mjs "$(TYPES)" "$(DEBUG)/libzklock_node.$(LIBRARIES)"
# Remove the old output first. The compiler keeps the output of removed sources, and the package
# would contain it.
bindings-node/dist/index.js: bindings-node/addon/index.js bindings-node/tsconfig.json $(call below,bindings-node/src) | npm
	cd bindings-node && rm -rf dist && npm run --silent build:types

# The packages for users, around the debug builds.
packages: $(STAMPS)/packages
PACKED := LICENSE THIRD-PARTY-NOTICES.txt $(wildcard tools/dist.py core/README.md embedded/README.md) \
	$(wildcard $(foreach kind,toml md py json mjs mts,bindings-python/*.$(kind) bindings-node/*.$(kind))) \
	$(shell find bindings-python/python -name '*.py' -o -name '*.pyi' -o -name py.typed) $(call below,bindings-node/bin)
$(STAMPS)/packages: $(RUST) $(BUILT)/zklock $(EXTENSION) bindings-node/dist/index.js $(PACKED) $(call missing,$(BUILT)/packages) | venv
	.venv/bin/python tools/dist.py --debug
	@touch $@

# The worker of the last release. It is built with `--workspace`, so that it shares the compiled
# dependencies of the current worker. The crates of both workspaces have the same names, and cargo
# distinguishes them only by their settings. The old crates therefore get different settings. Their
# source files get new modification times, because cargo does not build files that are older than
# the last build.
previous: $(BUILT)/previous-worker
OLD := $(CURDIR)/$(STAMPS)/previous
$(BUILT)/previous-worker: tests/previous-release
	@rm -rf "$(OLD)" && mkdir -p "$(OLD)" && git archive "$$(cut -d' ' -f1 $<)" | tar -x --touch -C "$(OLD)"
	cd "$(OLD)" && CARGO_BUILD_BUILD_DIR="$(TARGET)" CARGO_TARGET_DIR="$(OLD)/target" \
		cargo build --locked --quiet --workspace --bin zklock-worker \
		$(foreach crate,zklock zklock-transport zklock-worker async-io async-net,--config profile.dev.package.$(crate).codegen-units=15)
	@$(call install,$(OLD)/target/debug/zklock-worker,$@) && touch $@

# The servers and the Java peers. All jars are in one directory, so that a class path is `lib/*`. The plugin's version is
# pinned, because the default depends on the installed Maven.
jars: $(STAMPS)/jars
$(STAMPS)/jars: tests/pom.xml $(call missing,$(BUILT)/lib)
	@rm -rf $(BUILT)/lib
	mvn -B -q -f tests/pom.xml org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
		"-DoutputDirectory=$(CURDIR)/$(BUILT)/lib" -DincludeScope=runtime
	@mkdir -p $(STAMPS) && touch $@

java: $(BUILT)/classes/zklock/CuratorWorker.class
$(BUILT)/classes/zklock/CuratorWorker.class: $(STAMPS)/jars $(call below,tests/peers/java)
	@rm -rf $(BUILT)/classes && mkdir -p $(BUILT)/classes
	javac -Xlint:all,-processing,-classfile -Werror -proc:none --release 17 -d $(BUILT)/classes -cp '$(BUILT)/lib/*' \
		$(filter %.java,$^)

go: $(BUILT)/go-worker
porcupine: $(BUILT)/porcupine
$(BUILT)/go-worker: $(call below,tests/peers/go)
$(BUILT)/porcupine: $(wildcard tests/porcupine/*.go tests/porcupine/go.*)
$(BUILT)/go-worker $(BUILT)/porcupine:
	cd $(dir $(firstword $(filter %.go,$^))) && go vet ./... && go build -trimpath -buildvcs=false -o "$(CURDIR)/$@" .
	@touch $@

# Unpack Debian packages with the libraries that this machine lacks, without installing them. The
# package lists are updated first, because the archive has no older versions. apt's default lock and
# download user would require root.
define unpack
	@rm -rf $(1) && mkdir -p $(1)/lists/partial $(1)/packages/partial
	apt=(apt-get -qq "-oDir::State::Lists=$(CURDIR)/$(1)/lists" "-oDir::Cache::Archives=$(CURDIR)/$(1)/packages" \
		-oDebug::NoLocking=1 -oAPT::Sandbox::User=); \
	"$${apt[@]}" update && "$${apt[@]}" install --yes --download-only --reinstall --no-install-recommends $(2)
	@for package in $(1)/packages/*.deb; do dpkg-deb -x $$package $(1); done
	@rm -r $(1)/lists $(1)/packages
endef
CHROMIUM := $(STAMPS)/chromium/usr/lib/chromium/chromium-headless-shell
REDIS := $(STAMPS)/redis/usr/bin/redis-server
chromium: $(if $(ZKLOCK_CHROMIUM),,$(CHROMIUM))
redis: $(if $(ZKLOCK_REDIS),,$(REDIS))
$(CHROMIUM):
	$(call unpack,$(STAMPS)/chromium,chromium-headless-shell fonts-dejavu-core)
$(REDIS):
	$(call unpack,$(STAMPS)/redis,redis-server)
