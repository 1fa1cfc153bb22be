"""Fails if a link in Markdown is dead: its file does not exist, or has no such heading.

It checks relative links, as the hosting site's file view follows them, and links to this repository's files
on that site. Pages that are also published on PyPI and npm must have only the latter.
"""

from __future__ import annotations

import posixpath
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOST = "https://github.com/zklock/zklock"
PUBLISHED = ("bindings-python/README.md", "bindings-node/README.md")

_FENCE = re.compile(r"^ *(```+|~~~+).*?^ *\1 *$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"(\]\()([^()\s]+)(\))")
_HEADING = re.compile(r"^#{1,6} +(.+?)(?: +#+)?$", re.MULTILINE)
_OURS = re.compile(rf"{re.escape(HOST)}/(?:blob|tree|raw)/main/([^#]*)(#.*)?$")


@dataclass(frozen=True)
class Link:
    """A link: the offsets of its target in the text, and the target."""

    start: int
    end: int
    target: str


def blanked(text: str) -> str:
    """Return the text with all code replaced by spaces, so that offsets stay the same."""

    def spaces(code: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", code[0])

    return _CODE.sub(spaces, _FENCE.sub(spaces, text))


def links(text: str) -> Iterator[Link]:
    """Yield the links and pictures of a page, except those in code."""
    for found in _LINK.finditer(blanked(text)):
        yield Link(found.start(2), found.end(2), text[found.start(2) : found.end(2)])


def anchor(heading: str) -> str:
    """Return the hosting site's anchor for a heading. The documentation site is
    configured to use the same.
    """
    shown = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
    return re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")


@cache
def anchors(path: Path) -> frozenset[str]:
    """Return the anchors that links can use. Of two equal headings, only the first has the same anchor on
    every site.
    """
    text = _FENCE.sub("", path.read_text())
    return frozenset(anchor(heading) for heading in _HEADING.findall(text))


def dead(root: Path, page: str, target: str) -> str | None:
    """Return why a link is dead, or None."""
    if ours := _OURS.match(target):
        path, fragment = ours[1], (ours[2] or "")[1:]
    elif re.match(r"[a-z]+:", target):
        return None
    elif page in PUBLISHED:
        return f"does not work where the page is published; write {HOST}/blob/main/…"
    elif target.startswith("/"):
        return "begins with /, which means another place on each site"
    else:
        path, _, fragment = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
    if path.startswith("..") or not (root / path).exists():
        return "there is no such file"
    if fragment and path.endswith(".md") and fragment not in anchors(root / path):
        return "there is no such heading"
    return None


def problems(root: Path, pages: list[str]) -> list[str]:
    """Return the dead links."""
    found = []
    for page in pages:
        text = (root / page).read_text()
        for link in links(text):
            if (why := dead(root, page, link.target)) is not None:
                found.append(f"{page}:{text.count(chr(10), 0, link.start) + 1}: {link.target}: {why}")
    return found


def tracked(root: Path) -> list[str]:
    """Return all Markdown files of the repository."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.splitlines() if (root / name).exists()]


def main() -> int:
    """Print the dead links. Return 1 if there are any."""
    found = problems(ROOT, tracked(ROOT))
    if found:
        print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
