"""Finds the oldest Rust version that the crate supports, from rustup or Debian."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

from suites import ROOT, run

HERE = ROOT / ".make" / "msrv"
DEBIAN = HERE / "debian"
"""Directory for the content of Debian's packages. They are unpacked instead of installed, which needs no
root.
"""

LIMIT = 600.0
"""Timeout of a build, in seconds. It takes a minute of processor time at first, and a second afterwards."""


def minimum() -> str:
    """Return the oldest version, from the crate's manifest."""
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text())
    version: str = manifest["workspace"]["package"]["rust-version"]
    return version


def output(*command: str, cwd: Path = ROOT) -> str:
    """Return a program's output, or an empty string if it fails or does not exist."""
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else ""


def from_rustup(version: str) -> dict[str, str] | None:
    """Return the environment for rustup's toolchain of this version, or None."""
    for line in output("rustup", "toolchain", "list").splitlines():
        name = line.split()[0] if line.split() else ""
        if re.match(rf"{re.escape(version)}(\.\d+)?(-|$)", name):
            return {"RUSTUP_TOOLCHAIN": name}
    return None


def debian_packages(version: str) -> list[str]:
    """Return the Debian packages of this version with their exact versions, or none if Debian does not have
    it.
    """
    for suffix in ("-web", ""):
        for line in output("apt-cache", "madison", f"rustc{suffix}").splitlines():
            package, found, *_ = (part.strip() for part in line.split("|"))
            if package == f"rustc{suffix}" and found.startswith(f"{version}."):
                names = [
                    package,
                    f"libstd-rust{suffix}-dev",
                    f"libstd-rust{suffix}-{version}",
                    f"cargo{suffix}",
                ]
                return [f"{name}={found}" for name in names]
    return []


def unpack(packages: list[str]) -> None:
    """Download and unpack packages, with the libraries that this machine lacks."""
    known = {package.partition("=")[0] for package in packages}
    while packages:
        arrived = HERE / "packages"
        shutil.rmtree(arrived, ignore_errors=True)
        arrived.mkdir(parents=True)
        output("apt-get", "download", *packages, cwd=arrived)
        packages = []
        for file in sorted(arrived.glob("*.deb")):
            output("dpkg-deb", "-x", str(file), str(DEBIAN))
            for dependency in output("dpkg-deb", "-f", str(file), "Depends").split(","):
                # The first of several alternatives, without its version.
                name = re.split(r"[ |(:]", dependency.strip())[0]
                if name and name not in known:
                    known.add(name)
                    if "installed" not in output("dpkg-query", "-W", "-f", "${Status}", name):
                        packages.append(name)
    shutil.rmtree(HERE / "packages", ignore_errors=True)


def from_debian(version: str) -> dict[str, str] | None:
    """Return the environment for Debian's unpacked compiler, or None if Debian does not have this version."""
    rustc = DEBIAN / "usr" / "bin" / "rustc"
    libraries = [str(path) for path in (DEBIAN / "usr" / "lib", DEBIAN / "lib")]
    machine = output("dpkg-architecture", "-q", "DEB_HOST_MULTIARCH").strip() or "x86_64-linux-gnu"
    env = {
        "LD_LIBRARY_PATH": ":".join(f"{path}/{machine}" for path in libraries),
        "PATH": f"{rustc.parent}:{os.environ['PATH']}",
        "RUSTC": str(rustc),
    }

    def works() -> bool:
        if not rustc.exists():
            return False
        said = subprocess.run(
            [str(rustc), "--version"], env=os.environ | env, capture_output=True, text=True, check=False
        )
        return f"rustc {version}." in said.stdout

    if not works():
        if not (packages := debian_packages(version)):
            return None
        unpack(packages)
    return env if works() else None


def toolchain() -> dict[str, str] | None:
    """Return the environment for cargo of the oldest version, or None if it is not available."""
    version = minimum()
    env = from_rustup(version) or from_debian(version)
    if env is None:
        print(
            f"Rust {version}, the oldest that the crate states, is not here: the current one is used. "
            f"For the real check run: rustup toolchain install {version} --profile minimal",
            flush=True,
        )
    return env


def build(manifest: Path, *options: str, env: dict[str, str] | None) -> Path:
    """Build a program that depends on the crates as a user's program does. A warning in one of our crates is
    an error.
    """
    target = HERE / ("target-current" if env is None else "target")
    more = {"CARGO_TARGET_DIR": str(target), "RUSTFLAGS": "-D warnings"}
    command = ["cargo", "build", "--locked", "--quiet", *options]
    code, text = run(command, cwd=manifest.parent, limit=LIMIT, quiet=True, env=(env or {}) | more)
    if code != 0:
        raise AssertionError(f"{' '.join(command)} in {manifest.parent} with Rust {minimum()}:\n{text}")
    return target / "debug" / manifest.parent.name
