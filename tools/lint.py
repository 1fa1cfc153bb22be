"""Formats, lints, types: everything that needs no server. Names all that is wrong before it fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

SHIMS = ["async-io", "async-net"]
SMOL = {"smol", "async-executor", "async-global-executor", "async-std", "polling", "blocking"}

CHECKS: list[tuple[str, list[str], str]] = [
    ("rustfmt", ["cargo", "fmt", "--all", "--check"], "."),
    (
        "clippy",
        [
            "cargo",
            "clippy",
            "--locked",
            "--workspace",
            "--lib",
            "--bins",
            "--tests",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ],
        ".",
    ),
    ("ruff", [str(BIN / "ruff"), "check", "tests", "tools", "bindings-python", "examples"], "."),
    (
        "ruff format",
        [str(BIN / "ruff"), "format", "--check", "tests", "tools", "bindings-python", "examples"],
        ".",
    ),
    ("mypy: tests", [str(BIN / "mypy"), "--strict", "."], "tests"),
    ("mypy: tools", [str(BIN / "mypy"), "--strict", "tools"], "."),
    ("mypy: zklock", [str(BIN / "mypy"), "--strict", "-p", "zklock"], "bindings-python"),
    ("mypy: examples", [str(BIN / "mypy"), "--strict", "../examples"], "bindings-python"),
    ("stubtest", [str(BIN / "stubtest"), "zklock"], "bindings-python"),
    ("node", ["npm", "run", "--silent", "lint"], "bindings-node"),
    (
        "node: examples",
        [
            "bindings-node/node_modules/.bin/eslint",
            "--config",
            "bindings-node/eslint.config.mjs",
            "--max-warnings",
            "0",
            "examples",
        ],
        ".",
    ),
]


def shims() -> list[str]:
    """The two shims must replace their namesakes; a lock file older than the patch ignores it silently."""
    command = ["cargo", "metadata", "--locked", "--format-version=1"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    sources = {package["name"]: package["source"] for package in metadata["packages"]}
    problems = [
        f"{shim} is not ours: {sources.get(shim, 'missing')}"
        for shim in SHIMS
        if sources.get(shim, "") is not None
    ]
    problems += [
        f"{crate} is a dependency: the client crate must not bring a reactor" for crate in SMOL & set(sources)
    ]
    return problems


def main() -> int:
    """Runs every check, also after one has failed."""
    failed = []
    for name, command, directory in CHECKS:
        print(f"--- {name}", flush=True)
        if subprocess.run(command, cwd=ROOT / directory, check=False).returncode != 0:
            failed.append(name)
    print("--- shims", flush=True)
    for problem in shims():
        print(problem)
        failed.append("shims")
    if failed:
        print(f"lint failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
