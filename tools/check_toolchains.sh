#!/bin/sh
# Reports all missing language toolchains together, and how to install them. As root, it installs Debian
# packages. Java, Maven and Go are for real ZooKeeper and for third-party clients. Without them, some tests
# are left out, unless ZKLOCK_TEST_ALL is set: then every tool is required.
set -u

what=${1:-tests} # or demo
missing=""
wanted=""
need() { # command, what it is, Debian packages or empty
    command -v "$1" >/dev/null 2>&1 && return
    if [ -n "$3" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "installing $3" >&2
        # shellcheck disable=SC2086 # several packages
        { apt-get update -qq && apt-get install -y -qq $3 >/dev/null; } >&2
        command -v "$1" >/dev/null 2>&1 && return
    fi
    missing="$missing
  $2${3:+ (Debian: apt-get install $3)}"
}

want() { # as above
    if [ -n "${ZKLOCK_TEST_ALL:-}" ]; then
        need "$@"
    elif ! command -v "$1" >/dev/null 2>&1; then
        wanted="$wanted
  $2${3:+ (Debian: apt-get install $3)}"
    fi
}

need cargo "Rust 1.88 or later, by rustup: https://rustup.rs" ""
need cc "a C compiler and linker" "gcc libc6-dev"
need python3 "Python 3.11 or later" "python3 python3-venv"
need node "Node 20.9 or later" ""
need npm "npm" ""
if [ "$what" != demo ]; then
    want javac "JDK 17 or later" "openjdk-17-jdk-headless"
    want mvn "Maven 3.8 or later" "maven"
    want go "Go 1.21 or later" "golang-go"
fi

if command -v python3 >/dev/null 2>&1; then
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || missing="$missing
  Python 3.11 or later; this is $(python3 --version)"
    if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
            { apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null; } >&2
        fi
        python3 -c 'import ensurepip, venv' 2>/dev/null || missing="$missing
  Python's venv module (Debian: apt-get install python3-venv)"
    fi
fi
if command -v node >/dev/null 2>&1; then
    node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 9) ? 0 : 1)' ||
        missing="$missing
  Node 20.9 or later; this is $(node --version)"
fi

if [ "$what" != demo ] && command -v javac >/dev/null 2>&1; then
    version=$(javac -version 2>&1) # javac 17.0.15, and before JDK 9 javac 1.8.0
    [ "$(echo "$version" | sed 's/[^0-9]*\([0-9]*\).*/\1/')" -ge 17 ] || missing="$missing
  JDK 17 or later; this is $version"
fi

if [ -n "$missing" ]; then
    echo "These are missing; install them and run make again:$missing" >&2
    exit 1
fi
if [ -n "$wanted" ]; then
    echo "These are missing; tests do without them, and say what they did not show:$wanted" >&2
fi
