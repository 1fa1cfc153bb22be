"""Checks formatting, lints and types: everything that needs no server. The checks that need no build run
first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import api
from documented import problems as undocumented
from documented import unpublished
from references import problems
from tables import problems as stale_tables

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

SHIMS = ["async-io", "async-net", "zklock-transport"]
SMOL = {"smol", "async-executor", "async-global-executor", "async-std", "polling", "blocking"}
PYTHON_SOURCES = ["tests", "tools", "bindings-python", "examples", "benches"]
TARGETS = ["--workspace", "--lib", "--bins", "--tests"]


def command(*arguments: str, cwd: str = ".") -> Callable[[], str | None]:
    """Create a check that runs a program. It returns the program's output if the program fails."""

    def run() -> str | None:
        try:
            done = subprocess.run(
                arguments,
                cwd=ROOT / cwd,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
        except FileNotFoundError as error:
            return str(error)
        return None if done.returncode == 0 else done.stdout or f"exit status {done.returncode}"

    return run


def tool(name: str, *arguments: str, cwd: str = ".") -> Callable[[], str | None]:
    """Create a check that runs a program of the virtual environment."""
    return command(str(BIN / name), *arguments, cwd=cwd)


def shims() -> str | None:
    """Check that the stand-ins replace the crates of the same name. A lock file that is older than the patch
    ignores it silently.
    """
    listing = ["cargo", "metadata", "--locked", "--format-version=1"]
    metadata = json.loads(subprocess.run(listing, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    sources = {package["name"]: package["source"] for package in metadata["packages"]}
    problems = [
        f"{shim} is not ours: {sources.get(shim, 'missing')}"
        for shim in SHIMS
        if sources.get(shim, "") is not None
    ]
    problems += [
        f"{crate} is a dependency: the client crate must not bring a reactor" for crate in SMOL & set(sources)
    ]
    return "\n".join(problems) or None


def planted() -> str | None:
    """Check that no deliberate bugs are in core/src. They are planted from outside: core/tests/model,
    tests/mutants.
    """
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted((ROOT / "core" / "src").rglob("*.rs"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if "planted" in line
    ]
    return "\n".join(found) or None


def references() -> str | None:
    """Check that the functions named by the protocol exist."""
    return "\n".join(problems(ROOT)) or None


def tables() -> str | None:
    """Check that the tables of options and properties match docs/api.toml."""
    return "\n".join(stale_tables(ROOT)) or None


def documented() -> str | None:
    """Check that every public name is in a document and on its package's page."""
    return "\n".join(undocumented(ROOT) + unpublished(ROOT)) or None


def public_api() -> str | None:
    """Check that the public API is the same in all languages, except for the differences in docs/api.toml."""
    return "\n".join(api.problems(ROOT)) or None


@dataclass(frozen=True)
class Check:
    """A check with its name."""

    name: str
    run: Callable[[], str | None]


QUICK = [
    Check("rustfmt", command("cargo", "fmt", "--all", "--check")),
    Check(
        "rustfmt: simulation",
        command("cargo", "fmt", "--manifest-path", "tests/simulation/Cargo.toml", "--check"),
    ),
    Check(
        "rustfmt: threads", command("cargo", "fmt", "--manifest-path", "tests/threads/Cargo.toml", "--check")
    ),
    Check("rustfmt: fuzz", command("cargo", "fmt", "--manifest-path", "tests/fuzz/Cargo.toml", "--check")),
    Check("ruff", tool("ruff", "check", *PYTHON_SOURCES)),
    Check("ruff format", tool("ruff", "format", "--check", *PYTHON_SOURCES)),
    Check("layers: Rust", command(sys.executable, "tools/rust_layers.py")),
    Check(
        "layers: Python",
        command(
            *("env", "PYTHONPATH=.", "../../.venv/bin/lint-imports", "--no-cache", "../pyproject.toml"),
            cwd="bindings-python/python",
        ),
    ),
    Check("layers: Node", command("node_modules/.bin/depcruise", "src", cwd="bindings-node")),
    Check("spelling", tool("typos", "--config", "tools/typos.toml")),
    Check("planted", planted),
    Check("references", references),
    Check("documented", documented),
    Check("tables", tables),
    Check("markdown", command(sys.executable, "tools/markdown_width.py")),
    Check("links", command(sys.executable, "tools/links.py")),
    Check(
        "site", command("env", "NO_MKDOCS_2_WARNING=1", str(BIN / "mkdocs"), "build", "--strict", "--quiet")
    ),
    Check("clippy", command("cargo", "clippy", "--locked", *TARGETS, "--quiet", "--", "-D", "warnings")),
    # A separate workspace. Its lock file must follow those of core and of the embedded server.
    Check(
        "clippy: simulation",
        command(
            *("cargo", "clippy", "--locked", "--release", "--manifest-path", "tests/simulation/Cargo.toml"),
            *("--all-targets", "--quiet", "--", "-D", "warnings"),
        ),
    ),
    # These are separate workspaces, too. Their libraries contain core's modules, whose unit tests run in
    # core.
    Check(
        "clippy: threads",
        command(
            *("cargo", "clippy", "--locked", "--manifest-path", "tests/threads/Cargo.toml"),
            *("--lib", "--tests", "--quiet", "--", "-D", "warnings"),
        ),
    ),
    Check(
        "clippy: fuzz",
        command(
            *("cargo", "clippy", "--locked", "--manifest-path", "tests/fuzz/Cargo.toml"),
            *("--lib", "--tests", "--quiet", "--", "-D", "warnings"),
        ),
    ),
    Check("shims", shims),
    Check("notices", command(sys.executable, "tools/notices.py", "--check")),
    Check("licences, bans, sources", tool("cargo-deny", "--locked", "check", "licenses", "bans", "sources")),
    Check("mypy: tests", tool("mypy", "--strict", ".", cwd="tests")),
    Check("mypy: tools", tool("mypy", "--strict", "tools")),
    Check(
        "mypy: benches",
        tool("mypy", "--strict", "locks", "scale", "prepare.py", "counts.py", cwd="benches"),
    ),
    Check(
        "mypy: zklock", tool("mypy", "--strict", "-p", "zklock", "-p", "zklock_pytest", cwd="bindings-python")
    ),
    Check("mypy: examples", tool("mypy", "--strict", "../examples", cwd="bindings-python")),
]

# TypeScript needs the description of the addon, and the stub is compared with the extension.
BUILT = [
    Check("api", public_api),
    Check("node", command("npm", "run", "--silent", "lint", cwd="bindings-node")),
    Check("stubtest", tool("stubtest", "zklock", cwd="bindings-python")),
    Check(
        "node: examples",
        command(
            *("bindings-node/node_modules/.bin/eslint", "--config", "bindings-node/eslint.config.mjs"),
            *("--max-warnings", "0", "examples", "benches/locks/workers/node/*.mjs"),
        ),
    ),
]


def failures(checks: list[Check]) -> list[str]:
    """Run every check, even after one has failed. As many run in parallel as there are processors."""

    def timed(check: Check) -> tuple[str | None, float]:
        start = time.monotonic()
        return check.run(), time.monotonic() - start

    failed = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for check, (problem, took) in zip(checks, pool.map(timed, checks), strict=True):
            print(f"--- {check.name} ({took:.0f} s){'' if problem is None else ' FAILED'}", flush=True)
            if problem is not None:
                print(problem, flush=True)
                failed.append(check.name)
    return failed


def main() -> int:
    """Run the checks. Those that need a build run only if the others found nothing."""
    failed = failures(QUICK)
    if not failed:
        build = [sys.executable, str(ROOT / "tools" / "build.py"), "python", "node"]
        subprocess.run(build, cwd=ROOT, check=True)
        failed = failures(BUILT)
    if failed:
        print(f"lint failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
