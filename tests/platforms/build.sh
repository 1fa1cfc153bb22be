#!/usr/bin/env bash
# Builds command, addon and wheel for a platform, as debug builds: `build.sh PLATFORM`. Run fetch.sh and `make node` first.
set -euo pipefail
. "$(cd "$(dirname "$0")" && pwd)/environment.sh" "$1"
cd "$root"
out=$DOWNLOADS/built/$1
# After a failure, the tests must not find the files of an earlier build, or only some of the files.
rm -rf "$out" "$out.new"
mkdir -p "$out.new"
cargo fetch --quiet --locked
if [[ $1 = win32-* && ! -f $LIBNODE_PATH/libnode.dll ]]; then
  # A library with which napi's build script links. Its names are those of the functions that napi declares.
  mkdir -p "$LIBNODE_PATH"
  {
    printf 'LIBRARY node.exe\nEXPORTS\n'
    grep -ohE 'fn (napi|node_api|uv)_\w+' "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/napi-sys-*/src/functions.rs |
      sed 's/^fn //' | sort -u
  } > "$LIBNODE_PATH/node.def"
  x86_64-w64-mingw32-dlltool -d "$LIBNODE_PATH/node.def" -l "$LIBNODE_PATH/libnode.a"
  cp "$LIBNODE_PATH/libnode.a" "$LIBNODE_PATH/libnode.dll"
fi
"${cargo[@]}" "$build" ${std[@]+"${std[@]}"} --quiet --locked --target "$target" -p zklock-cli -p zklock-node -p zklock-python
built=$CARGO_TARGET_DIR/$target/debug
case $1 in
  win32-*) command=zklock.exe addon=zklock_node.dll extension=_zklock.dll ;;
  *) command=zklock addon=libzklock_node.so extension=lib_zklock.so ;;
esac
if [[ $1 = win32-* ]]; then
  # The calls of Windows have unit tests in core.
  units=$("${cargo[@]}" test ${std[@]+"${std[@]}"} --no-run --message-format json --quiet --locked --target "$target" --lib -p zklock |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
fi
cp "$built/$command" "$out.new/"
cp "$built/$addon" "$out.new/zklock.node"
cp "$built/$extension" "$out.new/"
if [[ $1 = win32-* ]]; then
  cp "$units" "$out.new/units.exe"
  # wine 8 lacks one function, so the programs for it import that from a library of our own, whose name is as long.
  sed -i 's/api-ms-win-core-realtime-l1-1-1/realtime-functions-for-wine-8-0/g' "$out.new"/*
fi
python tools/dist.py --wheel "$target" "$out.new/$extension" "$out.new/$command" "$out.new"
mv "$out.new" "$out"
