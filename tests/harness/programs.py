"""The programs of a page: complete files, each named by its first line, and what they print."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

# Where the pages expect the server for development.
SHOWN_HOSTS = "127.0.0.1:2181"

_BLOCK = re.compile(r"^```([\w-]+)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"(?:#|//) ([\w./-]+\.(?:py|mjs|cjs|ts|sql))\b")
_COMMENTED = {"python", "js", "ts", "sql"}


@dataclass(frozen=True)
class Program:
    """One file."""

    page: Path
    name: str
    code: str
    printed: str | None
    """The block `text` after it, which programs in several languages that follow each other share."""

    def for_server(self, hosts: str) -> str:
        """The same, on another server."""
        return self.code.replace(SHOWN_HOSTS, hosts)


def programs(page: Path) -> list[Program]:
    """The programs of a page in their order."""
    found: list[Program] = []
    waiting: list[tuple[str, str]] = []

    def take(printed: str | None) -> None:
        found.extend(Program(page, name, code, printed) for name, code in waiting)
        waiting.clear()

    last = 0
    text = page.read_text()
    for block in _BLOCK.finditer(text):
        # What is printed follows at once.
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
    """The first lines of programs without a name, which nobody could run."""
    blocks = [block for block in _BLOCK.finditer(page.read_text()) if block[1] in _COMMENTED]
    return [block[2].splitlines()[0] for block in blocks if _NAME.match(block[2]) is None]
