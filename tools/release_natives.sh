#!/bin/sh
# Builds the command and the addon for .github/workflows/release.yml: `release_natives.sh TRIPLE`. Maturin packs the
# command into the wheel from the wheel's data directory. tools/dist.py packs the command and the addon from `natives`.
set -eu
cd "$(dirname "$0")/.."
scripts=bindings-python/zklock._zklock.data/scripts
export NAPI_TYPE_DEF_TMP_FOLDER="$PWD/natives/types"
mkdir -p "$NAPI_TYPE_DEF_TMP_FOLDER" "$scripts"
cargo build --locked --profile command --target "$1" --package zklock-cli
cargo build --locked --profile dist --target "$1" --package zklock-node
built=target/$1/command
suffix=
[ -f "$built/zklock.exe" ] && suffix=.exe
cp "$built/zklock$suffix" "$scripts"
cp "$built/zklock$suffix" natives
built=target/$1/dist
for addon in libzklock_node.so libzklock_node.dylib zklock_node.dll; do
  if [ -f "$built/$addon" ]; then cp "$built/$addon" natives/zklock.node; fi
done
