"""Draws the diagrams of the documentation: `python3 tools/diagrams.py`. A test compares them with the files.

Each diagram has its own background, which changes together with the ink. It is legible on light and dark
pages.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "diagrams"

STYLE = """
  svg { font: 14px system-ui, sans-serif; --paper: #fff; --ink: #1f2430; --soft: #5b6472; --line: #8a93a3;
    --good: #1b7f4d; --warn: #a05a00; --bad: #b3261e; --fill: #eef1f6 }
  @media (prefers-color-scheme: dark) {
    svg { --paper: #1b1f2a; --ink: #e8ebf2; --soft: #a9b2c3; --line: #7d879a;
      --good: #59c98f; --warn: #f0ae55; --bad: #ff8a80; --fill: #2a3040 }
  }
  .paper { fill: var(--paper) } text { fill: var(--ink) } .soft { fill: var(--soft); font-size: 12px }
  .box { fill: var(--fill); stroke: var(--line); stroke-width: 1.5 }
  .arrow { fill: none; stroke: var(--line); stroke-width: 1.5; marker-end: url(#tip) }
  .dashed { stroke-dasharray: 5 4 } #tip path { fill: var(--line) }
  .good { stroke: var(--good) } .warn { stroke: var(--warn) } .bad { stroke: var(--bad) }
  .bar { stroke: none } .bar.good { fill: var(--good) } .bar.warn { fill: var(--warn) }
  .bar.bad { fill: var(--bad) }
  .tick { stroke: var(--ink); stroke-width: 1.5 } .strong { font-weight: 600 }
"""
TIP = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'


def picture(width: int, height: int, title: str, parts: Iterator[str]) -> str:
    """Return a complete drawing."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<defs>{TIP}<path d="M0 0 8 4 0 8z"/></marker></defs>',
        f'<rect class="paper" width="{width}" height="{height}" rx="8"/>',
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> str:
    """Return one line of text."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{kind}">{escape(words)}</text>'


def box(x: float, y: float, width: float, lines: tuple[str, ...], kind: str = "") -> Iterator[str]:
    """Yield a rounded box with a title and lines below it."""
    height = 24 + 18 * len(lines)
    yield f'<rect class="box {kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height}" rx="8"/>'
    for number, line in enumerate(lines):
        yield text(x + width / 2, y + 26 + 18 * number, line, "soft" if number else "strong")


def arrow(path: str, kind: str = "") -> str:
    """Return a line with an arrowhead."""
    return f'<path class="arrow {kind}" d="{path}"/>'


def queue() -> Iterator[str]:
    """Draw which contender waits for which."""
    contenders = [
        ("…0000000012", "Python, zklock", "holds the lock"),
        ("…0000000013", "Java, Curator", "waits"),
        ("…0000000014", "Node, zklock", "waits"),
        ("…0000000015", "Rust, zklock", "waits"),
    ]
    yield text(20, 30, "/locks/report", "strong", "start")
    yield text(130, 30, "one ephemeral sequential node for each contender", "soft", "start")
    for number, (name, *about) in enumerate(contenders):
        yield from box(20 + 190 * number, 100, 160, (name, *about), "" if number else "good")
    for number in (1, 2, 3):
        left, right = 140 + 190 * (number - 1), 70 + 190 * number
        yield arrow(f"M{right} 100C{right} 74 {left} 74 {left} 98")
    for number in (2, 3):
        left, right = 110 + 190 * (number - 2), 100 + 190 * number
        yield arrow(f"M{right} 178C{right} 226 {left} 226 {left} 180", "dashed")
    yield text(20, 66, "watches the node before its own", "soft", "start")
    second = "zklock also watches the second one before: it lists again while the first still holds"
    yield text(390, 240, second, "soft")
    yield text(390, 268, "A release deletes the node. Nobody but the next in line is granted the lock.")


def lease() -> Iterator[str]:
    """Draw the states of a lease."""
    yield from box(20, 60, 150, ("queued", "its node waits"))
    yield from box(270, 60, 170, ("held", "the server answers", "check() passes"), "good")
    yield from box(270, 230, 170, ("suspended", "the term still runs", "check() passes"), "warn")
    yield from box(580, 230, 180, ("lost", "final", "check() raises LockLost"), "bad")
    yield from box(580, 60, 180, ("released", "its node is deleted"))
    yield arrow("M170 85H268")
    yield text(219, 76, "first in line", "soft")
    yield arrow("M440 85H578")
    yield text(509, 76, "release()", "soft")
    yield arrow("M320 138V228")
    yield text(312, 178, "connection lost,", "soft", "end")
    yield text(312, 194, "or a proof is late", "soft", "end")
    yield arrow("M390 230V140")
    yield text(398, 170, "a heartbeat is", "soft", "start")
    yield text(398, 186, "acknowledged anew", "soft", "start")
    yield arrow("M440 268H578")
    yield text(509, 259, "the term ends", "soft")
    yield arrow("M440 120C540 130 620 170 650 228")
    yield text(610, 150, "node deleted, session expired,", "soft", "start")
    yield text(622, 166, "client closed, held too long", "soft", "start")
    yield text(20, 326, "A lost lease stays lost: its owner acquires the lock anew.", "soft", "start")


def term() -> Iterator[str]:
    """Draw a lease's term and the ensemble's session after the last proof."""
    left, unit = 150.0, 600.0

    def at(part: float) -> float:
        return left + unit * part

    def bar(y: int, start: float, end: float, kind: str, words: str) -> Iterator[str]:
        width = unit * (end - start)
        yield f'<rect class="bar {kind}" x="{at(start):g}" y="{y}" width="{width:g}" height="10" rx="3"/>'
        yield text(at((start + end) / 2), y + 28, words, "soft")

    yield text(20, 30, "T is the session time-out, of at least four of the servers' ticks", "soft", "start")
    yield text(20, 84, "the holder", "strong", "start")
    yield from bar(74, 0, 0.5, "good", "its term: held, then suspended")
    yield from bar(74, 0.5, 1.1, "bad", "lost: check() raises")
    yield text(20, 154, "the ensemble", "strong", "start")
    yield from bar(144, 0, 0.67, "good", "the session lives, at the least")
    yield from bar(144, 0.67, 1.1, "warn", "may be granted to the next")
    yield f'<path class="tick" d="M{at(0):g} 205H{at(1.1):g}"/>'
    marks = [(0.0, "0"), (1 / 6, "T/6"), (2 / 6, "T/3"), (0.5, "T/2"), (0.67, "0.67 T"), (1.0, "T")]
    for part, words in marks:
        yield f'<path class="tick" d="M{at(part):g} 200V210"/>'
        yield text(at(part), 228, words, "soft")
    yield text(at(0), 250, "last proof sent", "soft")
    yield text(at(0.25), 250, "heartbeats, unanswered", "soft")
    yield text(at(0.5), 250, "the term ends", "soft")
    yield text(at(0.8), 250, "the session ends", "soft")


def sequence(lanes: tuple[str, ...], steps: tuple[tuple[int, int, str, str], ...]) -> Iterator[str]:
    """Draw messages between parts, from top to bottom. A step has its two lanes, its text and its style."""
    apart = 190
    bottom = 66 + 38 * len(steps)
    for number, lane in enumerate(lanes):
        x = 95 + apart * number
        yield f'<path class="tick dashed" d="M{x} 44V{bottom}"/>'
        yield from box(x - 85, 12, 170, (lane,))
    for number, (left, right, words, kind) in enumerate(steps):
        y = 86 + 38 * number
        start, end = 95 + apart * left, 95 + apart * right
        if left == right:
            yield f'<circle class="box {kind}" cx="{start}" cy="{y}" r="5"/>'
            last = left == len(lanes) - 1
            yield text(start + (-12 if last else 12), y + 4, words, "soft", "end" if last else "start")
        else:
            yield arrow(f"M{start} {y}H{end + (3 if end < start else -3)}", kind)
            yield text((start + end) / 2, y - 6, words, "soft")


PARTS = ("caller", "driver", "queue", "servers")


def acquire() -> Iterator[str]:
    """Draw how a free lock is acquired."""
    yield from sequence(
        PARTS,
        (
            (0, 1, "Command::Join", ""),
            (1, 2, "Event::Join", ""),
            (2, 1, "Action::Create, List", ""),
            (1, 3, "create and getChildren, in one packet", ""),
            (3, 1, "node and listing", ""),
            (1, 2, "Event::Created, Listed", ""),
            (2, 1, "Action::Grant: it is first", "good"),
            (1, 0, "Lease", "good"),
        ),
    )


def release() -> Iterator[str]:
    """Draw how a lock is released and handed on within a client."""
    yield from sequence(
        PARTS,
        (
            (0, 1, "Notice::Released", ""),
            (1, 2, "Event::Release", ""),
            (2, 1, "Action::Delete", ""),
            (1, 3, "delete", ""),
            (2, 1, "Action::Grant: the next one", "good"),
            (3, 1, "deleted", ""),
            (1, 0, "the release is answered", ""),
        ),
    )


def loss() -> Iterator[str]:
    """Draw how a lease is lost."""
    yield from sequence(
        ("servers", "driver", "hold table", "lease"),
        (
            (1, 0, "heartbeat: do our nodes exist?", ""),
            (0, 1, "no node; or no answer at all", "bad"),
            (1, 1, "the queue, or the term's alarm, ends the hold", "bad"),
            (1, 2, "lose(reason)", "bad"),
            (2, 3, "state: lost, for good", "bad"),
            (3, 3, "check() fails, lost() returns", "bad"),
        ),
    )


def reconnection() -> Iterator[str]:
    """Draw how leases survive a lost connection."""
    yield from sequence(
        ("servers", "transport", "driver", "lease"),
        (
            (0, 2, "the connection is lost", "warn"),
            (2, 3, "suspended; the term runs on", "warn"),
            (1, 0, "dial, soon while a lease is at stake", ""),
            (0, 2, "connected again", ""),
            (2, 0, "heartbeat", ""),
            (0, 2, "our node exists", "good"),
            (2, 3, "held again", "good"),
        ),
    )


DIAGRAMS = {
    "queue": (800, 290, "The queue of one lock: four contenders, and which nodes each watches", queue),
    "lease": (800, 335, "The life of a lease: queued, held, suspended, lost or released", lease),
    "acquire": (760, 390, "An acquire: what caller, driver, queue and servers tell each other", acquire),
    "release": (760, 350, "A release, and a hand-off within one client", release),
    "loss": (760, 310, "A lost lease: the evidence, the hold table, the lease", loss),
    "reconnection": (760, 350, "A lost connection: leases are suspended, and held again", reconnection),
    "term": (840, 270, "A term ends at half the session time-out, before the session can end", term),
}


def drawn(name: str) -> str:
    """Return one diagram."""
    width, height, title, parts = DIAGRAMS[name]
    return picture(width, height, title, parts())


def main() -> int:
    """Write all diagrams."""
    for name in DIAGRAMS:
        (PICTURES / f"{name}.svg").write_text(drawn(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
