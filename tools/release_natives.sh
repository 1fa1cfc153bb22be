#!/bin/sh
# Builds the native parts of the packages for .github/workflows/release.yml: `release_natives.sh TRIPLE
# PLATFORM`. The command is copied to the directory that maturin packs into the wheel. Command and addon are
# copied to natives, for tools/pack_node.py.
set -eu
cd "$(dirname "$0")/.."
triple=$1
: "${NAPI_TYPE_DEF_TMP_FOLDER:=$PWD/target/napi}"
export NAPI_TYPE_DEF_TMP_FOLDER
mkdir -p "$NAPI_TYPE_DEF_TMP_FOLDER" natives 'bindings-python/zklock._zklock.data/scripts'

cargo build --locked --profile dist --target "$triple" --package zklock-cli --package zklock-node
built=target/$triple/dist
case $triple in
  *-darwin) addon=libzklock_node.dylib ;;
  *) addon=libzklock_node.so ;;
esac
cp "$built/zklock" 'bindings-python/zklock._zklock.data/scripts/zklock'
cp "$built/zklock" natives/zklock
cp "$built/$addon" natives/zklock.node
cp -R "$NAPI_TYPE_DEF_TMP_FOLDER" natives/types
