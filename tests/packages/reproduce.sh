#!/usr/bin/env bash
# Builds the published packages twice, from clones in different directories, and compares them byte by byte.
# Run `make venv node` first.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
clones="first another/directory/second"
for clone in $clones; do
  git clone --quiet --no-local "$root" "$scratch/$clone"
  # tools/dist.py needs the JavaScript and the name of the addon, from `make node`.
  for product in node_modules addon dist; do cp -a "bindings-node/$product" "$scratch/$clone/bindings-node/"; done
done
for clone in $clones; do
  echo "building in $clone"
  built=$scratch/packages-$(basename "$clone")
  CARGO_TARGET_DIR=$scratch/$clone/target "$root/.venv/bin/python" "$scratch/$clone/tools/dist.py" > "$scratch/log" 2>&1 ||
    { cat "$scratch/log"; exit 1; }
  mv "$scratch/$clone/dist" "$built"
  # The second build must not find the files of the first.
  rm -rf "${scratch:?}/$clone"
  (cd "$built" && sha256sum -- *) > "$built.sha256"
done
cat "$scratch/packages-first.sha256"
diff "$scratch"/packages-{first,second}.sha256
echo 'both builds are equal'
