"""Writes two lists of the crates in the wheel and the npm packages: one for readers, one for scanners.

The list for readers, THIRD-PARTY-NOTICES.txt, also contains the licenses. The list for scanners has the
format CycloneDX. With `--check`, the program writes nothing and fails if a list is out of date.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NOTICES = ROOT / "THIRD-PARTY-NOTICES.txt"
SBOM = ROOT / "bindings-python" / "zklock.cdx.json"
LINKED = (
    "tree -p zklock-python -p zklock-node -p zklock-cli --edges normal,no-proc-macro --prefix none "
    "--target x86_64-unknown-linux-gnu --target x86_64-unknown-linux-musl --target aarch64-apple-darwin "
    "--target x86_64-pc-windows-msvc"
)
TEXTS = re.compile(r"(?i)licen[cs]e|copying|notice|unlicense")
# Files with notices about third-party code in a crate. They are needed under every license.
ALWAYS = re.compile(r"(?i)notice|.*third-party")
MIT = re.compile(r"(?s)Permission is hereby granted, free of charge.*IN THE\s+SOFTWARE\.")
HEAD = """\
The zklock packages for Python and Node contain compiled code of the following projects, and of the
standard library of Rust (https://github.com/rust-lang/rust, MIT OR Apache-2.0). Where a project offers a
choice, we take the Apache License 2.0. This file is generated: `make notices`.
"""


def cargo(arguments: str) -> str:
    """Return the output of cargo."""
    command = ["cargo", *arguments.split(), "--locked"]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def bill_of_materials(packages: list[dict[str, Any]]) -> str:
    """Return the list in CycloneDX's format.

    The list is the same on every machine. Standard tools would add times, paths or random numbers to it, and
    the packages would not be reproducible.
    """
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    hashes = {(one["name"], one["version"]): one.get("checksum") for one in locked}
    components = []
    for package in sorted(packages, key=lambda one: (one["name"], one["version"])):
        name, version = package["name"], package["version"]
        purl = f"pkg:cargo/{name}@{version}"
        component: dict[str, Any] = {
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": version,
            "purl": purl,
        }
        component |= {"licenses": [{"expression": package["license"].replace("/", " OR ")}]}
        if checksum := hashes[name, version]:
            component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        components.append(component)
    ours = next(one["version"] for one in packages if one["name"] == "zklock")
    subject = {"type": "library", "bom-ref": "zklock", "name": "zklock", "version": ours}
    bill = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"component": subject}}
    return json.dumps(bill | {"components": components}, indent=1) + "\n"


def main() -> None:
    """Write or check the file."""
    tree = re.findall(r"^(\S+) v(\S+)(?: \((.*)\))?$", cargo(LINKED), re.MULTILINE)
    ours = {(name, version) for name, version, where in tree if where.startswith("/")}
    linked = {(name, version) for name, version, _ in tree}
    metadata = json.loads(cargo("metadata --format-version=1"))["packages"]
    packages = [one for one in metadata if (one["name"], one["version"]) in linked]
    bearers: dict[str, list[str]] = defaultdict(list)
    for package in packages:
        terms, folder = package["license"], Path(package["manifest_path"]).parent
        if (package["name"], package["version"]) in ours:
            continue
        files = sorted(path for path in folder.iterdir() if TEXTS.match(path.name))
        texts = [path.read_text(errors="replace") for path in files]
        if "Apache-2.0" in re.split(r" OR |/", terms):
            texts = [(ROOT / "LICENSE").read_text()]
            texts += [path.read_text(errors="replace") for path in files if ALWAYS.match(path.name)]
        elif not texts and terms == "MIT":
            # A few crates name the license but do not contain its text. The text is added below, from another
            # crate.
            texts = [f"Copyright (c) {', '.join(package['authors']) or package['repository']}"]
        elif not texts:
            raise SystemExit(f"{package['name']} {package['version']} ({terms}) contains no license text")
        name = f"{package['name']} {package['version']} ({terms}) {package['repository'] or ''}".rstrip()
        for text in texts:
            bearers["\n".join(line.rstrip() for line in text.strip().splitlines())].append(name)
    mit = next(found[0] for found in map(MIT.search, sorted(bearers)) if found)
    parts = [HEAD]
    for text, names in sorted(bearers.items(), key=lambda item: (-len(item[1]), item[1])):
        parts.append("\n".join([*names, "", text if "\n" in text else f"{text}\n\n{mit}", ""]))
    content = f"\n{'-' * 100}\n\n".join(parts)
    for file, wanted in ((NOTICES, content), (SBOM, bill_of_materials(packages))):
        if "--check" not in sys.argv:
            file.write_text(wanted)
        elif file.read_text() != wanted:
            raise SystemExit(f"{file.name} is out of date: run `make notices`, and look at the difference")


if __name__ == "__main__":
    main()
