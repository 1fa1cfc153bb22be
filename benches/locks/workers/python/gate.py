"""Common parts of the Python workers: the task, the gate, and the line protocol."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from latencies import Latencies

BATCH = 100
"""Number of operations without a request between two checks of the gate."""

STACK = 512 * 1024
"""Stack size of a thread in bytes. It is small because there can be thousands of threads."""


@dataclass(frozen=True)
class Task:
    """A worker's task. `benches/README.md` describes the fields."""

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
    latencies: bool = False
    period: float = 0

    @classmethod
    def from_arguments(cls) -> Task:
        """Read the task from the first argument, in JSON."""
        return cls(**json.loads(sys.argv[1]))

    def client_hosts(self, client: int) -> str:
        """Return the server of a client. If latencies are measured, the clients are distributed over the
        servers in a fixed order, because the distance to the leader changes latencies.
        """
        each = self.hosts.split(",")
        return each[client % len(each)] if self.latencies else self.hosts

    @property
    def exclusive(self) -> bool:
        """Return whether one contender at a time holds the lock."""
        return self.kind == "mutex" and not self.each

    def lock_path(self, contender: int) -> str:
        """Return the path of a contender's lock."""
        return f"{self.path}/{contender}" if self.each else self.path

    def writes(self, contender: int, turn: int) -> bool:
        """Return whether a contender acquires the write lock in this turn."""
        if self.reads == 100:
            return False
        step = round(100 / (100 - self.reads))
        return (contender + turn) % step == step - 1


SETTLED = 10.0
"""Time limit in seconds for the operation that is in progress at the end of a turn."""


class Gate:
    """A gate that stops contenders between two measurements. While it is closed, the holder keeps its lock,
    so the other contenders are idle too.
    """

    def __init__(self, contenders: int) -> None:
        self._opened = threading.Event()
        self.counts = [0] * contenders
        # True if a contender waits for the gate.
        self.parked = False

    def wait(self) -> None:
        """Return when the gate is open."""
        if not self._opened.is_set():
            self.parked = True
            self._opened.wait()
            self.parked = False

    def count(self, seconds: float) -> tuple[int, float]:
        """Open the gate for this many seconds. Return the number of completed pairs and the actual time."""
        before, began = sum(self.counts), time.perf_counter()
        self._opened.set()
        time.sleep(seconds)
        self._opened.clear()
        return sum(self.counts) - before, time.perf_counter() - began


def settle(gate: Gate) -> None:
    """Wait until the operation that was in progress at the end of a turn is complete: its holder waits for
    the gate. Without this, a turn would usually lose its longest latency.
    """
    deadline = time.monotonic() + SETTLED
    while not gate.parked and time.monotonic() < deadline:
        time.sleep(0.001)


def tell(**fields: object) -> None:
    """Write a line to the driver."""
    print(json.dumps(fields), flush=True)


def serve(gate: Gate, version: str, close: Callable[[], None], latencies: Latencies | None = None) -> None:
    """Report that the worker is ready, follow the driver's commands until `stop`, and end this process."""
    tell(ready=version)
    for line in sys.stdin:
        word, *rest = line.split()
        if word != "count":
            break
        if latencies is None or not latencies.on:
            count, seconds = gate.count(float(rest[0]))
            tell(count=count, seconds=seconds)
            continue
        latencies.begin()
        count, seconds = gate.count(float(rest[0]))
        if latencies.exclusive:
            settle(gate)
        tell(count=count, seconds=seconds, latencies=latencies.take())
    close()
    # Exit immediately, because threads that wait for a lock would keep the process alive.
    os._exit(0)


def start(threads: int, body: Callable[[int], None]) -> list[threading.Thread]:
    """Start threads, each with its number."""
    threading.stack_size(STACK)
    started = [threading.Thread(target=body, args=(number,), daemon=True) for number in range(threads)]
    for thread in started:
        thread.start()
    return started


def hold(holders: int, acquire: Callable[[], object]) -> None:
    """Start threads that each call `acquire` once and keep the result. Return when all have succeeded."""
    ready = threading.Semaphore(0)

    def body(_number: int) -> None:
        kept = acquire()
        ready.release()
        threading.Event().wait()
        del kept

    start(holders, body)
    for _ in range(holders):
        ready.acquire()
