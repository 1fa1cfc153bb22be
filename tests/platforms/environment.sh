# Sets up the compilers for other platforms: `. environment.sh PLATFORM`. fetch.sh has unpacked them below $DOWNLOADS.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
DOWNLOADS=${ZKLOCK_PLATFORMS:-$root/.make/platforms}
. "$here/versions.sh"

case $1 in
  linux-x64-musl) target=x86_64-unknown-linux-musl ;;
  linux-arm64-gnu) target=aarch64-unknown-linux-gnu ;;
  win32-x64-gnu) target=x86_64-pc-windows-gnu ;;
esac
libraries=$DOWNLOADS/rust/usr/lib/x86_64-linux-gnu:$DOWNLOADS/cross/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries
export PATH=$DOWNLOADS/rust/usr/bin:$DOWNLOADS/cross/usr/bin:$DOWNLOADS/python/bin:$PATH
export RUSTC=$DOWNLOADS/rust/usr/bin/rustc CARGO=$DOWNLOADS/rust/usr/bin/cargo
# One directory for all: their dependencies for this machine, such as macros, are compiled once.
export CARGO_TARGET_DIR=$DOWNLOADS/target CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0
cargo=(cargo)
# Debian has no standard library for musl and Windows. Cargo builds it from source, an unstable feature.
std=()

case $target in
  *-musl)
    export RUSTC_BOOTSTRAP=1
    # A library that is linked statically cannot be loaded into an interpreter.
    export RUSTFLAGS='-C target-feature=-crt-static -C link-self-contained=no'
    cargo=(cargo-zigbuild)
    build=zigbuild
    std=(-Z build-std=std,panic_unwind)
    ;;
  aarch64-*)
    sysroot=$DOWNLOADS/cross/usr/aarch64-linux-gnu
    compiler=$DOWNLOADS/bin/aarch64-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$compiler
    export CC_aarch64_unknown_linux_gnu=$compiler AR_aarch64_unknown_linux_gnu=aarch64-linux-gnu-ar
    ;;
  *-windows-gnu)
    export RUSTC_BOOTSTRAP=1
    compiler=x86_64-w64-mingw32
    export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=$compiler-gcc-posix
    export CC_x86_64_pc_windows_gnu=$compiler-gcc-posix CXX_x86_64_pc_windows_gnu=$compiler-g++-posix
    export AR_x86_64_pc_windows_gnu=$compiler-ar
    # napi links with a library of Node's functions.
    export LIBNODE_PATH=$DOWNLOADS/libnode
    std=(-Z build-std=std,panic_unwind)
    ;;
esac
: "${build:=build}"
