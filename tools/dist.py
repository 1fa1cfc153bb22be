"""Packs all published packages for this platform: wheel, source distribution, npm packages and crates.

`make dist` builds for publishing and packs into `dist`. With `--debug`, it packs debug builds for tests.

`--portable NATIVES` packs everything except the wheel, for the release workflow. NATIVES has a directory for
each platform, named as napi does, with the addon as `zklock.node` and the command as `zklock` or
`zklock.exe`.

`--wheel TRIPLE EXTENSION COMMAND OUT` packs a wheel for another platform from debug builds of the extension
and the command, for `make platforms`.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
NODE = ROOT / "bindings-node"
PYTHON = ROOT / "bindings-python"
TESTED = ROOT / "tests" / "target"
DATA = PYTHON / "zklock._zklock.data"
"""Directory of the programs in the wheel. pip installs them next to Python. Maturin packs it if it exists."""
PUBLISHED = {"access": "public", "provenance": True}
"""Settings of `npm publish`."""
CRATES = ("zklock-jute", "zklock-transport", "zklock", "zklock-embedded", "zklock-cli")
"""The published crates. The stand-ins in core/shims are not published: only this workspace uses them."""


def settings() -> dict[str, str]:
    """Return environment variables for a build whose result depends neither on the directories nor on the
    time. `make reproduce` builds twice and compares.
    """
    homes = {ROOT: "/zklock", Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")): "/cargo"}
    names = [f"{home}={name}" for home, name in homes.items()]
    given = {
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(f"--remap-path-prefix={name}" for name in names),
        "CFLAGS": " ".join(f"-ffile-prefix-map={name}" for name in names),
    }
    if (ROOT / ".git").exists():
        # Maturin stores this time in the wheel, with each file.
        given["SOURCE_DATE_EPOCH"] = run("git", "log", "-1", "--format=%ct").strip()
    if "RUSTFLAGS" in os.environ:
        # Cargo would ignore these flags, because it prefers the encoded ones.
        del given["CARGO_ENCODED_RUSTFLAGS"]
    return {name: value for name, value in given.items() if name not in os.environ}


def run(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    """Run a program and return its output. If it fails, exit with the output of both streams."""
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | (env or {}), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def wheel(extension: Path, command: Path, out: Path, profile: str, options: tuple[str, ...] = ()) -> None:
    """Pack the wheel with the files that cargo has built. `options` are passed to Maturin.

    Maturin reads cargo's message about the extension from a file instead of running cargo. If it ran cargo
    for this one crate, cargo would choose other features for the dependencies and compile all of them again.
    """
    listing = json.loads(run("cargo", "metadata", "--locked", "--no-deps", "--format-version=1"))
    (package,) = [one for one in listing["packages"] if one["name"] == "zklock-python"]
    artifact = {
        "reason": "compiler-artifact",
        "package_id": package["id"],
        "manifest_path": package["manifest_path"],
        "target": next(one for one in package["targets"] if one["name"] == "_zklock"),
        "profile": {"opt_level": "0", "debug_assertions": True, "overflow_checks": True, "test": False},
        "features": [],
        "filenames": [str(extension)],
        "executable": None,
        "fresh": True,
    }
    messages, cargo = extension.with_name("messages"), extension.with_name("cargo")
    messages.write_text(f'{json.dumps(artifact)}\n{{"reason": "build-finished", "success": true}}\n')
    cargo.write_text(f"#!/bin/sh\nexec cat {shlex.quote(str(messages))}\n")
    cargo.chmod(0o755)
    (DATA / "scripts").mkdir(parents=True, exist_ok=True)
    shutil.copy2(command, DATA / "scripts" / f"zklock{command.suffix}")
    try:
        # The default level makes the wheel 3 % larger, more than the limit of its size.
        build = ("-m", "maturin", "build", "--profile", profile, "--compression-level", "9", *options)
        run(sys.executable, *build, "--out", out, cwd=PYTHON, env={"CARGO": str(cargo)})
    finally:
        shutil.rmtree(DATA)


def npm_packages(natives: Path, out: Path) -> None:
    """Pack the npm package with the JavaScript of the source tree, and the packages of the platforms."""
    with TemporaryDirectory() as scratch:
        run("npm", "pack", "--pack-destination", scratch, cwd=NODE)
        (packed,) = Path(scratch).glob("*.tgz")
        shutil.unpack_archive(packed, scratch)
        package = Path(scratch, "package")
        run(NODE / "node_modules" / ".bin" / "napi", "create-npm-dirs", "--cwd", package)
        manifest = json.loads((package / "package.json").read_text())
        for key in ("scripts", "devDependencies", "napi"):
            del manifest[key]
        names = sorted(f"zklock-{directory.name}" for directory in (package / "npm").iterdir())
        manifest["optionalDependencies"] = dict.fromkeys(names, manifest["version"])
        (package / "package.json").write_text(json.dumps(manifest, indent=2) + "\n")
        run("npm", "pack", "--pack-destination", out, cwd=package)
        for native in natives.iterdir():
            here = package / "npm" / native.name
            manifest = json.loads((here / "package.json").read_text())
            manifest["description"] = f"The native parts of the npm package zklock for {native.name}"
            (command,) = (
                file for file in native.iterdir() if file.stem == "zklock" and file.suffix in ("", ".exe")
            )
            manifest["files"] += [command.name, "THIRD-PARTY-NOTICES.txt", "zklock.cdx.json"]
            manifest["publishConfig"] = PUBLISHED
            if command.suffix:
                # The main package's command is a script for sh, which Windows does not have.
                manifest["bin"] = {manifest["name"]: command.name}
            (here / "package.json").write_text(json.dumps(manifest, indent=2) + "\n")
            shutil.copy2(native / "zklock.node", here / f"zklock.{native.name}.node")
            shutil.copy2(command, here)
            (here / command.name).chmod(0o755)
            for text in ("LICENSE", "THIRD-PARTY-NOTICES.txt", "bindings-python/zklock.cdx.json"):
                shutil.copy2(ROOT / text, here)
            run("npm", "pack", "--pack-destination", out, cwd=here)


def portable(natives: Path, out: Path) -> None:
    """Pack the npm packages, the sources of the Python package, and the crates."""
    npm_packages(natives, out)
    run(sys.executable, "-m", "maturin", "sdist", "--out", out, cwd=PYTHON)
    with TemporaryDirectory() as scratch:
        names = [f"--package={name}" for name in CRATES]
        package = ("cargo", "package", "--no-verify", "--allow-dirty", *names, "--target-dir", scratch)
        try:
            # Try with the cached index of the registry first. It is missing only on the first run.
            run(*package, "--offline")
        except SystemExit:
            run(*package)
        for crate in Path(scratch, "package").glob("*.crate"):
            shutil.copy2(crate, out)


def main() -> None:
    """Build, if necessary, and pack."""
    if sys.argv[1:2] == ["--wheel"]:
        extension, command, out = map(Path, sys.argv[3:])
        wheel(extension, command, out, "dev", ("--target", sys.argv[2], "--auditwheel", "skip"))
        return
    debug = sys.argv[1:] == ["--debug"]
    if not debug:
        os.environ.update(settings())
    out = TESTED / "packages" if debug else ROOT / "dist"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    if sys.argv[1:2] == ["--portable"]:
        portable(Path(sys.argv[2]), out)
        return
    # Named by napi: zklock.linux-x64-gnu.node
    (addon,) = (NODE / "addon").glob("zklock.*.node")
    built = (PYTHON / "python" / "zklock" / "_zklock.abi3.so", TESTED / "zklock", addon)
    if not debug:
        print("building for publishing: minutes", flush=True)
        # Build the libraries together, so that their common dependencies are compiled only once.
        for profile, names in (("dist", ("zklock-python", "zklock-node")), ("command", ("zklock-cli",))):
            packages = [f"--package={name}" for name in names]
            build = ("cargo", "build", "--locked", f"--profile={profile}", *packages)
            subprocess.run(build, cwd=ROOT, check=True)
        suffix = "dylib" if sys.platform == "darwin" else "so"
        target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        libraries = [target / "dist" / f"{name}.{suffix}" for name in ("lib_zklock", "libzklock_node")]
        built = (libraries[0], target / "command" / "zklock", libraries[1])
    with TemporaryDirectory() as scratch:
        natives = Path(scratch, "natives")
        here = natives / addon.name.split(".")[1]
        here.mkdir(parents=True)
        copies = (Path(scratch, "lib_zklock.so"), here / "zklock", here / "zklock.node")
        for source, copy in zip(built, copies, strict=True):
            shutil.copy2(source, copy)
            if debug:
                # Remove the debug symbols, which are most of the size of a debug build.
                run("strip", "-S", copy)
        wheel(copies[0], copies[1], out, "dev" if debug else "dist")
        portable(natives, out)
    for file in sorted(out.iterdir()):
        print(f"{file.stat().st_size / 1e6:6.2f} MB  {file.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
