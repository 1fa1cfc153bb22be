#!/usr/bin/env bash
# Builds command, addon and wheel for a platform, as debug builds: `build.sh PLATFORM`. Run fetch.sh and `make node` first.
set -euo pipefail
. "$(cd "$(dirname "$0")" && pwd)/environment.sh" "$1"
cd "$root"
"${cargo[@]}" "$build" ${std[@]+"${std[@]}"} --quiet --locked --target "$target" -p zklock-cli -p zklock-node -p zklock-python
built=$CARGO_TARGET_DIR/$target/debug
case $1 in
  win32-*) command=zklock.exe addon=zklock_node.dll extension=_zklock.dll ;;
  *) command=zklock addon=libzklock_node.so extension=lib_zklock.so ;;
esac
out=$DOWNLOADS/built/$1
rm -rf "$out" && mkdir -p "$out"
cp "$built/$command" "$out/"
cp "$built/$addon" "$out/zklock.node"
python tools/dist.py --wheel "$target" "$built/$extension" "$built/$command" "$out"
if [[ $1 = win32-* ]]; then
  # wine 8 lacks one function, so the programs for it import that from a library of our own, whose name is as long.
  find "$out" -name '*.exe' -o -name '*.node' | xargs sed -i 's/api-ms-win-core-realtime-l1-1-1/realtime-functions-for-wine-8-0/g'
fi
