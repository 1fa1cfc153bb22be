"""Fails if a line of Markdown prose is longer than 120 columns.

Table rows and code blocks cannot be wrapped, so they may be longer.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WIDTH = 120
ROOT = Path(__file__).resolve().parent.parent


def too_long(text: str) -> list[int]:
    """Return the numbers of the lines that are too long."""
    found = []
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif len(line) > WIDTH and not in_code and not line.startswith(("|", "    ")):
            found.append(number)
    return found


def main() -> int:
    """Print the lines that are too long. Return 1 if there are any."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    found = [f"{name}:{number}" for name in names for number in too_long((ROOT / name).read_text())]
    for place in found:
        print(f"{place}: longer than {WIDTH} columns")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
