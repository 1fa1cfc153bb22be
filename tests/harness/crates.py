"""Unpacks our packaged crates, and builds programs that depend on them with the oldest supported Rust."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tomllib
import warnings
from pathlib import Path

from harness.installed import packages, run
from harness.paths import REPOSITORY

HERE = REPOSITORY / ".make" / "crates"
DEBIAN = REPOSITORY / ".make" / "msrv" / "debian"
"""Directory of the unpacked Debian packages. Installing them would require root; unpacking does not."""

LIMIT = 600.0
"""Timeout of a build, in seconds. The first build takes a minute of processor time, later builds a second."""


def unpack(archive: Path) -> tuple[str, Path]:
    """Unpack an archive. Return the name of the crate and the directory of its sources.

    Write only changed files, because cargo rebuilds a crate if a file has a new modification time. The times
    in the archive are useless: they are the same for all files.
    """
    with tarfile.open(archive) as packed:
        files = {HERE / member.name: packed.extractfile(member) for member in packed.getmembers()}
        contents = {path: file.read() for path, file in files.items() if file is not None}
    top = HERE / next(iter(contents)).relative_to(HERE).parts[0]
    for path in [path for path in top.rglob("*") if path.is_file() and path not in contents]:
        path.unlink()
    for path, content in contents.items():
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return top.name.rpartition("-")[0], top


def published() -> dict[str, Path]:
    """Return every published crate."""
    return dict(unpack(archive) for archive in sorted(packages().glob("*.crate")))


def in_place_of_the_registry(names: list[str]) -> list[str]:
    """Return options that make cargo use our unpacked crates instead of the crates in the registry.

    The registry might have only older versions of them, or none.
    """
    crates = published()
    return [word for name in names for word in ("--config", f'patch.crates-io.{name}.path="{crates[name]}"')]


def unpack_debian(version: str) -> None:
    """Unpack Debian's compiler of this version, with the libraries that this machine lacks."""
    arrived = DEBIAN.parent / "packages"
    shutil.rmtree(arrived, ignore_errors=True)
    (arrived / "partial").mkdir(parents=True)
    options = (f"Dir::Cache::Archives={arrived}", "Debug::NoLocking=1", "APT::Sandbox::User=")
    names = ("rustc-web", "cargo-web", "libstd-rust-web-dev", f"libstd-rust-web-{version}")
    apt = ("apt-get", "-qq", *(f"-o{option}" for option in options), "install", "--yes", "--download-only")
    install = (*apt, "--no-install-recommends", *(f"{name}={version}.*" for name in names))
    try:
        run(*install, cwd=arrived)
    except AssertionError:
        # Debian 13 has it as its main version.
        run(*(word.replace("-web", "") for word in install), cwd=arrived)
    for package in arrived.glob("*.deb"):
        run("dpkg-deb", "-x", package, DEBIAN, cwd=arrived)
    shutil.rmtree(arrived)


def toolchain() -> dict[str, str]:
    """Return environment variables that select the oldest supported Rust, from rustup or Debian.

    If neither has that version, warn, and select the current version.
    """
    manifest = tomllib.loads((REPOSITORY / "Cargo.toml").read_text())
    version: str = manifest["workspace"]["package"]["rust-version"]
    libraries = [str(path) for path in (*DEBIAN.glob("usr/lib/*-linux-gnu"), *DEBIAN.glob("lib/*-linux-gnu"))]
    rustup = {"RUSTUP_TOOLCHAIN": version, "RUSTUP_AUTO_INSTALL": "0"}
    debian = {
        "PATH": f"{DEBIAN / 'usr' / 'bin'}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": ":".join(libraries),
    }
    for more in (rustup, debian):
        said = subprocess.run(
            ["rustc", "--version"], env=os.environ | more, capture_output=True, text=True, check=False
        )
        if said.stdout.startswith(f"rustc {version}."):
            return more
    if shutil.which("apt-get") is not None and not DEBIAN.exists():
        try:
            unpack_debian(version)
        except AssertionError as problem:
            warnings.warn(str(problem), stacklevel=1)
        else:
            return toolchain()
    warnings.warn(f"Rust {version} is not available: the current one is used", stacklevel=1)
    return {}


def build(manifest: Path, *options: str) -> Path:
    """Build a program that depends on our crates, with the oldest supported Rust.

    A warning in one of our crates is an error.
    """
    env = toolchain()
    target = REPOSITORY / ".make" / "msrv" / ("target" if env else "target-current")
    env |= {"CARGO_TARGET_DIR": str(target), "RUSTFLAGS": "-D warnings"}
    run("cargo", "build", "--locked", "--quiet", *options, cwd=manifest.parent, env=env, limit=LIMIT)
    return target / "debug" / manifest.parent.name
