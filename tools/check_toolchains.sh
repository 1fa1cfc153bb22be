#!/bin/sh
# Reports all missing language toolchains together, and how to install them. As root, it installs Debian packages. Java,
# Maven and Go are needed for the real ZooKeeper and for third-party clients. Without them, some tests are left out. If
# ZKLOCK_TEST_ALL is set, every tool is required.
set -u

what=${1:-tests} # or demo
missing=""
wanted=""
need() { # a test, what it is, Debian packages or empty
    eval "$1" >/dev/null 2>&1 && return
    if [ -n "$3" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "installing $3" >&2
        # shellcheck disable=SC2086 # several packages
        { apt-get update -qq && apt-get install -y -qq $3 >/dev/null; } >&2
        eval "$1" >/dev/null 2>&1 && return
    fi
    missing="$missing
  $2${3:+ (Debian: apt-get install $3)}"
}
want() { # as above
    [ -z "${ZKLOCK_TEST_ALL:-}" ] || { need "$@"; return; }
    eval "$1" >/dev/null 2>&1 || wanted="$wanted
  $2 (Debian: apt-get install $3)"
}

need "command -v cargo" "Rust 1.88 or later, by rustup: https://rustup.rs" ""
need "command -v cc" "a C compiler and linker" "gcc libc6-dev"
need "python3 -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))'" \
    "Python 3.11 or later, with its venv module" "python3 python3-venv"
need "node -e 'const [a, b] = process.versions.node.split(\".\"); process.exit(a > 20 || (a == 20 && b >= 9) ? 0 : 1)'" \
    "Node 20.9 or later" ""
need "command -v npm" "npm" ""
if [ "$what" != demo ]; then
    # javac 17.0.15, and before JDK 9 javac 1.8.0
    want '[ "$(javac -version 2>&1 | sed "s/[^0-9]*\([0-9]*\).*/\1/")" -ge 17 ]' \
        "JDK 17 or later" "openjdk-17-jdk-headless"
    want "command -v mvn" "Maven 3.8 or later" "maven"
    want "command -v go" "Go 1.21 or later" "golang-go"
fi

[ -z "$wanted" ] || echo "These are missing; tests do without them, and say what they did not show:$wanted" >&2
[ -z "$missing" ] || { echo "These are missing; install them and run make again:$missing" >&2; exit 1; }
