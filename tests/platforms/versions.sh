# The versions of all downloads of `make platforms`. To move one, change it here and run `make platforms`. A version that
# Debian has replaced cannot be downloaded any more; `apt-cache madison PACKAGE` shows the new one.

# Debian's build of rustc for web browsers, which is newer than its usual one, and the libraries that it needs.
RUST=1.96.0+dfsg1-1~deb12u2
RUST_MINOR=1.96
LLVM=22
# From PyPI and npm.
MATURIN=1.16.0
ZIG=0.17.1
ZIGBUILD=0.24.1
NODE_ARM64=24.22.0
NODE_WINDOWS=20.20.2
# From Maven Central: CPython for Windows.
CPYTHON_MINOR=3.13
CPYTHON=3.13.5-1.5.12
