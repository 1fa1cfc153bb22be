"""Packs the npm package and the platform packages in the form that napi-rs defines."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "bindings-node"
TEXTS = ("LICENSE", "THIRD-PARTY-NOTICES.txt")
ENTRIES = ("index", "opentelemetry", "prometheus", "testing")
SOURCES = ("README.md", "bin", *(f"{entry}.{form}" for entry in ENTRIES for form in ("mjs", "d.mts")))
COMPILED = ("src", "tsconfig.json", "describe.mjs")
"""The sources that are compiled again for publishing."""
UNPUBLISHED = ("scripts", "devDependencies", "napi")
"""The entries of `package.json` that only developers of the package need."""


@dataclass(frozen=True)
class Native:
    """The compiled files of one platform."""

    addon: Path
    command: Path


def run(*command: str | Path, cwd: Path) -> str:
    """Run a program that must succeed. Return its output."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}")
    return done.stdout


def copy(source: Path, destination: Path) -> None:
    """Copy a file or a directory."""
    if source.is_dir():
        shutil.copytree(source, destination)
    else:
        shutil.copy2(source, destination)


def read(manifest: Path) -> dict[str, Any]:
    """Read a `package.json`."""
    read: dict[str, Any] = json.loads(manifest.read_text())
    return read


def write(manifest: Path, content: dict[str, Any]) -> None:
    """Write a `package.json` in npm's format."""
    manifest.write_text(json.dumps(content, indent=2) + "\n")


def platform_package(stage: Path, name: str, native: Native, out: Path) -> None:
    """Pack the package of a platform, such as linux-x64-gnu."""
    here = stage / "npm" / name
    copy(native.addon, here / f"zklock.{name}.node")
    copy(native.command, here / "zklock")
    (here / "zklock").chmod(0o755)
    manifest = read(here / "package.json")
    manifest["type"] = "commonjs"
    manifest["description"] = f"The native parts of the npm package zklock for {name}"
    for text in TEXTS:
        copy(ROOT / text, here / text)
    manifest["files"] += ["zklock", "THIRD-PARTY-NOTICES.txt"]
    write(here / "package.json", manifest)
    run("npm", "pack", "--silent", "--pack-destination", out, cwd=here)


def compile_package(stage: Path, library: Path, types: Path) -> None:
    """Compile the JavaScript next to an addon, as `make node` does in the source tree."""
    for name in COMPILED:
        copy(PACKAGE / name, stage / name)
    run("node", "describe.mjs", types, library, cwd=stage)
    run(stage / "node_modules" / ".bin" / "tsc", "--project", "tsconfig.json", cwd=stage)


def host() -> str:
    """Return napi's name of this platform, such as linux-x64-gnu."""
    (triple,) = re.findall(r"^host: (.*)$", run("rustc", "-vV", cwd=ROOT), re.MULTILINE)
    ask = "import { parseTriple } from '@napi-rs/cli'; "
    ask += "console.log(parseTriple(process.argv[1]).platformArchABI)"
    return run("node", "--input-type=module", "--eval", ask, triple, cwd=PACKAGE).strip()


def packages(natives: dict[str, Native], types: Path | None, out: Path) -> None:
    """Pack the package, and that of each platform.

    Without `types` from the macros, the existing JavaScript build is packed. With them, the JavaScript is
    compiled next to one of the addons.
    """
    with TemporaryDirectory() as scratch:
        stage = Path(scratch, "zklock")
        stage.mkdir()
        for name in SOURCES:
            copy(PACKAGE / name, stage / name)
        for text in TEXTS:
            copy(ROOT / text, stage / text)
        manifest = read(PACKAGE / "package.json")
        write(stage / "package.json", manifest)
        (stage / "node_modules").symlink_to(PACKAGE / "node_modules")
        if types is None:
            copy(PACKAGE / "dist", stage / "dist")
            (stage / "addon").mkdir()
            for name in ("index.js", "index.d.ts"):
                copy(PACKAGE / "addon" / name, stage / "addon" / name)
        else:
            compile_package(stage, next(iter(natives.values())).addon, types)
        run(stage / "node_modules" / ".bin" / "napi", "create-npm-dirs", cwd=stage)
        for name, native in natives.items():
            platform_package(stage, name, native, out)
        names = sorted(read(one)["name"] for one in (stage / "npm").glob("*/package.json"))
        for key in UNPUBLISHED:
            del manifest[key]
        manifest["files"] = [name for name in manifest["files"] if not name.endswith(".node")]
        manifest["optionalDependencies"] = dict.fromkeys(names, manifest["version"])
        write(stage / "package.json", manifest)
        run("npm", "pack", "--silent", "--pack-destination", out, cwd=stage)


def main() -> int:
    """Pack the builds of several machines: `pack_node.py NATIVES OUT`.

    NATIVES contains a directory for each platform, named as napi does, with `zklock.node`, `zklock` and
    `types`.
    """
    found, out = Path(sys.argv[1]), Path(sys.argv[2]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    natives = {one.name: Native(one / "zklock.node", one / "zklock") for one in sorted(found.iterdir())}
    packages(natives, (found / next(iter(natives)) / "types").resolve(), out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
