#!/usr/bin/env bash
# Runs `zklock demo` with one program per language. Passes its arguments on to `zklock demo`.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
# `zklock demo` starts the programs in a shell, which expands these variables. The paths can contain spaces.
export JOBS=$root/tests/demo/programs BUILT=$root/tests/target
export PYTHONPATH=$root/bindings-python/python PYTHON=${ZKLOCK_PYTHON:-python3} NODE=${ZKLOCK_NODE:-node}
SCRATCH=$(mktemp -d)
export SCRATCH
trap 'rm -rf "$SCRATCH"' EXIT
# Node finds a package by its name only in `node_modules`.
mkdir "$SCRATCH/node_modules"
ln -s "$root/bindings-node" "$SCRATCH/node_modules/zklock"
cp "$JOBS/job.mjs" "$SCRATCH"

# The shell that starts each program expands the variables.
# shellcheck disable=SC2016
programs=(
    --with 'Python="$PYTHON" "$JOBS/job.py" /demo/lock 5'
    --with 'asyncio="$PYTHON" "$JOBS/job_aio.py" /demo/lock 5'
    --with 'Node="$NODE" "$SCRATCH/job.mjs" /demo/lock 5'
    --with 'Rust="$BUILT/zklock-demo-job" /demo/lock 5'
)
export JAVA=${ZKLOCK_JAVA:-java}
if command -v javac >/dev/null && [ -d "$BUILT/lib" ]; then
    quiet='-XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=off'
    programs+=(--with 'Java, Curator="$JAVA" '"$quiet"' -cp "$BUILT/lib/*" "$JOBS/Job.java" /demo/lock 5')
else
    echo "With a JDK and Maven, a Java process on Apache Curator would join in."
fi
# shellcheck disable=SC2016
programs+=(--with 'Python, killed="$PYTHON" "$JOBS/job.py" /demo/lock 5')
"$BUILT/zklock" demo "${programs[@]}" "$@"
