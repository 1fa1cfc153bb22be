"""Builds the optimized programs for `make bench`: python3 benches/prepare.py. Prints the names of the
programs that cannot be built on this machine.

zklock and the client alone are built with the profile of the published packages. The products are in
`benches/target`, except cargo's, which are in `target/dist`. The debug builds for the tests are not changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

BENCHES = Path(__file__).resolve().parent
ROOT = BENCHES.parent
sys.path.insert(0, str(ROOT / "tools"))

from parts import BUILT, PARTS, STAMPS  # noqa: E402

TARGET = BENCHES / "target"
WORKERS = BENCHES / "locks" / "workers"
DIST = ROOT / "target" / "dist"
VENV = STAMPS / "bench"
PACKAGES = ("zklock-python", "zklock-node", "zklock-worker", "zklock-bench-locks")


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    """Run a command. End the program if it fails."""
    if subprocess.run(command, cwd=cwd, check=False).returncode != 0:
        raise SystemExit(f"failed: {' '.join(map(str, command))}")


def library(name: str) -> Path:
    """Return the path of a shared library that cargo has built."""
    found = [DIST / f"lib{name}{suffix}" for suffix in (".so", ".dylib")]
    return next((path for path in found if path.exists()), found[0])


def rust() -> None:
    """Build the workers and both bindings in one call. With separate calls cargo might build a dependency
    several times, each time with different features.
    """
    packages = [f"--package={name}" for name in PACKAGES]
    run("cargo", "build", "--locked", "--quiet", "--profile", "dist", *packages)


def python() -> None:
    """Copy the Python package with the optimized extension."""
    package = TARGET / "python" / "zklock"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(
        ROOT / "bindings-python" / "python" / "zklock",
        package,
        ignore=shutil.ignore_patterns("*.so", "__pycache__"),
    )
    shutil.copy2(library("_zklock"), package / "_zklock.abi3.so")


def node() -> None:
    """Copy the Node package with the optimized addon."""
    source, package = ROOT / "bindings-node", TARGET / "node"
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    for name in ("package.json", "index.mjs"):
        shutil.copy2(source / name, package / name)
    for name in ("dist", "addon"):
        shutil.copytree(source / name, package / name)
    (addon,) = (package / "addon").glob("*.node")
    shutil.copy2(library("zklock_node"), addon)


def java() -> None:
    """Build the workers that use Curator."""
    run("make", "--no-print-directory", "java")
    classes = TARGET / "classes"
    classes.mkdir(parents=True, exist_ok=True)
    sources = sorted((WORKERS / "java").glob("*.java"))
    run(
        *("javac", "-Xlint:all,-processing,-classfile", "-Werror", "-proc:none", "--release", "17"),
        *("-d", classes, "-cp", f"{BUILT / 'lib'}/*"),
        *sources,
    )


def go() -> None:
    """Build the workers that use go-zookeeper and etcd's client."""
    run("make", "--no-print-directory", "go")
    programs = ("./zookeeper", "./etcd", "./etcd-line")
    run("go", "build", "-trimpath", "-buildvcs=false", "-o", f"{TARGET}/", *programs, cwd=WORKERS / "go")


def servers() -> None:
    """Unpack the programs of the other systems now, so that the benchmark run need not download them."""
    path = os.pathsep.join(str(ROOT / one) for one in ("benches", "tests", "tools"))
    packages = (VENV / "bin" / "python", "-m", "locks.packages")
    subprocess.run(packages, check=True, cwd=BENCHES, env={**os.environ, "PYTHONPATH": path})


def main() -> int:
    """Build everything that can be built here."""
    if (lacking := PARTS["jars"].lacking()) is not None:
        raise SystemExit(f"the benchmark needs {lacking}")
    run("make", "--no-print-directory", "jars", "node", "bench-tools")
    TARGET.mkdir(exist_ok=True)
    os.environ.pop("NAPI_TYPE_DEF_TMP_FOLDER", None)
    rust()
    python()
    node()
    for program, make in (("javac", java), ("go", go)):
        if shutil.which(program) is None:
            print(f"not built: programs that need {program} on the PATH", flush=True)
        else:
            make()
    servers()
    return 0


if __name__ == "__main__":
    sys.exit(main())
