"""Packs everything that is published, for this platform: wheel, source distribution, npm packages and crates.

`make dist` builds for publishing and packs into `dist`. `make packages` packs debug builds, which the tests
install. It compiles nothing that the tests have not compiled.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pack_node
import pack_python
from parts import BUILT, PACKAGE, PARTS, ROOT

DIST = ROOT / "dist"
PACKAGES = BUILT / "packages"
PROFILE = "dist"
"""Cargo profile for publishing; see Cargo.toml."""

CRATES = ("zklock-jute", "zklock-transport", "zklock", "zklock-embedded", "zklock-cli")
"""The published crates. The stand-ins are not published: they are patched in from the repository."""


@dataclass(frozen=True)
class Build:
    """The files that cargo has built."""

    profile: str
    command: Path
    python: Path
    node: Path
    types: Path | None
    """The addon's type definitions from the macros, if its JavaScript must be compiled as well."""


def released() -> Build:
    """Build for publishing. All three packages are built together, so that their common dependencies are
    compiled only once.
    """
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    types = target / PROFILE / "napi"
    # When the macros are expanded, they append to these files. This must happen only once.
    shutil.rmtree(types, ignore_errors=True)
    types.mkdir(parents=True)
    print("building for publishing: minutes", flush=True)
    env = {"NAPI_TYPE_DEF_TMP_FOLDER": str(types), "NAPI_FORCE_BUILD_ZKLOCK_NODE": str(time.time_ns())}
    packages = ("--package=zklock-cli", "--package=zklock-python", "--package=zklock-node")
    command = ["cargo", "build", "--locked", "--profile", PROFILE, *packages]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, **env})
    built = target / PROFILE
    suffix = "dylib" if sys.platform == "darwin" else "so"
    extension, addon = built / f"lib_zklock.{suffix}", built / f"libzklock_node.{suffix}"
    return Build(PROFILE, built / "zklock", extension, addon, types)


def debug(scratch: Path) -> Build:
    """Return the builds for tests, without their debug symbols, which make up most of their size."""
    (python,) = PARTS["python"].products
    (node,) = (PACKAGE / "addon").glob("*.node")

    def stripped(name: str, source: Path) -> Path:
        copied = Path(shutil.copy2(source, scratch / name))
        subprocess.run(["strip", "-S", copied], check=True)
        return copied

    command, extension = stripped("command", BUILT / "zklock"), stripped("python", python)
    return Build("dev", command, extension, stripped("node", node), None)


def crates(out: Path) -> None:
    """Pack the crates. Their use in tests/consumers/rust shows whether they build."""
    with TemporaryDirectory() as scratch:
        names = [f"--package={name}" for name in CRATES]
        command = ["cargo", "package", "--no-verify", "--allow-dirty", "--quiet", *names]
        command += ["--target-dir", scratch]
        # The cached index of the registry is enough, except for the first time.
        for more in (["--offline"], []):
            done = subprocess.run([*command, *more], cwd=ROOT, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                break
        else:
            raise SystemExit(f"cargo package failed:\n{done.stderr}")
        for crate in Path(scratch, "package").glob("*.crate"):
            shutil.copy2(crate, out / crate.name)


def pack(build: Build, out: Path) -> None:
    """Pack everything into a directory, which is emptied first."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    native = pack_node.Native(build.node, build.command)
    steps: dict[str, Callable[[], None]] = {
        "wheel": lambda: pack_python.wheel(build.python, build.command, build.profile, out),
        "source distribution": lambda: pack_python.sdist(out),
        "npm packages": lambda: pack_node.packages({pack_node.host(): native}, build.types, out),
        "crates": lambda: crates(out),
    }
    for what, step in steps.items():
        began = time.monotonic()
        step()
        print(f"packed the {what} in {time.monotonic() - began:.0f} s", flush=True)


def main() -> int:
    """Pack for publishing; with `--debug` for tests; with `--portable OUT` only the platform-independent
    packages.
    """
    if sys.argv[1:] == ["--debug"]:
        with TemporaryDirectory() as scratch:
            pack(debug(Path(scratch)), PACKAGES)
        return 0
    if sys.argv[1:2] == ["--portable"]:
        out = Path(sys.argv[2]).resolve()
        out.mkdir(parents=True, exist_ok=True)
        pack_python.sdist(out)
        crates(out)
        return 0
    pack(released(), DIST)
    for file in sorted(DIST.iterdir()):
        print(f"{file.stat().st_size / 1e6:6.2f} MB  {file.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
