"""Writes THIRD-PARTY-NOTICES.txt: the licenses of all crates that are linked into wheel and npm packages.

With `--check`, it fails if the file is out of date instead.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTICES = ROOT / "THIRD-PARTY-NOTICES.txt"
LINKED = (
    "tree -p zklock-python -p zklock-node -p zklock-cli --edges normal,no-proc-macro --prefix none "
    "--target x86_64-unknown-linux-gnu --target x86_64-unknown-linux-musl --target aarch64-apple-darwin"
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


def main() -> None:
    """Write or check the file."""
    linked = set(re.findall(r"^(\S+) v(\S+)(?: \(\*\))?$", cargo(LINKED), re.MULTILINE))
    bearers: dict[str, list[str]] = defaultdict(list)
    for package in json.loads(cargo("metadata --format-version=1"))["packages"]:
        terms, folder = package["license"], Path(package["manifest_path"]).parent
        if (package["name"], package["version"]) not in linked:
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
    if "--check" not in sys.argv:
        NOTICES.write_text(content)
    elif NOTICES.read_text() != content:
        raise SystemExit(f"{NOTICES.name} is out of date: run `make notices`, and look at the difference")


if __name__ == "__main__":
    main()
