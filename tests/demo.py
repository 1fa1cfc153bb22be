"""Python, Node and Java/Curator processes contend for one lock; one is killed while it holds.

One line per event, one column per process, and a summary at the end. The servers and workers are those of
the test suite.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness import history
from harness.observer import Observer
from harness.server import Standalone
from harness.worker import Unanswered, Worker, WorkerError

PATH = "/demo/lock"
SESSION_TIMEOUT = 2.0
LENGTH = 15.0
"""Seconds of contention."""

VICTIM_DIES_AT = 5.0
CAST = [
    ("python", "Python"),
    ("aio", "asyncio"),
    ("node", "Node"),
    ("curator", "Java/Curator"),
    ("python", "Python (victim)"),
]
COLOURS = ["green", "cyan", "yellow", "magenta", "red"]


@dataclass
class Actor:
    """One process on the stage."""

    worker: Worker
    title: str
    colour: str
    grants: int = 0
    longest_wait: float = 0.0
    dead: bool = False
    holding: threading.Event = field(default_factory=threading.Event)


class Stage:
    """Where the lines scroll by."""

    def __init__(self, actors: list[Actor]) -> None:
        self._console = Console(highlight=False)
        self._actors = actors
        self._start = time.monotonic()
        self._lock = threading.Lock()

    @property
    def elapsed(self) -> float:
        """Seconds since the curtain rose."""
        return time.monotonic() - self._start

    def say(self, actor: Actor, what: str, *, strong: bool = False) -> None:
        """One event; the lane of the process shows who holds."""
        with self._lock:
            line = Text(f"{self.elapsed:6.2f} s  ")
            for other in self._actors:
                mark = "✝" if other.dead else "█" if other.holding.is_set() else "·"
                line.append(f"{mark} ", style=other.colour)
            line.append(f" {actor.title:<16}", style=f"bold {actor.colour}")
            line.append(what, style=f"bold {actor.colour}" if strong else "")
            self._console.print(line)

    def note(self, what: str) -> None:
        """A word to the audience."""
        self._console.print(what, style="dim")

    def summary(self, overlaps: int, left: int) -> None:
        """The result."""
        table = Table(title="Summary", title_justify="left")
        table.add_column("process")
        table.add_column("grants", justify="right")
        table.add_column("longest wait", justify="right")
        for actor in self._actors:
            table.add_row(actor.title, str(actor.grants), f"{actor.longest_wait:.2f} s", style=actor.colour)
        self._console.print(table)
        self._console.print(f"overlaps found: {overlaps}")
        self._console.print(f"nodes left: {left}")


def play(actor: Actor, stage: Stage) -> None:
    """Take the lock again and again until the time is up, or until killed."""
    try:
        while stage.elapsed < LENGTH:
            asked = time.monotonic()
            stage.say(actor, "waits")
            granted = actor.worker.acquire(owner="main").expect("acquired", timeout=60)
            waited = time.monotonic() - asked
            actor.grants += 1
            actor.longest_wait = max(actor.longest_wait, waited)
            hold = random.uniform(0.15, 0.5)
            actor.holding.set()
            stage.say(
                actor,
                f"holds for {hold * 1000:.0f} ms, fencing token {granted.get('token', '?')}",
                strong=True,
            )
            time.sleep(hold)
            actor.holding.clear()
            actor.worker.release(owner="main")
            time.sleep(random.uniform(0.0, 0.1))
    except (Unanswered, WorkerError):
        if not actor.dead:
            raise


def kill_while_holding(actor: Actor, stage: Stage) -> None:
    """Kill -9, in the middle of a hold."""
    while stage.elapsed < VICTIM_DIES_AT:
        time.sleep(0.05)
    actor.holding.wait(30)
    actor.dead = True
    actor.worker.kill()
    stage.say(
        actor,
        f"killed with SIGKILL while it holds; the lock is free within {SESSION_TIMEOUT:.0f} s",
        strong=True,
    )
    actor.holding.clear()


def main() -> int:
    """The whole play; its exit status says whether it went well."""
    with Standalone() as server, Observer(server.hosts) as observer:
        actors = [
            Actor(Worker(surface), title, colour)
            for (surface, title), colour in zip(CAST, COLOURS, strict=True)
        ]
        try:
            stage = Stage(actors)
            stage.note(f"One lock, {PATH}, on Apache ZooKeeper; █ holds, · does not, ✝ was killed.")
            for actor in actors:
                actor.worker.connect(server.hosts, session_timeout=SESSION_TIMEOUT)
                actor.worker.lock(PATH)
            parts = [threading.Thread(target=play, args=(actor, stage)) for actor in actors]
            parts.append(threading.Thread(target=kill_while_holding, args=(actors[-1], stage)))
            for part in parts:
                part.start()
            for part in parts:
                part.join()
            holds = [hold for actor in actors for hold in actor.worker.holds()]
            overlaps = history.overlaps(holds)
            left = observer.queue(PATH)
            stage.summary(len(overlaps), len(left))
            for overlap in overlaps:
                stage.note(overlap)
            return 1 if overlaps or left or not all(actor.grants for actor in actors) else 0
        finally:
            for actor in actors:
                actor.worker.kill()


if __name__ == "__main__":
    sys.exit(main())
