"""Finds the complete programs in a documentation page, with their file names and expected output."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

# Address of the development server in the pages.
SHOWN_HOSTS = "127.0.0.1:2181"

_BLOCK = re.compile(r"^```([\w-]+)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"(?:#|//) ([\w./-]+\.(?:py|mjs|cjs|ts|sql))\b")
_COMMENTED = {"python", "js", "ts", "sql"}


@dataclass(frozen=True)
class Program:
    """One program, with the page that contains it."""

    page: Path
    name: str
    code: str
    printed: str | None
    """The `text` block after the program. Adjacent programs in several languages share one block."""

    def for_server(self, hosts: str) -> str:
        """Return the program's code with the address of another server."""
        return self.code.replace(SHOWN_HOSTS, hosts)


def programs(page: Path) -> list[Program]:
    """Return the programs of a page in order."""
    found: list[Program] = []
    waiting: list[tuple[str, str]] = []

    def take(printed: str | None) -> None:
        found.extend(Program(page, name, code, printed) for name, code in waiting)
        waiting.clear()

    last = 0
    text = page.read_text()
    for block in _BLOCK.finditer(text):
        # A program's expected output must follow it directly, without text in between.
        if text[last : block.start()].strip():
            take(None)
        last = block.end()
        if block[1] == "text":
            take(block[2])
        elif block[1] in _COMMENTED and (name := _NAME.match(block[2])) is not None:
            waiting.append((name[1], block[2]))
    take(None)
    names = [program.name for program in found]
    assert len(set(names)) == len(names), f"{page.name}: two programs with one name"
    return found


def nameless(page: Path) -> list[str]:
    """Return the first lines of programs without a file name. A test cannot run these."""
    blocks = [block for block in _BLOCK.finditer(page.read_text()) if block[1] in _COMMENTED]
    return [block[2].splitlines()[0] for block in blocks if _NAME.match(block[2]) is None]
