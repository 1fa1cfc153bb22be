"""Fails if docs/protocol.md names a file or a function that does not exist, or has a rule that names none.

A reference is written `path/from/the/top.rs::function`; types and modules may stand in between.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = Path("docs/protocol.md")

_REFERENCE = re.compile(r"`([\w./-]+\.(?:rs|py|ts))::([\w:]+)`")
_RULE = re.compile(r"^\*\*(\d+)\. ", re.MULTILINE)
_DEFINITION = r"\b(?:fn|def|function)\s+{}\b"


def problems(root: Path) -> list[str]:
    """What is wrong with the references."""
    text = (root / DOCUMENT).read_text()
    found = []
    for reference in _REFERENCE.finditer(text):
        path, name = reference[1], reference[2].rsplit("::", 1)[-1]
        line = text.count("\n", 0, reference.start()) + 1
        if not (root / path).is_file():
            found.append(f"{DOCUMENT}:{line}: there is no file {path}")
        elif not re.search(_DEFINITION.format(name), (root / path).read_text()):
            found.append(f"{DOCUMENT}:{line}: {path} defines no function `{name}`")
    starts = list(_RULE.finditer(text))
    if not starts:
        found.append(f"{DOCUMENT}: no rule was recognized")
    for rule, following in zip(starts, [*starts[1:], None], strict=True):
        section = text[rule.start() : following.start() if following else len(text)]
        if not _REFERENCE.search(section):
            found.append(f"{DOCUMENT}: rule {rule[1]} names no `file.rs::function`")
    return found


def main() -> int:
    """Prints what is wrong; fails if anything is."""
    found = problems(ROOT)
    if found:
        print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
