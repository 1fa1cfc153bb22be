"""What the workers in Python share: the task they are given, the gate, and the lines to the driver."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

BATCH = 100
"""How often something that sends nothing is done between two looks at the gate."""

STACK = 512 * 1024
"""Bytes for each thread: there may be thousands."""


@dataclass(frozen=True)
class Task:
    """What a worker is to do; `benches/README.md` says what the fields mean."""

    hosts: str
    path: str
    op: str
    kind: str
    clients: int
    contenders: int
    each: bool
    reads: float
    permits: int
    cohort: int
    linger: float
    held: int

    @classmethod
    def from_arguments(cls) -> Task:
        """The first argument, in JSON."""
        return cls(**json.loads(sys.argv[1]))

    def lock_path(self, contender: int) -> str:
        """The path of the lock of a contender."""
        return f"{self.path}/{contender}" if self.each else self.path

    def writes(self, contender: int, turn: int) -> bool:
        """Whether a contender takes the write lock in this turn."""
        if self.reads == 100:
            return False
        step = round(100 / (100 - self.reads))
        return (contender + turn) % step == step - 1


class Gate:
    """Contenders stop here while nothing is counted, each holding what it has: so nothing else happens."""

    def __init__(self, contenders: int) -> None:
        self._opened = threading.Event()
        self.counts = [0] * contenders

    def wait(self) -> None:
        """Return when the gate is open."""
        self._opened.wait()

    def count(self, seconds: float) -> tuple[int, float]:
        """Open the gate for so long; how many pairs were done, and how long it took."""
        before, began = sum(self.counts), time.perf_counter()
        self._opened.set()
        time.sleep(seconds)
        self._opened.clear()
        return sum(self.counts) - before, time.perf_counter() - began


def tell(**fields: object) -> None:
    """Write a line to the driver."""
    print(json.dumps(fields), flush=True)


def serve(gate: Gate, version: str, close: Callable[[], None]) -> None:
    """Tell the driver that all is ready, do what it says until it says `stop`, and end this process."""
    tell(ready=version)
    for line in sys.stdin:
        word, *rest = line.split()
        if word != "count":
            break
        count, seconds = gate.count(float(rest[0]))
        tell(count=count, seconds=seconds)
    close()
    # Threads that wait for a lock wait on.
    os._exit(0)


def start(threads: int, body: Callable[[int], None]) -> list[threading.Thread]:
    """Start so many threads, each with its number."""
    threading.stack_size(STACK)
    started = [threading.Thread(target=body, args=(number,), daemon=True) for number in range(threads)]
    for thread in started:
        thread.start()
    return started


def hold(holders: int, acquire: Callable[[], object]) -> None:
    """Let so many threads acquire something, and keep it; return when all have it."""
    ready = threading.Semaphore(0)

    def body(_number: int) -> None:
        kept = acquire()
        ready.release()
        threading.Event().wait()
        del kept

    start(holders, body)
    for _ in range(holders):
        ready.acquire()
