"""Writes tests/mutants/table.md: the planted bugs for each rule, transition and type of the API.

    python3 tools/covered.py

A unit test fails if the table is out of date, or if a row has too few bugs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mutants import PATCHES, ROOT, Mutant, patches

TABLE = PATCHES / "table.md"

LEAST = 2
"""Minimum number of bugs in each row of the table."""

HANDLES = ("Mutex", "ReadWriteLock", "Semaphore", "MultiLock", "Election", "Client", "Lease")
SURFACES = ("python sync", "python aio", "node")

TRANSITIONS = (
    "client idle > connecting",
    "client connecting > idle",
    "client connecting > connected",
    "client connected > suspended",
    "client suspended > connected",
    "client connected > connecting",
    "client any > closed",
    "lease held > suspended",
    "lease suspended > held",
    "lease held > released",
    "lease lost is final",
)

HEAD = """# Which bug breaks what

Written by `python3 tools/covered.py` from the headers of the patches; do not edit. A rule is one of
[docs/protocol.md](../../docs/protocol.md) that is carried by more than the pure queue, whose own bugs are in
`core/tests/model/mutants.rs`. There are at least two bugs of each.
"""


def rules() -> Iterator[str]:
    """Yield the rules of docs/protocol.md that are implemented at least partly outside of the queue."""
    text = (ROOT / "docs" / "protocol.md").read_text().partition("## The rules")[2]
    parts = re.split(r"^\*\*(\d+)\. ", text, flags=re.MULTILINE)
    for number, part in zip(parts[1::2], parts[2::2], strict=True):
        files = re.findall(r"`(core/src/[^:`]+)::", part.partition("\n## ")[0])
        if any(not file.startswith("core/src/queue/") for file in files):
            yield f"rule {number}"


def losses() -> Iterator[str]:
    """Return the rows for the transitions of a lease to lost, one for each reason.

    Excludes the loss by a fork, because it is not a transition within a process.
    """
    text = (ROOT / "core" / "src" / "error" / "loss_reason.rs").read_text()
    words = re.findall(r'Self::\w+ => "([^"]+)"', text.partition("impl fmt::Display for LossReason")[0])
    return (f"lease held > lost: {reason}" for reason in words if "fork" not in reason)


def rust() -> Iterator[str]:
    """Yield the rows for the types of the Rust API. A read lock and a write lock have separate rows."""
    for handle in HANDLES:
        halves = ("ReadWriteLock: read", "ReadWriteLock: write") if handle == "ReadWriteLock" else (handle,)
        yield from (f"rust {half}" for half in halves)
    yield "rust shared count"


def rows() -> list[tuple[str, int]]:
    """Return all rows with the minimum number of bugs."""
    handles = [f"{surface}: {handle}" for surface in SURFACES for handle in HANDLES]
    return [(row, LEAST) for row in (*rules(), *TRANSITIONS, *losses(), *rust(), *SURFACES, *handles)]


def covered(mutants: list[Mutant]) -> dict[str, list[str]]:
    """Return the names of the bugs for each row."""
    return {row: [one.name for one in mutants if row in one.covers] for row, _ in rows()}


def table(mutants: list[Mutant]) -> str:
    """Return the table as Markdown."""
    lines = [HEAD, "| What | Bugs |", "|---|---|"]
    for row, names in covered(mutants).items():
        lines.append(f"| {row} | {'<br>'.join(f'`{name}`' for name in names)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TABLE.write_text(table([Mutant.read(path) for path in patches([])]))
