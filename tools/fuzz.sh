#!/bin/bash
# Fuzzes the code that parses input from outside, guided by coverage: tools/fuzz.sh MINUTES [TARGET ...]. Each target
# starts with its corpus and with the inputs that earlier runs have stored in target/fuzz. It ends early and stores the
# input if the code panics, takes a minute or uses more than 1 GiB. The stable compiler provides the instrumentation,
# but no sanitizers.
set -euo pipefail
cd "$(dirname "$0")/../tests/fuzz"
seconds=$(($1 * 60))
shift
targets=${*:-frames names node_data hosts}
host=$(rustc -vV | sed -n 's/^host: //p')
# An explicit target machine keeps the flags away from build scripts.
RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module $(printf -- '-Cllvm-args=-sanitizer-coverage-%s ' \
    level=4 inline-8bit-counters pc-table trace-compares)" \
    cargo build --locked --quiet --release --features libfuzzer --target "$host" --target-dir target/coverage
fuzz() { # target
    mkdir -p "target/fuzz/$1"
    "target/coverage/$host/release/$1" -timeout=60 -rss_limit_mb=1024 -max_len=4096 "-max_total_time=$seconds" \
        -print_final_stats=1 "-artifact_prefix=target/fuzz/$1-" "target/fuzz/$1" "corpus/$1" >"target/fuzz/$1.log" 2>&1 ||
        { echo "$1: ENDED EARLY: tests/fuzz/target/fuzz/$1.log"; tail -20 "target/fuzz/$1.log"; return 1; }
    echo "$1: ok, $(grep -ao 'number_of_executed_units: .*' "target/fuzz/$1.log"), $(grep -ao 'cov: .* exec' "target/fuzz/$1.log" | tail -1)"
}
export -f fuzz
export host seconds
# shellcheck disable=SC2086 # several targets
printf '%s\n' $targets | xargs -P 2 -I '{}' bash -c 'fuzz {}'
