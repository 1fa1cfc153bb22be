"""Collects the licenses of everything that is linked into the wheel and the npm package in one file, which
both contain.

`make notices` writes the file, and `make lint` fails when it is out of date. It contains the information of
`cargo metadata` about the crates in the lock file, and their license texts. Crates that run only during a
build (procedural macros, build scripts) are not distributed, so they are left out.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NOTICES = ROOT / "THIRD-PARTY-NOTICES.txt"

# The packages that are published in binary form, and their systems.
PUBLISHED = ("zklock-python", "zklock-node", "zklock-cli")
TARGETS = ("x86_64-unknown-linux-gnu", "x86_64-unknown-linux-musl", "aarch64-apple-darwin")

TEXTS = re.compile(r"(?i)^(licen[cs]e|copying|notice|unlicense)")
# Notices about third-party code in a crate, which are needed whatever license is chosen.
ALWAYS = re.compile(r"(?i)^notice|third-party")

HEAD = """\
The zklock packages for Python and Node contain compiled code of the following projects, and of the
standard library of Rust (https://github.com/rust-lang/rust, MIT OR Apache-2.0). Where a project offers a
choice, we take the Apache License 2.0. This file is generated: `make notices`.
"""

MIT = """\
{who}

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction, including
without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the
following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial
portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT
LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO
EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER
IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR
THE USE OR OTHER DEALINGS IN THE SOFTWARE."""

Package = dict[str, Any]


class NoTextError(Exception):
    """A crate has no license text, and no license name that this program knows."""


def linked(metadata: Package) -> dict[str, Package]:
    """Return the third-party packages whose code is in a published package, by id."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    pending = [key for key, package in packages.items() if package["name"] in PUBLISHED]
    seen: set[str] = set()
    while pending:
        key = pending.pop()
        if key in seen or any("proc-macro" in target["kind"] for target in packages[key]["targets"]):
            continue
        seen.add(key)
        for dependency in nodes[key]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                pending.append(dependency["pkg"])
    return {key: packages[key] for key in seen if packages[key]["source"] is not None}


def choices(expression: str) -> list[str]:
    """Return the alternative licenses, or the whole expression if it has another form."""
    alternatives = re.split(r"\s+OR\s+|\s*/\s*", expression)
    return [expression] if any(" AND " in one for one in alternatives) else alternatives


def texts(package: Package) -> list[str]:
    """Return the license texts that a package requires."""
    folder = Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.iterdir() if path.is_file() and TEXTS.match(path.name))
    if "Apache-2.0" in choices(package["license"]):
        kept = [path for path in files if ALWAYS.search(path.name)]
        return [apache(), *(path.read_text(errors="replace") for path in kept)]
    found = [path.read_text(errors="replace") for path in files]
    if not found and package["license"] == "MIT":
        # A few crates only name the license; its text is always the same.
        found = [MIT.format(who=f"Copyright (c) {', '.join(package['authors']) or package['repository']}")]
    if not found:
        raise NoTextError(f"{package['name']} {package['version']} ({package['license']}) brings no text")
    return found


def apache() -> str:
    """Return the Apache license, which is also this project's license."""
    return (ROOT / "LICENSE").read_text()


def notices() -> str:
    """Return the content of the file."""
    packages: dict[str, Package] = {}
    for target in TARGETS:
        command = ["cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={target}"]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
        packages |= linked(json.loads(done.stdout))
    bearers: dict[str, list[str]] = defaultdict(list)
    for package in sorted(packages.values(), key=lambda one: (one["name"], one["version"])):
        name = f"{package['name']} {package['version']} ({package['license']}) {package['repository'] or ''}"
        for text in texts(package):
            bearers["\n".join(line.rstrip() for line in text.strip().splitlines())].append(name.rstrip())
    parts = [HEAD]
    for text, names in sorted(bearers.items(), key=lambda item: (-len(item[1]), item[1])):
        parts.append("\n".join([*names, "", text, ""]))
    return f"\n{'-' * 100}\n\n".join(parts)


def problem() -> str | None:
    """Return the problem with the committed file, or None."""
    try:
        wanted = notices()
    except NoTextError as error:
        return str(error)
    if not NOTICES.exists() or NOTICES.read_text() != wanted:
        return f"{NOTICES.name} is out of date: run `make notices`, and look at the difference"
    return None


def main() -> int:
    """Write the file, or check it."""
    if "--check" in sys.argv[1:]:
        wrong = problem()
        print(wrong or "")
        return 1 if wrong else 0
    try:
        NOTICES.write_text(notices())
    except NoTextError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
