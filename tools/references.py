"""Fails if docs/protocol.md or docs/track-record.md names something that does not exist.

A reference has the form `path/from/the/top.rs::function`, with types and modules in between if needed. A Node
test has the form `path.test.mjs::title`. Each rule of the protocol must name a function, and each bug of the
track record a test. A planted bug there must be a patch of tests/mutants.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = Path("docs/protocol.md")
RECORD = Path("docs/track-record.md")

_REFERENCE = re.compile(r"`([\w./-]+\.(?:rs|py|ts|mjs))::([^`]+)`")
_RULE = re.compile(r"^\*\*(\d+)\. ", re.MULTILINE)
_DEFINITION = r"\b(?:fn|def|function)\s+{}\b"
_PLANTED = re.compile(r"`([a-z]+(?:-[a-z0-9]+){2,})`")


def missing(root: Path, document: Path) -> list[str]:
    """Return the dead references of a page."""
    text = (root / document).read_text()
    found = []
    for reference in _REFERENCE.finditer(text):
        path, name = reference[1], reference[2]
        line = text.count("\n", 0, reference.start()) + 1
        if not (root / path).is_file():
            found.append(f"{document}:{line}: there is no file {path}")
            continue
        source = (root / path).read_text()
        if path.endswith(".mjs"):
            if not re.search(rf"""(['"`]){re.escape(name)}\1""", source):
                found.append(f"{document}:{line}: {path} has no test '{name}'")
        elif not re.search(_DEFINITION.format(re.escape(name.rsplit("::", 1)[-1])), source):
            found.append(f"{document}:{line}: {path} defines no function `{name.rsplit('::', 1)[-1]}`")
    return found


def untested(root: Path) -> list[str]:
    """Return bugs of the track record without a test, and planted bugs that do not exist."""
    found = []
    heading = ""
    for number, line in enumerate((root / RECORD).read_text().splitlines(), 1):
        if line.startswith("|") and heading.startswith("| Bug "):
            if not line.startswith("|---") and not _REFERENCE.search(line):
                found.append(f"{RECORD}:{number}: the bug has no test")
            found += [
                f"{RECORD}:{number}: there is no planted bug {name}"
                for name in _PLANTED.findall(line)
                if not (root / "tests" / "mutants" / f"{name}.patch").is_file()
            ]
        else:
            heading = line
    return found


def problems(root: Path) -> list[str]:
    """Return the problems with the references."""
    text = (root / DOCUMENT).read_text()
    found = missing(root, DOCUMENT)
    starts = list(_RULE.finditer(text))
    if not starts:
        found.append(f"{DOCUMENT}: no rule was recognized")
    for rule, following in zip(starts, [*starts[1:], None], strict=True):
        section = text[rule.start() : following.start() if following else len(text)]
        if not _REFERENCE.search(section):
            found.append(f"{DOCUMENT}: rule {rule[1]} names no `file.rs::function`")
    return found + missing(root, RECORD) + untested(root)


def main() -> int:
    """Print the problems. Return 1 if there are any."""
    found = problems(ROOT)
    if found:
        print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
